// One run of the experiment with poisoned gradients (btard.h).
//
// Thread: one a run; runs share only the data. Errors: those of run_virtually.

#pragma once
#include <map>
#include <optional>
#include <set>

#include "experiments/btard.h"
#include "experiments/btard_learner.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {

inline constexpr std::size_t btard_trainers = 16;
inline constexpr std::size_t btard_attackers = 7;
inline constexpr std::uint64_t samples_of_each = 8;
inline constexpr std::uint64_t looked_at_every = 20;  // steps

enum class BtardReducer { mean, robust, median, geometric_median };
inline constexpr BtardReducer btard_reducers[] = {
    BtardReducer::mean, BtardReducer::robust, BtardReducer::median, BtardReducer::geometric_median};
std::string_view name_of(BtardReducer reducer);

struct BtardRow {
    Attack attack = Attack::none;
    BtardReducer reducer = BtardReducer::mean;
    std::map<std::uint64_t, double> accuracy;  // by steps made
    std::size_t banned = 0;                    // of the attackers
    std::size_t honest_banned = 0;
    std::size_t honest_on_probation = 0;
    std::optional<std::uint64_t> last_ban;  // the step
    bool identical = true;
    std::uint64_t samples = 0;  // computed for batches
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
                               BtardReducer reducer);

}  // namespace dedloc::lab
