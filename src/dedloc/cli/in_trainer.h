// Runs a command that computes in the program that has libtorch (peer/trainer_program.h). A string
// that is no join string is refused here, at once.
//
//   on_run(join, all, [&all] { return with_join_string(all.join, in_trainer<run_join>); });
//
// Thread: the main thread. Returns the exit code.

#pragma once
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/trainer_program.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {

template <auto run, typename Options>
int in_trainer(const Options& options) {
    // A build without libtorch still trains what needs none.
    if (DEDLOC_WITH_TORCH != 0 && peer::lacks_trainer())
        return peer::report(
            {peer::ExitCode::cannot_compute,
             "what computes is not installed here: the Debian package dedloc has it "
             "(dedloc-core assists, relays and watches)"});
    std::string line;
    if constexpr (requires { options.join_string; }) {
        line = options.join_string;
        if (!line.empty() && !run::parse_join_string(line)) return run(options);
    }
    if (DEDLOC_WITH_TORCH != 0)
        if (const Ok prepared = peer::prepare_trainer(); !prepared)
            return peer::report(peer::failure(prepared.error()));
    peer::become_trainer(line);
    return run(options);
}

}  // namespace dedloc::cli
