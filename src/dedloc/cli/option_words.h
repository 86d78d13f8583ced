// Options that several commands have, with their help.
//
// Thread: the main thread.

#pragma once
#include <CLI/App.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "dedloc/cli/commands.h"

namespace dedloc::cli {

inline constexpr const char* join_string_help =
    "a join string: what `dedloc host` and `dedloc invite` print; or '-' (a line of standard "
    "input) or @FILE, as others on this machine see arguments; or the FOLDER of a peer, to come "
    "back as that peer";
inline constexpr const char* device_help = "auto, cpu, cuda, cuda:1 (auto: a GPU if there is one)";
inline constexpr const char* threads_help =
    "threads of one gradient computation, and of what works beside it, to leave others some cores "
    "(0: one for each processor that this process may use)";
inline constexpr std::size_t threads_always = 8;  // allowed on the smallest machine, for scripts
inline constexpr const char* json_help =
    "print one JSON object as the last line of standard output";

// More threads than processors only wait for each other.
CLI::Validator threads_check();

// `--web [PORT]`: a value only where what follows is one, as a run file or folder may follow.
void add_web_option(CLI::App& command, std::string& web);
void add_tensorboard_option(CLI::App& command, std::string& folder);
// The arguments without the program, each `--web` with its value, which is `auto` where none was
// given.
std::vector<std::string> with_web_places(int argc, const char* const* argv);

void add_cap_options(CLI::App& command, peer::CapOptions& caps);

}  // namespace dedloc::cli
