// Checkers: what README says holds, judged from outside. They are fed with what the simulated
// peers say and do (states, contributions, certificates) and believe only what they recompute.
//
//   identical replicas   one state hash for each (branch, step)
//   atomic steps         one certified decision for each (branch, step, attempt) (ChainBook)
//   nothing twice        each sample's fraction is on a chain at most once (SampleAccounts)
//   at most one stale    fresh samples were computed at the step's state, carried ones at the one
//                        before; with the delayed update, one step more for what was
//                        computed ahead
//   honest averages      every average is the weighted mean of exactly the contributions that its
//                        certificate names, each encoded as the run says, to the last bit
//   bounded steps        no gradient that is applied is longer than its plan says
//   nothing lost         what an undisturbed peer handed in is on some chain
//
// Thread: one. Cost: the sums of every commit once more.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dedloc/allreduce/centered_clip_reducer.h"
#include "dedloc/audit/chain_book.h"
#include "dedloc/audit/sample_accounts.h"
#include "dedloc/base/time.h"
#include "dedloc/codec/codec.h"
#include "dedloc/collab/lab.h"

namespace dedloc::lab {

using audit::ChainBook;
using audit::describe;
using audit::Link;
using audit::SampleAccounts;

inline constexpr std::size_t violations_max = 50;  // kept of one run

// A trainer's arguments of Collaboration::step.
struct HandedIn {
    consensus::CounterRange samples;
    std::vector<float> sum;
    Digest state;  // it was computed at
    TimePoint at;
    // With the delayed update: the state that the first samples were computed at, while the step
    // before was made. Zero: none were.
    Digest ahead{};
    // With fragments: what the step moves. Empty: the whole vector.
    consensus::ElementRange moved{};
};

class Checkers {
  public:
    // All parts of the run travel in this codec.
    Checkers(const security::Verifier& verifier,
             std::uint64_t vector_count,
             codec::CodecId codec = codec::CodecId::fp32,
             std::uint64_t fragments = 1)
        : book_(verifier), vector_count_(vector_count), codec_(codec), fragments_(fragments) {}

    // Averages of this run are not means: what reduces them.
    void expect_clipped(const allreduce::CenteredClipRule& rule) {
        clipped_ = std::make_shared<const allreduce::CenteredClipReducer>(rule);
    }

    void on_state(const std::string& who,
                  const Digest& branch,
                  std::uint64_t step,
                  const Digest& root,
                  TimePoint at);
    // The gradient that turned the state before into this one was so long.
    void on_applied(const Digest& branch, std::uint64_t step, double length);
    void on_handed_in(const PeerId& peer, HandedIn handed_in);
    // A run with a sparse codec: the peer chooses from what it handed in and what it had not sent.
    // `process`: after a restart nothing is unsent.
    void on_frozen(const PeerId& peer,
                   std::uint64_t process,
                   const collab::FrozenContribution& frozen);
    void on_certificate(const std::string& who, ByteView certificate, TimePoint at);

    // Was this peer left alone by all faults in this time?
    using Undisturbed = std::function<bool(const PeerId&, TimePoint from, TimePoint to)>;
    // After the run: what needs whole chains. Contributions handed in after `until` may still be
    // on their way and are not judged.
    void finish(const Undisturbed& undisturbed, TimePoint until);

    void violation(std::string text);
    const std::vector<std::string>& violations() const { return violations_; }
    bool clean() const { return violations_.empty(); }

    const ChainBook& book() const { return book_; }
    // The chain with the most committed samples.
    std::vector<const Link*> winner() const;
    // When the first peer stood on a state; nullopt: nobody did.
    std::optional<TimePoint> reached(const Digest& branch, std::uint64_t step) const;
    std::optional<TimePoint> first_seen(const Digest& decision) const;
    double samples_lost() const { return samples_lost_; }  // of undisturbed peers in calm times
    // Undisturbed peers' samples, while others were disturbed: left out of two rounds in a row.
    double samples_expired() const { return samples_expired_; }
    double samples_judged() const { return samples_judged_; }
    std::uint64_t averages_checked() const { return averages_checked_; }
    std::uint64_t averages_of_grids() const { return averages_of_grids_; }  // among them
    std::uint64_t averages_of_sums() const { return averages_of_sums_; }    // likewise

