// SyncCandidates: peers that are said to know more of the chain than we do, asked in turn.
// Certificates are long, so one is asked after the other; but who is silent keeps nobody from being
// asked.
//
// Thread: the network thread. Cancel: stop() ends the questions.

#pragma once
#include <functional>
#include <set>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::consensus {

struct SyncCandidatesOptions {
    // Asks one peer, and does with what it tells whatever is to be done. Of different peers at
    // once.
    std::function<Task<void>(PeerId)> ask;
    // So long an answer is waited for before the next is asked as well.
    std::function<Duration()> timeout;
};

class SyncCandidates {
  public:
    SyncCandidates(runtime::Executor executor,
                   runtime::Clock& clock,
                   SyncCandidatesOptions options);

    void start();
    Task<void> stop();
    // To be asked, once. Who is being asked now is asked again afterwards, as it may know more by
    // then. Beyond 64 that wait it is forgotten: whoever is ahead is heard of again.
    void add(const PeerId& peer);
    // Nobody waits to be asked, nor has still to answer.
    bool idle() const { return waiting_.empty() && asked_.empty(); }

  private:
    Task<void> run();
    Task<void> ask(PeerId peer);
    std::set<PeerId>::const_iterator next() const;

    runtime::Clock& clock_;
    SyncCandidatesOptions options_;
    std::set<PeerId> waiting_;
    std::set<PeerId> asked_;
    PeerId last_;  // that was asked: those after it come first
    runtime::Event changed_;
    runtime::Scope scope_;
};

}  // namespace dedloc::consensus
