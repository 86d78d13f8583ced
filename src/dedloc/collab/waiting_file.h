// WaitingFile: how many samples of which fragments this peer has made local steps with that wait
// for their fragment's turn, in the peer's folder.
//
// File "waiting": a u64 (little-endian) a fragment. Empty: nothing waits. A process that is killed
// takes its local steps along; the next one finds this note, so that the loss is told. Samples that
// were computed after the newest hand-in are not in it, as a run without fragments tells of none.
//
// Thread: the network thread; writes on a worker, beside what goes on, one at a time: of notes that
// come faster than the disk takes them, the newest is written. Errors: a file that cannot be read
// counts as empty; a disk that is full costs the note, not the training.
// Lifetime: stop() before destruction.

#pragma once
#include "dedloc/collab/samples.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/node.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::collab {

class WaitingFile {
  public:
    explicit WaitingFile(runtime::Node node);

    // The process begins to train. Returns what a process before it took along.
    Task<WaitingSamples> take_up();
    // So much waits now; empty: nothing does.
    void note(WaitingSamples waiting);
    // The process leaves in order. Returns what still waited.
    Task<WaitingSamples> end();
    Task<void> stop() { return scope_.stop(); }

  private:
    Task<void> write_newest();

    runtime::Node node_;
    WaitingSamples waiting_;
    bool written_ = true;  // as it is now
    bool writing_ = false;
    runtime::Event idle_;
    runtime::Scope scope_;
};

}  // namespace dedloc::collab
