// `dedloc-lab light`: the same training with fewer and fewer bytes, in virtual time, on the real
// engine, with a real model: Fashion-MNIST and the demo's small CNN, as `dedloc-lab local`.
//
//   sync      a round after every inner batch of each peer, in fp32
//   local     a round after `inner_steps` of them (DiLoCo), in fp32
//   fragments the same, of a quarter of the vector in turn (Streaming DiLoCo), four times as often
//   sparse    of each 4,096 numbers the 64 largest (SparseLoCo); with 4 peers, where a round costs
//             the least, twice as often
//   sums      as sparse, but owners add what peers bring and send on a sparse encoding of the sum
//             (allreduce/sparse_sums.h), as with more than 16 of them
//   overlap   as sparse, and inner steps go on while a round is made
//   low_rank  as sparse, but each 16,384 numbers as four products of vectors (codec/low_rank.h),
//             and without an outer momentum
//
// Each with 4 peers; sparse and overlap also with 16, sums with 16 alone (`--only sums_32`: with
// 32). Bytes are those delivered to all, with every header, status and certificate, from the first
// step to the last.
//
// `--albert`: a small ALBERT that reads the King James Bible instead, 4 peers:
//
//   albert_sync   a round after every inner batch of each peer, in fp16
//   albert_light  a round after 30 of them, sparse
//
// Both for as many samples. Its bytes a sample are those after the first round, over the samples of
// the rounds after it.
//
// Errors: exit code 9 if a mode is less good or sends more than docs/few-bytes.md says, or two
// replicas differ; 5 without the data (Debian package dataset-fashion-mnist).

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct LightCommand {
    std::uint64_t rounds = 60;  // with local updates
    std::uint64_t inner_steps = 8;
    double rate = 0.003;         // peak of the inner AdamW's learning rate,
    double sparse_rate = 0.008;  // and of that between sparse rounds
    double outer_rate = 0.7;     // of dense rounds, with Nesterov's momentum 0.9
    // The unsent numbers are a momentum of their own: the outer one of DiLoCo on top is too much
    // (63.5 % instead of 86.8 %).
    double sparse_outer_rate = 1;
    double sparse_outer_momentum = 0.3;
    // While a round is made steps go on from where the peer was, which is further than the round
    // will bring everybody: they bring less.
    double overlap_outer_rate = 1.4;
    bool albert = false;
    std::uint64_t albert_rounds = 96;  // of albert_light
    std::uint64_t albert_steps = 30;   // of each peer between two of them
    std::uint64_t albert_batch = 2;    // samples of one step of one peer: small, for many rounds
    double albert_rate = 0.003;        // LAMB's peak, synchronous
    double albert_inner_rate = 0.002;  // and that between rounds,
    double albert_outer_rate = 1.4;    // whose outer rate this is,
    double albert_outer_momentum = 0.3;
    double albert_final = 1;  // both inner rates fall in a straight line to this share of them
    std::string only;         // the mode to run; empty: all
    std::string plot;         // an SVG file of accuracy over bytes; empty: none
    std::string data_directory;
    std::uint64_t seed = 1;
    bool json = false;
};

int run_light(const LightCommand& command);

}  // namespace dedloc::lab
