// Runs a command that computes in the program that has libtorch (peer/trainer_program.h). Words
// that lead nowhere are refused here, at once: a string that is no join string, a run file that is
// not there or says what cannot be.
//
//   on_run(join, all, [&all] { return with_join_string(all.join, in_trainer<run_join>); });
//
// Thread: the main thread. Returns the exit code.

#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "dedloc/cli/given_run_file.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/peer/trainer_program.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {

// A pipe can be read only once, and the trainer reads it.
inline bool is_refused(const std::string& run_file, std::span<const std::string> settings) {
    if (run_file.empty()) return false;
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(run_file, error);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return false;
    return !given_run_file(run_file, settings);
}

// The command itself says why.
template <typename Options>
bool is_refused(const Options& options) {
    if constexpr (requires { options.join_string; })
        if (!options.join_string.empty() && !run::parse_join_string(options.join_string))
            return true;
    if constexpr (requires { what_is_not_said(options); })
        if (what_is_not_said(options)) return true;
    if constexpr (requires {
                      options.run_file;
                      options.settings;
                  })
        return is_refused(options.run_file, options.settings);
    else if constexpr (requires { options.run_file; })
        return is_refused(options.run_file, {});
    return false;
}

template <auto run, typename Options>
int in_trainer(const Options& options) {
    if (is_refused(options)) return run(options);
    // A build without libtorch still trains what needs none.
    if (DEDLOC_WITH_TORCH != 0 && peer::lacks_trainer())
        return peer::report(
            {peer::ExitCode::cannot_compute,
             "what computes is not installed here: the Debian package dedloc has it "
             "(dedloc-core assists, relays and watches)"});
    std::string line;
    if constexpr (requires { options.join_string; }) line = options.join_string;
    if (DEDLOC_WITH_TORCH != 0)
        if (const Ok prepared = peer::prepare_trainer(); !prepared)
            return peer::report(peer::failure(prepared.error()));
    peer::become_trainer(line);
    return run(options);
}

}  // namespace dedloc::cli
