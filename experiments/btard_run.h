// One run of the experiment with poisoned gradients (btard.h).
//
// Thread: one a run; runs share only the data. Errors: those of run_virtually.

#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "experiments/btard.h"
#include "experiments/btard_learner.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {

inline constexpr std::size_t btard_trainers = 16;
inline constexpr std::size_t btard_attackers = 7;
inline constexpr std::uint64_t samples_of_each = 8;
// Runs of five have as many samples a step, or nearly.
inline constexpr std::size_t few_trainers = 5;
inline constexpr std::uint64_t samples_of_few = 24;
inline constexpr std::uint64_t key_steps = 40;  // that a key is used, of new_keys
inline constexpr std::uint64_t lies_of_key = 4;
inline constexpr std::uint64_t looked_at_every = 20;  // steps
inline constexpr std::uint64_t local_batch = 16;      // samples of an inner step

// The order says what befell an honest peer, by its machine.
struct HonestOrder {
    std::uint64_t step = 0;
    std::size_t machine = 0;
    std::string order;
    std::string offence;
    auto operator<=>(const HonestOrder&) const = default;
};

enum class BtardReducer { mean, robust, median, geometric_median };
inline constexpr BtardReducer btard_reducers[] = {
    BtardReducer::mean, BtardReducer::robust, BtardReducer::median, BtardReducer::geometric_median};
std::string_view name_of(BtardReducer reducer);

struct BtardRow {
    Attack attack = Attack::none;
    BtardReducer reducer = BtardReducer::mean;
    std::map<std::uint64_t, double> accuracy;  // by steps made
    bool of_few = false;                       // a run of few_trainers
    std::size_t attackers = 0;                 // keys of them that have lied
    std::size_t banned = 0;                    // of these, or of new keys on probation for good
    double loss_jump = 0;  // the largest of a step, over the median of the eight before it
    std::size_t honest_banned = 0;
    std::size_t honest_on_probation = 0;
    std::set<HonestOrder> honest_orders;
    std::optional<std::uint64_t> last_ban;  // the step
    bool identical = true;
    std::uint64_t samples = 0;  // computed for batches
    std::uint64_t checks = 0;   // contributions that were computed again
    double bytes = 0;
    // In a run with mistakes: those who were told, by themselves, and when they were back.
    std::set<PeerId> told;
    std::size_t back = 0;
    double seconds = 0;  // of real time

    double at(std::uint64_t step) const;
};

Result<BtardRow> run_btard_row(const BtardCommand& command,
                               std::shared_ptr<const tasks::FashionMnist> data,
                               Attack attack,
                               BtardReducer reducer,
                               bool of_few);
// Is this an attack on a run of few?
bool is_on_few(Attack attack);

}  // namespace dedloc::lab
