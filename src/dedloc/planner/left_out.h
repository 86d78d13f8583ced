// The contributions that a round had better do without: a round takes as long as its slowest line,
// and whoever has that line may bring few samples.
//
// The choice makes the collaboration's pace as large as possible,
//     samples in the round / (seconds of computing before it + seconds of the round)
// or, where the next batch is computed beside the round, by the longer of the two, over who is left
// out. Candidates are left out in the order of their lines, the slowest first, as many as is best.
// A peer of those whose download can keep up still receives the averages in the round;
// the rest does not take part at all and follows by itself.
//
// roles.h answers the paper's question, in which computing and averaging overlap and a step has a
// fixed batch; this one is a leader's, at the end of a step whose contributions are there.
//
// Source: DeDLOC, arXiv:2106.10207, section 3.2 (c_i and r_i are variables; the pace is ours).
// Cost:   about 60 passes of optimum.h at most, none where rounds are short beside computing.
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

// Fewer than so many contributions are no collaboration any more.
inline constexpr std::size_t contributors_least = 2;
// Nor is a plan without this share of the samples that were brought a step of all, however fast.
inline constexpr double samples_share_least = 0.5;

// When a run leaves somebody out. Of the leader's line, each one's slower way: only slower ones are
// candidates.
inline constexpr double slow_line = 0.5;
// Samples are lost where somebody is left out, and rates are measured: not for less than so many
// times the pace.
inline constexpr double leaving_out_worth = 1.5;

enum class Candidate : std::uint8_t {
    no,
    if_it_receives,  // its contribution only: it takes part in the round
    yes,
};

enum class Part : std::uint8_t {
    whole,     // as PeerRates says
    receives,  // contributes nothing and owns nothing
    none,
};

struct LeaveOutQuestion {
    std::span<const PeerRates> peers{};
    std::span<const double> samples{};        // one a peer: what it brings
    std::span<const Candidate> candidates{};  // one a peer: may it be left out
    double elements_count = 0;                // of the vector, > 0
    double computing_s = 0;                   // since the last step
    bool delayed = false;  // computing goes on in the round; computing_s is of a whole batch
    double worth_it = 1;   // so many times the pace, at least
};

struct LeaveOutAnswer {
    std::vector<Part> parts;  // one a peer
    double seconds_of_all = 0;
    double seconds = 0;  // without those who are left out

    bool leaves_out() const { return seconds < seconds_of_all; }
};

// Errors: local_fault (the solver gave up). A network that cannot average anything leaves nobody
// out.
Result<LeaveOutAnswer> choose_left_out(const LeaveOutQuestion& question);

}  // namespace dedloc::planner
