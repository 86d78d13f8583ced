// Which peer reduces how much of the vector, given how fast each can send and receive.
//
// The compact form of the paper's linear programme for a network without limits between single
// pairs: owner i reduces its part at the rate m_i, every contributor sends it that part and every
// receiver gets the average of it. With X = sum m_i elements per second, C contributors and R
// receivers, c_i and r_i saying whether i is one:
//     upload    c_i (X - m_i) + (R - r_i) m_i <= u_i
//     download  r_i (X - m_i) + (C - c_i) m_i <= d_i
// X is found by bisection down to the last bit: for a given X each m_i has a lowest and a highest
// value, and X is feasible when it lies between their sums. Special cases come out by themselves:
// equal links give a butterfly all-reduce, one fast peer a parameter server, fast aggregators
// BytePS, and slow peers or those nobody can dial own nothing.
//
// Pure functions in plain double arithmetic: the same input gives the same plan on every machine.
// No link limits here: those need the LP (a later issue).
//
// Source: DeDLOC, arXiv:2106.10207, section 3.2.
// Deviation: the paper lets different receivers take a range from different owners; we do not,
//            because such a surplus may not be realisable. Without link limits the optimum is the
//            same.
// Cost:   about 60 passes over the peers (split_bench.cpp).
// Thread: any.

#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::planner {

// Most peers one call accepts; bounds the time of a call.
inline constexpr std::size_t peers_max = 1'000'000;
// Beyond 2^53 a double would not hold every count.
inline constexpr std::uint64_t elements_max = std::uint64_t{1} << 53;

struct PeerRates {
    double upload_per_s = 0;    // u_i, elements a second
    double download_per_s = 0;  // d_i, elements a second
    bool contributes = true;    // c_i: sends a gradient
    bool receives = true;       // r_i: needs the average
    bool owns_allowed = true;   // false: nobody can dial it, or the group distrusts it
};

struct SplitOptions {
    // Owners with less are dropped and their share goes to the others. 0: keep all.
    std::uint64_t part_elements_min = 0;
};

enum class Bottleneck { none, upload, download };

struct Split {
    std::vector<std::uint64_t> part_elements;  // one per peer; they sum to the vector's size
    double seconds = 0;  // predicted for exactly these parts; 0 when nothing has to travel
    Bottleneck bottleneck = Bottleneck::none;  // what fills these seconds ...
    std::size_t bottleneck_peer = 0;           // ... and whose it is
    std::string explanation;                   // one sentence for people
};

// Splits elements_count elements over the peers so that the slowest link ends as early as
// possible. At least one peer must contribute.
//
// Errors: bad_input  a rate is negative or not finite, too many peers or elements, no contributor,
//                    nobody may own a part, or a peer that has to send or receive cannot at all
//                    (the sentence says which peer, by its index).
Result<Split> split_elements(std::span<const PeerRates> peers,
                             std::uint64_t elements_count,
                             const SplitOptions& options = {});

// Seconds until everything has travelled, for given parts; the objective itself.
double predicted_seconds(std::span<const PeerRates> peers,
                         std::span<const std::uint64_t> part_elements);

// Integers proportional to the shares that sum to total exactly: largest remainder, ties to the
// lower index. Shares are >= 0, finite, not all zero; total <= elements_max.
std::vector<std::uint64_t> apportion(std::span<const double> shares, std::uint64_t total);

}  // namespace dedloc::planner
