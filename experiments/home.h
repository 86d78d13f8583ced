// `dedloc-lab home`: how much of its machines' time a run at home gets into the model, in virtual
// time, on the real engine: sixteen machines with 20 Mb/s up and 200 down, 40 ms apart, a vector of
// GPT-2's size, each away for 5 of every 30 minutes, in turn.
//
//   light   as `dedloc plan` recommends for these lines (planning/light_advice.h)
//   sync    a round after every batch, in fp16
//
// The vector and the lines are `shrunk` times smaller than they would be, and all messages that do
// not carry the vector count as much less (sim::WorldOptions), so that bytes and times are those of
// the whole vector. Gradients are a toy's; they take the time that they are told to.
//
// A machine that is away sleeps, as a laptop with its lid closed: it hears nothing, nobody is told,
// and what it has not handed in is too old when it wakes. It then replays the rounds it has missed.
// With --leave it leaves in order, and downloads the state when it comes again; that needs a
// vector that is shrunk less, as a state travels in pieces of 1 MiB.
//
// Errors: exit code 9 if less than 95 % of the time gets into the model, or two replicas
// differ.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct HomeCommand {
    std::uint64_t homes = 16;
    double minutes = 60;
    double away_minutes = 5;  // of every 30
    std::uint64_t elements = 124'000'000;
    double up_mbit = 20;
    double down_mbit = 200;
    double samples_per_s = 5;  // of one machine: sequences of 1,024 tokens
    std::uint64_t batch = 512;
    bool leave = false;
    std::uint64_t aggregators = 0;  // of 1 Gb/s both ways, which only help
    std::uint64_t shrunk = 256;
    std::string only;  // one mode; empty: both
    std::uint64_t seed = 1;
    bool json = false;
};

int run_home(const HomeCommand& command);

}  // namespace dedloc::lab
