// Answers who should compute, and whether an aggregator would help: questions about a network that
// cost many plans each.
//
// Computing: a step takes
//     B / sum s_i c_i   seconds of computing: the samples of a step over those of a second
//     P / X             seconds of averaging: the elements of the vector over those of a second
// one after the other, or, with the delayed update, as long as the slower of the two. It is made as
// short as possible over who computes (c_i). A trainer that does not compute sends no gradient,
// which frees its upload and everybody's download; it still receives, and may still own parts. Few
// candidates are tried in all combinations. Of many, chains are searched: all compute, then they
// are dropped in the order of a rule, one by one. On a chain the first term rises and the second
// one falls, which bounds what can lie between two places, so the best one is found by halving.
// Then single trainers are put back, dropped or exchanged while that helps. The result is exact for
// few and good for many (roles_test.cpp says how good); the problem with c_i free is a
// mixed-integer one.
//
// Source: DeDLOC, arXiv:2106.10207, section 3.2 (which term, and that c_i is a variable; the
//         search is ours).
// Deviation: the paper assumes that computing and averaging overlap; here only with the delayed
//            update.
// Thread: any; pure.

#pragma once
#include <optional>
#include <span>
#include <vector>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

// So many candidates or fewer are tried in all combinations.
inline constexpr std::size_t all_choices_max = 10;
// Single trainers are put back, dropped and exchanged in networks of at most so many peers, and
// with at most so many limits of links: every trial is a plan.
inline constexpr std::size_t local_search_peers_max = 256;
inline constexpr std::size_t local_search_links_max = 1000;
inline constexpr std::size_t exchange_peers_max = 48;

struct ComputeQuestion {
    std::span<const PeerRates> peers{};       // contributes: may compute
    std::span<const double> samples_per_s{};  // s_i, one a peer; those who cannot contribute: any
    double batch_samples = 0;                 // B > 0
    double elements_count = 0;                // P > 0
    bool delayed = false;                     // computing goes on while a step is averaged
    std::span<const LinkLimit> links{};
    std::span<const std::string> names{};  // for sentences
};

// Seconds of one step.
double step_seconds(double computing_s, double averaging_s, bool delayed);

struct ComputeChoice {
    std::vector<bool> computes;     // one a peer
    double samples_per_s = 0;       // of those that compute
    double steps_per_s = 0;         // as above
    double steps_per_s_of_all = 0;  // if everybody that may compute does
    bool every_choice_tried = false;
};

// Errors: bad_input    a speed is negative or not finite, or no choice makes any progress.
//         local_fault  the linear programme with limits of links was given up.
Result<ComputeChoice> choose_computing(const ComputeQuestion& question);

struct AggregatorAdvice {
    double seconds_now = 0;
    // With one further aggregator (contributes nothing, needs nothing) that sends and receives as
    // fast as anyone could wish and reaches everybody.
    double seconds_best = 0;
    // The upload and download of an aggregator that comes within 1 % of that; 0: it does not help.
    double rate_per_s = 0;
};

// For a network for which there is a split. Errors: as split_elements.
Result<AggregatorAdvice> advise_on_aggregator(std::span<const PeerRates> peers,
                                              std::span<const LinkLimit> links,
                                              double elements_count);

}  // namespace dedloc::planner
