// SilentValidators: who offers to check others' contributions, is drawn, and does not answer. Its
// checks are made by deputies; but each of them comes later for it. One round may be a broken
// connection; whoever answered nothing since the first of two such rounds, and brought something
// to every round meanwhile, is testified against. As so many voters say so that one of them is
// honest, it is put on probation. A validator with more to check than it has time for answers late,
// but it answers: what is late then counts for nothing.
//
// Bounds: memory_max validators and as many rounds. Thread: the network thread.

#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "dedloc/averaging/evidence.h"

namespace dedloc::validation {

class SilentValidators {
  public:
    static constexpr std::size_t memory_max = 64;

    // The validator answered a check, of whichever round, when the newest one was of that step.
    void answered(const PeerId& validator, std::uint64_t newest);
    // The validator was drawn in the round of that step, and has not answered by now. True: this is
    // the second such round, and it answered nothing since the first.
    bool missed(const PeerId& validator, std::uint64_t step);

    // Somebody testifies, of a round with this plan. The evidence, once, if enough of `voters` do.
    std::optional<averaging::Evidence> take(const security::Verifier& verifier,
                                            const Bytes& plan_bytes,
                                            const consensus::RoundPlan& plan,
                                            const averaging::SignedBy& statement,
                                            const std::vector<consensus::Voter>& voters);

  private:
    struct About {
        Digest plan;
        std::uint32_t subject = 0;
        std::map<std::uint32_t, averaging::SignedBy> statements;  // by witness
        bool told = false;
    };
    std::map<PeerId, std::uint64_t> missed_;    // the first round, by its step
    std::map<PeerId, std::uint64_t> answered_;  // the newest round when it last did
    std::deque<About> about_;
};

}  // namespace dedloc::validation
