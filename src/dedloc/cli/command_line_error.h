// Says what was wrong with a command line, in one sentence that says what to do, in place of
// CLI11's "string is required". Beside main.cpp the only file that includes CLI11.
//
// Thread: any.

#pragma once
#include <CLI/App.hpp>
#include <string>

namespace dedloc::cli {

std::string what_was_wrong(const CLI::App* app, const CLI::Error& error);

}  // namespace dedloc::cli
