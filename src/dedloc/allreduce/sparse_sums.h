// Sums of sparse contributions: where more contribute than TransferOptions::gather_max, gathering
// (gathered.h) would cost each peer more bytes the more they are. The owner of a part adds what
// came instead, in member order, and sends everybody the same sparse encoding of the mean, in a
// codec of its own (RoundPlan::sum_codec) that holds more numbers of each block.
//
//   sum      = Σ decode(x_i) × 2^k_i, and the owner's own contribution as it is: nothing of it has
//              to travel, so nothing is left out of it before
//   average  = encode(sum / weight): what everybody applies, certified as every average is
//   left out = sum - weight × decode(average): error feedback of the owner's own, in sums over
//              samples as contributions are
//
// The rest that is left out goes into the owner's unsent gradients once a certificate names its
// average (replica/unsent_gradients.h), and so into its next contribution: there is one kind of
// rest to keep, to save, and to tell of when it is lost; and where another peer owns the range in
// the next round, the rest leaves for that one a little at a time, as every contribution does. An
// average that is not certified has left nothing out: everybody has all of it still.
//
// So owners bring something themselves; aggregators own no such parts.
//
// Bytes: with S encoded bytes of a contribution, S' of an average and n members with equal shares
//        each sends (S + S') (n - 1) / n.
// Source: error feedback at both ends, as DoubleSqueeze (arXiv:1905.05957).
// Cost:   that of a mean (mean_reducer.h), an encoding of the owner's part more, and one fp32 for
//         each element of it until the step is decided.

#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dedloc/consensus/plan.h"

namespace dedloc::allreduce {

bool brings_something(const consensus::RoundPlan& plan, std::uint32_t member);
bool owners_bring_something(const consensus::RoundPlan& plan);
std::size_t contributors_in(const consensus::RoundPlan& plan);

// Do owners add the sparse contributions to this part of a checked plan?
bool sums_sparsely(const consensus::RoundPlan& plan, std::uint32_t part);

// This peer, as the owner of a certified average, left so much out of its sum.
struct LeftOut {
    consensus::ElementRange range;
    std::shared_ptr<const std::vector<float>> rest;  // null: it is lost
    bool has_own = false;                            // its own contribution is in that sum, whole
};

// Plans of one step and their repairs, by which an owner may remember what it left out.
inline constexpr std::size_t left_out_rounds_max = 8;

// KeptRests: what this peer left out of sums as their owner, until the step is decided. It outlives
// the exchange: a leader that begins again has a new plan, and may yet propose an older one's
// averages, which some have voted for. Where there are too many plans and repairs, the oldest one
// of the leader with the most is forgotten: a voter may make plans as it likes, and they push
// nobody else's out.
//
// Thread: the network thread.
class KeptRests {
  public:
    using Rest = std::shared_ptr<const std::vector<float>>;

    // An average of this plan that this peer has signed.
    void put(const consensus::RoundPlan& plan, const consensus::FinishedPart& part, Rest rest);
    // Null: there is none, or it is forgotten.
    Rest find(const consensus::FinishedPart& part) const;
    // Forgets those of plans that follow another decision than this: their step is decided.
    void keep_only(const Digest& previous);
    // The ranges of sums that may be certified yet: to these this peer brought all that it had.
    std::vector<consensus::ElementRange> ranges() const;
    std::size_t bytes() const;

  private:
    struct Kept {
        Digest previous;
        PeerId leader;
        consensus::FinishedPart part;
        consensus::ElementRange range;
        Rest rest;
    };
    void forget_a_round();

    std::vector<Kept> kept_;
};

// The process of a peer left this out of certified averages of a plan with this digest. A liar that
// votes alone may have certified any: parts that do not fit the plan count for nothing.
std::vector<LeftOut> left_out_of(const consensus::RoundPlan& plan,
                                 const Digest& digest,
                                 const std::vector<consensus::FinishedPart>& averages,
                                 const PeerId& me,
                                 std::uint64_t incarnation,
                                 const KeptRests& rests);

}  // namespace dedloc::allreduce