  private:
    struct StateSeen {
        Digest root;
        std::string who;
        TimePoint at;
    };
    // A contribution to a round with a sparse codec, and what was then left unsent.
    struct Frozen {
        consensus::MemberInput input;
        std::vector<float> sent;     // as the others decode it
        std::vector<float> before;   // unsent, before it
        float share = 1;             // of that, in it
        std::vector<float> pending;  // what it sends a little of
        std::uint64_t process = 0;
        std::uint64_t forgotten = 0;
    };
    const Frozen* find_frozen(const consensus::PlanMember& member) const;
    std::vector<float> pending_of(const PeerId& peer,
                                  const consensus::MemberInput& input,
                                  std::span<const float> unsent,
                                  float share) const;
    bool is_decided_without(const PeerId& peer,
                            const consensus::MemberInput& input,
                            const std::set<std::uint64_t>& steps) const;
    void check_unsent(const PeerId& peer, const Frozen& last, const Frozen& next);
    std::vector<float> unsent_after(const Link& link, std::size_t member, const Frozen& last) const;
    bool is_owner_alone_between(const PeerId& peer,
                                std::vector<float> unsent,
                                std::uint64_t from,
                                const std::vector<float>& next) const;
    bool is_gathered(const Link& link, std::size_t part);
    // An owner's sum of sparse contributions, and its average.
    struct Sum {
        Bytes encoded;
        std::vector<float> left_out;
    };
    std::optional<Sum> sum_of(const Link& link, std::size_t part) const;
    bool is_sum(const Link& link, std::size_t part);
    // `moved_from`: where what the step moves begins.
    const HandedIn* find(const PeerId& peer,
                         consensus::CounterRange samples,
                         std::uint64_t moved_from) const;
    struct Expected;
    void check_averages(const Link& link);
    bool is_clipped(const Link& link, std::size_t part);
    bool add_handed_in(const Link& link,
                       const consensus::PlanMember& member,
                       consensus::ElementRange part,
                       Expected& expected);
    void check_staleness(const Link& link);
    void check_ahead(const Link& link, const HandedIn* handed_in, const Link* before);
    void check_states_of_chain();
    void check_twice();
    void check_bounds();
    bool was_left_out(const PeerId& peer, TimePoint from, TimePoint to) const;
    void check_lost(const Undisturbed& undisturbed, TimePoint until);
    const Link* commit_before(const Link& link) const;
    const Link* moved_before(const Link& link) const;

    ChainBook book_;
    std::uint64_t vector_count_;
    codec::CodecId codec_;
    std::uint64_t fragments_;
    std::shared_ptr<const allreduce::CenteredClipReducer> clipped_;
    std::map<std::pair<Digest, std::uint64_t>, StateSeen> states_;
    // By where what was moved begins, and the first counter.
    std::map<PeerId, std::map<std::pair<std::uint64_t, std::uint64_t>, HandedIn>> handed_in_;
    std::map<PeerId, std::vector<Frozen>> frozen_;  // in their order
    std::map<Digest, TimePoint> seen_at_;
    std::map<std::pair<Digest, std::uint64_t>, double> applied_;  // the longest
    std::vector<std::string> violations_;
    std::size_t problems_taken_ = 0;
    double samples_lost_ = 0;
    double samples_expired_ = 0;
    double samples_judged_ = 0;
    std::uint64_t averages_checked_ = 0;
    std::uint64_t averages_of_grids_ = 0;
    std::uint64_t averages_of_sums_ = 0;
};

}  // namespace dedloc::lab
