// CommitAverages: the averaged bytes of a commit, for the voter that is asked to certify it:
// fetched where they are missing, looked at, and kept.
//
// Files "parts.0", "parts.1": averaged parts of the last two commits voted for, each part at one
// voter, so that bytes a majority vouched for survive the death of all processes that held them in
// memory (best effort: written beside the vote, not before it).
// Cost: 1/P of the average to disk a commit, in the background. Lifetime: stop() before
// destruction. Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "dedloc/allreduce/fetch.h"
#include "dedloc/averaging/environment.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::averaging {

class CommitAverages final : public consensus::Averages {
  public:
    CommitAverages(const RoundEnvironment& environment, allreduce::PartFetcher& fetcher);
    Task<void> stop() { return scope_.stop(); }

    // Has a round of ours taken this average, and looked at its bytes? Without an answer nobody
    // has.
    void ask_whether_checked(std::function<bool(const consensus::FinishedPart&)> answer) {
        was_checked_ = std::move(answer);
    }
    // Asks whether a commit of a robust run is proved.
    using Vouch = std::function<Task<Result<void>>(
        std::shared_ptr<const consensus::RoundPlan>, consensus::Decision, PeerId proposer)>;
    void ask_for_proofs(Vouch vouch) { vouch_ = std::move(vouch); }
    // Reads what a process before this one kept into the part store.
    void read_kept();

    Ok check_plan(const consensus::RoundPlan& plan) const override;
    Task<Result<void>> hold(std::shared_ptr<const consensus::RoundPlan> plan,
                            std::vector<consensus::FinishedPart> parts,
                            PeerId proposer) override;
    Task<Result<void>> prove(std::shared_ptr<const consensus::RoundPlan> plan,
                             consensus::Decision decision,
                             PeerId proposer) override;
    void keep(const consensus::RoundPlan& plan, const consensus::Decision& decision) override;

  private:
    struct KeptPart {
        consensus::FinishedPart header;
        SharedBytes encoded;
    };
    Task<Result<void>> check(std::shared_ptr<const consensus::RoundPlan> plan,
                             std::vector<consensus::FinishedPart> parts);
    Task<void> write(std::uint64_t step, std::vector<KeptPart> kept);

    const RoundEnvironment& environment_;
    allreduce::PartFetcher& fetcher_;
    std::function<bool(const consensus::FinishedPart&)> was_checked_;
    Vouch vouch_;
    bool keeping_ = false;
    runtime::Scope scope_;  // averages on their way to the disk
};

}  // namespace dedloc::averaging
