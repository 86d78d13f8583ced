// `dedloc-lab resume`: everybody is killed at once, again and again, and the run goes on.
//
// A collaboration of three real processes on loopback trains the synthetic task and saves a
// checkpoint every two steps. One repeat is
//   kill    SIGKILL to all three: in every other repeat at any moment of their steps, else while
//           one of them is writing a checkpoint
//   resume  `dedloc host --resume` from the peer whose checkpoint is the newest; the others join
//           with the new join string, in the folders they had
//
// Failures are
//   a finished checkpoint that does not verify, or one that was told in an event log and is neither
//     there nor replaced by newer ones
//   the run does not go on from the step of the newest checkpoint, or from another state than the
//     peers had at that step
//   two peers have different state hashes at one step of one life; somebody does not take part
//     again; a process ends that nobody killed
//
// Thread: the main thread waits. Children die with it. Errors: exit code 9 when anything failed, 6
// for the disk.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct ResumeCommand {
    int repeat = 20;
    std::uint64_t seed = 1;
    std::string program;    // the dedloc to start; empty: this one
    std::string directory;  // kept; empty: a temporary one, in memory, removed when nothing failed
    bool json = false;
};

int run_resume(const ResumeCommand& command);

}  // namespace dedloc::lab
