// Fetching finished parts from whoever has them, by the digest of their bytes.
//
// Thread: the network thread. Cancel: nothing is left behind.

#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "dedloc/allreduce/environment.h"

namespace dedloc::allreduce {

struct PartSources {
    std::vector<PeerId> members;           // the plan's, in its order
    std::vector<PeerId> candidates;        // whom to ask, in this order
    std::vector<PeerId> co_downloaders{};  // who may be fetching the same
};

class PartFetcher {
  public:
    // Waits for a finished part as long as its owner goes on sending.
    using Arrival = std::function<Task<void>(consensus::FinishedPart, TimePoint deadline)>;

    explicit PartFetcher(const TransferEnvironment& environment) : environment_(environment) {}
    // For one that takes part in rounds; without it nothing is on its way.
    void wait_for_arrivals(Arrival arrival) { arrival_ = std::move(arrival); }

    // All parts of a commit, several at a time; what comes is in the part store. Each is asked of
    // who reduced it, so that links are used as the plan used them, then of one candidate after the
    // other: connected ones first, who does not answer last. Those who fetch the same begin with
    // different parts; where parts take long, each asks the co-downloader who began a little before
    // one for it first. Errors: not_found (nobody who was asked has one of them), timeout.
    Task<Result<void>> fetch(std::vector<consensus::FinishedPart> parts,
                             PartSources sources,
                             TimePoint deadline);

  private:
    struct Fetching;
    Task<Result<SharedBytes>> ask_for_part(consensus::FinishedPart header,
                                           std::shared_ptr<Fetching> fetching,
                                           PeerId candidate,
                                           TimePoint until);
    Task<Result<SharedBytes>> fetch_part(consensus::FinishedPart header,
                                         std::shared_ptr<Fetching> fetching,
                                         TimePoint deadline);
    Task<void> fetch_some(std::shared_ptr<Fetching> fetching, std::size_t lane, TimePoint deadline);
    std::size_t at_once_max(std::size_t parts_in_all) const;

    const TransferEnvironment& environment_;
    Arrival arrival_;
    std::size_t at_once_ = 0;      // that the last fetch of a commit's parts came to
    Duration part_fetched_in_{0};  // and how long a part took
};

std::vector<PeerId> peers_of(const std::vector<consensus::PlanMember>& members);

// Answers fetch calls from the part store.
Result<Bytes> answer_fetch(const PartStore& parts, ByteView request);

}  // namespace dedloc::allreduce
