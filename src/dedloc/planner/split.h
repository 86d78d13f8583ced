// Which peer reduces how much of the vector, given how fast each can send and receive and what the
// links between single pairs carry.
//
// The compact form of the paper's linear programme: owner i reduces its part at the rate m_i, every
// contributor sends it that part and every receiver gets the average of it. With X = sum m_i
// elements per second, C contributors and R receivers, c_i and r_i saying whether i is one:
//     upload     c_i (X - m_i) + (R - r_i) m_i <= u_i
//     download   r_i (X - m_i) + (C - c_i) m_i <= d_i
//     link i->k  c_i m_k + r_k m_i             <= t_ik   (only where there is a limit)
// Where an average costs more than a contribution, r_i and R count by that (PeerRates).
// Without limits of links X is found by bisection down to the last bit (optimum.h), with them by
// the dual simplex method (link_programme.cpp). Special cases come out by themselves: equal links
// give a butterfly all-reduce, one fast peer a parameter server, fast aggregators BytePS, and slow
// peers or those that somebody cannot reach own nothing.
//
// Pure functions in plain double arithmetic: the same input gives the same plan on every machine.
//
// Source: DeDLOC, arXiv:2106.10207, section 3.2.
// Deviation: the paper lets different receivers take a range from different owners; we do not,
//            because a round has one owner for each range, and because the surplus may not be
//            realisable at all. Where everybody trains and no link has a limit the optimum is the
//            same; elsewhere ours is that of the paper's programme with one owner for each range,
//            seldom below the paper's (full_programme_test.cpp compares with both).
// Cost:   about 15 passes over the peers (split_bench.cpp), log2 of the peers times that if small
//         parts are dropped; with links a few linear programmes with a variable for each owner.
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
// Most limits of single links one call accepts: all pairs of a thousand peers.
inline constexpr std::size_t links_max = 1'000'000;
// Beyond 2^53 a double would not hold every count.
inline constexpr std::uint64_t elements_max = std::uint64_t{1} << 53;

struct PeerRates {
    double upload_per_s = 0;    // u_i, elements a second
    double download_per_s = 0;  // d_i, elements a second
    bool contributes = true;    // c_i: sends a gradient
    bool receives = true;       // r_i: needs the average
    bool owns_allowed = true;   // false: nobody can dial it, or the group distrusts it
    // An average is this many times as long as a contribution, for all alike: where owners pass on
    // what came instead of adding it, they send each peer the contributions of all others.
    double average_cost = 1;

    // r_i and c_i of the formulas above.
    double receiving() const { return receives ? average_cost : 0; }
    double contributing() const { return contributes ? 1 : 0; }
};

// How many of these peers send a gradient.
std::size_t contributors_in(std::span<const PeerRates> peers);
// Sets what averages cost. `owners_add`: an owner sends what it leaves out of a sum with its own
// contribution, so that peers without one own nothing.
void expect_averages(std::span<PeerRates> peers, double average_cost, bool owners_add);

// The link from one peer to another carries this; 0: it cannot be reached.
struct LinkLimit {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    double per_s = 0;  // t_ik, elements a second
};

struct SplitOptions {
    // Owners with less are dropped and their share goes to the others. 0: keep all.
    std::uint64_t part_elements_min = 0;
    // A pair that is not named has no limit; of several limits of a pair the lowest holds.
    std::span<const LinkLimit> links{};
    // For sentences, one a peer. Empty: "peer 3", counted from 0.
    std::span<const std::string> names{};
};

enum class Bottleneck { none, upload, download, link };

struct Split {
    std::vector<std::uint64_t> part_elements;  // one per peer; they sum to the vector's size
    double seconds = 0;  // predicted for exactly these parts; 0 when nothing has to travel
    Bottleneck bottleneck = Bottleneck::none;  // what fills these seconds ...
    std::size_t bottleneck_peer = 0;           // ... and whose it is; of a link: the sender
    std::size_t bottleneck_to = 0;             // of a link: the receiver
    std::string explanation;                   // one sentence for people
};

// Splits elements_count elements over the peers so that the slowest link ends as early as
// possible. At least one peer must contribute.
//
// Errors: bad_input    a rate is negative or not finite, a link names no peer, too many peers,
//                      links or elements, no contributor, nobody may own a part, a peer that has
//                      to send or receive cannot at all, or no owner reaches everybody (the
//                      sentence says which peer).
//         local_fault  the linear programme with limits of links was given up.
Result<Split> split_elements(std::span<const PeerRates> peers,
                             std::uint64_t elements_count,
                             const SplitOptions& options = {});

// Seconds until everything has travelled, for given parts; the objective itself. Infinite when
// something would have to travel where nothing can.
double predicted_seconds(std::span<const PeerRates> peers,
                         std::span<const std::uint64_t> part_elements,
                         std::span<const LinkLimit> links = {});

// Bytes that i sends to k for given parts: its gradient of k's part, and the average of its own
// part.
struct Transfer {
    std::uint64_t gradient_elements = 0;
    std::uint64_t average_elements = 0;
};
Transfer transfer(std::span<const PeerRates> peers,
                  std::span<const std::uint64_t> part_elements,
                  std::size_t from,
                  std::size_t to);

// Elements that each peer sends and receives in all.
struct Traffic {
    double sent_elements = 0;
    double received_elements = 0;
};
std::vector<Traffic> traffic(std::span<const PeerRates> peers,
                             std::span<const std::uint64_t> part_elements);

// Integers proportional to the shares that sum to total exactly: largest remainder, ties to the
// lower index. Shares are >= 0, finite, not all zero; total <= elements_max.
std::vector<std::uint64_t> apportion(std::span<const double> shares, std::uint64_t total);

}  // namespace dedloc::planner
