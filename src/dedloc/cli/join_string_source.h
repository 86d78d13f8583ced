// The run that a user means where a command takes a join string. Every such command reads it here:
//
//   dedloc1…   the string itself, a personal one too
//   -          a line of standard input
//   @FILE      what stands in a file
//   FOLDER     a peer's folder: the string that it wrote last; with its token, if it has one, the
//              command is that peer
//
// A join string holds the run's secret, and every user of a machine can read the arguments of every
// process there.
//
// Errors: bad_input. Blocks until the line is there. Thread: any.

#pragma once
#include <string>
#include <unistd.h>

#include "dedloc/base/result.h"

namespace dedloc::cli {

struct JoinArgument {
    std::string text{};
    std::string directory{};  // of a FOLDER; else empty
};

Result<JoinArgument> join_argument_from(const std::string& given,
                                        int standard_input = STDIN_FILENO);

}  // namespace dedloc::cli
