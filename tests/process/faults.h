// `dedloc-lab faults`: real processes on loopback, stopped and killed, and what that costs the
// others.
//
// A collaboration of four processes of `dedloc` trains the synthetic task. One repeat is two of
// these, in an order that is drawn: a stop and a kill; with --minutes anything.
//   stop   SIGSTOP one of them at any moment, for --stop-seconds, then SIGCONT: the sleeper must
//          repair itself and take part again
//   kill   SIGKILL one of them while a round is running; later it is started again (rejoin)
//   join   a newcomer joins, a peer nobody has seen; up to six at the same time
//   leave  one of more than four leaves in order, for good
// Victims are drawn: the leader, the host, anybody. Several collaborations run side by side.
//
// Failures are
//   a step of the others was late by more than 0.5 s after a kill, and by more than the round's
//     deadline + 10 % after anything. Late: its time since the step before it, less the median of
//     such times just before the fault. The deadline is the one in the certified plan of this step,
//     or of the one before if that is longer
//   a deadline of the steps around the fault is more than max(1 s, 3 × the longest round this
//     collaboration had needed)
//   two peers have different state hashes at one step; a branch was opened; somebody does not take
//     part again; a process ends that nobody ended; the audit of the certificates finds anything
//   more of a peer's samples are lost than its stops and kills excuse, a batch each
//     (fault_run.h: samples_lost); or nobody's could be judged
//
// Thread: the main thread waits, each collaboration has a thread. Children die with it.
// Errors: exit code 9 when anything failed, 6 for the disk.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct FaultsCommand {
    int repeat = 0;            // 0: ten; with `minutes` as many as fit
    int parallel = 2;          // collaborations side by side
    double stop_seconds = 20;  // of one SIGSTOP
    double minutes = 0;        // no repeat begins after this time; 0: no limit
    std::uint64_t seed = 1;
    std::string program;    // the dedloc to start; empty: the one beside this
    std::string directory;  // kept; empty: a temporary one, in memory, removed when nothing failed
    // In a robust run one of `peers` lies ("sign_flip"), or two ("collude"), and nothing else
    // happens (bad_process.h).
    std::string bad;
    bool local = false;  // with `bad`: peers make inner steps between rounds
    int peers = 6;
    bool json = false;
};

int run_faults(const FaultsCommand& command);

}  // namespace dedloc::lab
