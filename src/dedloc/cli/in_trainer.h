// Runs a command that computes in the program that has libtorch (peer/trainer_program.h). A string
// that is no join string is refused here, at once.
//
//   on_run(join, all, [&all] { return with_join_string(all.join, in_trainer<run_join>); });
//
// Thread: the main thread. Returns the exit code.

#pragma once
#include "dedloc/peer/trainer_program.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {

template <auto run, typename Options>
int in_trainer(const Options& options) {
    if constexpr (requires { options.join_string; }) {
        const bool given = !options.join_string.empty();
        if (given && !run::parse_join_string(options.join_string)) return run(options);
        peer::become_trainer(options.join_string);
    } else {
        peer::become_trainer();
    }
    return run(options);
}

}  // namespace dedloc::cli
