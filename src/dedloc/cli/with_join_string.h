// Runs a command with the run that its user means (join_string_source.h): every command that takes
// a join string begins here.
//
// Thread: the main thread. Returns the exit code.

#pragma once
#include <string>
#include <utility>

#include "dedloc/cli/join_string_source.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"

namespace dedloc::cli {

template <typename Options>
bool wants_json(const Options& options) {
    if constexpr (requires { options.peer.json; })
        return options.peer.json;
    else
        return options.json;
}

// The folder of the peer that a command is; null: it is none that stays.
template <typename Options>
std::string* directory_of(Options& options) {
    if constexpr (requires { options.peer.directory; })
        return &options.peer.directory;
    else if constexpr (requires { options.directory; })
        return &options.directory;
    else
        return nullptr;
}

// Where `string` is optional and was not given, the command runs without.
template <typename Options>
int with_join_string(const Options& options,
                     int (*run)(const Options&),
                     std::string Options::*string = &Options::join_string) {
    if ((options.*string).empty()) return run(options);
    Options meant = options;
    auto argument = join_argument_from(options.*string);
    if (!argument) return peer::report_early(peer::failure(argument.error()), wants_json(options));
    meant.*string = std::move(argument->text);
    if (std::string* const directory = directory_of(meant); directory && directory->empty())
        *directory = std::move(argument->directory);
    return run(meant);
}

}  // namespace dedloc::cli
