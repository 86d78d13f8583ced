// `dedloc-lab btard`: poisoned gradients, on the real engine in virtual time: sixteen trainers of
// eight samples teach the demo's small network to tell pictures apart, seven of them attack from
// step 200 of 700. One row an attack and reducer:
//
//   accuracy   of the held-out pictures after 200, 300 and 700 steps
//   banned     of the attackers, by orders on certificates; last_ban: at which step
//   honest_banned, on_probation   of the others
//
// Three attacks are on a run of five: two who collude, one who always hands in the same long
// vector, and one who lies with a new key every 40 steps and leaves four steps later.
//
// Robust rows run with [robust]: CenteredClip, checks, orders. The mean, the coordinate-wise median
// and the geometric median are baselines, without any of that.
//
// `--local`: a round after four inner steps of each peer, and attacks on what is handed in. The
// mean without attack is then a run whose inner moments last; clean is the better one of the two
// without attack.
//
// `--mistakes`: no attackers; two peers prepare their pictures otherwise, by mistake, and mend it
// when they have been told.
//
// Errors: exit code 9 if a bound does not hold (btard.cpp); 5 without the data (Debian package
// dataset-fashion-mnist).

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/run/run_file.h"

namespace dedloc::lab {

// A run with local updates has these in place of 700 and 200.
inline constexpr std::uint64_t btard_local_steps = 120;
inline constexpr std::uint64_t btard_local_from = 40;

struct BtardCommand {
    std::string attack;                 // one; empty: all
    std::vector<std::string> reducers;  // empty: all
    bool mistakes = false;
    bool albert_mini = false;  // btard_albert.h
    bool local = false;        // with local updates
    std::uint64_t steps = 700;
    std::uint64_t attack_from = 200;
    double rate = 0.01;
    std::uint64_t inner_steps = 4;  // of --local: each peer's, between two rounds
    std::string inner = "sgd";
    double inner_rate = 0.05;  // its peak
    double outer_rate = 0.7;
    double outer_momentum = 0.9;
    double norm_max = 1.5;  // of an average
    double tau = run::tau_auto;
    double check = 0.125;
    int threads = 2;
    std::string plot;  // an SVG file of accuracy over steps; empty: none
    std::string data_directory;
    std::uint64_t seed = 1;
    bool few = false;  // only runs of five, and attacks on these
    bool json = false;
};

int run_btard(const BtardCommand& command);

std::vector<std::string> btard_attack_names();
std::vector<std::string> btard_reducer_names();

}  // namespace dedloc::lab
