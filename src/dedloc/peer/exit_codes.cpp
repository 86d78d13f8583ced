#include "dedloc/peer/exit_codes.h"

#include <cstdio>

#include "dedloc/base/printable.h"
#include "dedloc/peer/say.h"

namespace dedloc::peer {
namespace {

constexpr ExitCodeMeaning table[] = {
    {ExitCode::ok,
     "ok",
     "it worked; for host and join: the run is over, or the peer left in order"},
    {ExitCode::internal, "internal", "a bug in dedloc; please report what it printed"},
    {ExitCode::bad_input,
     "bad_input",
     "wrong usage, run file, join string, checkpoint or text; the message says where"},
    {ExitCode::unreachable, "unreachable", "no peer of the run could be reached"},
    {ExitCode::different_run,
     "different_run",
     "the other side trains something else (differences are listed field by field), runs another "
     "version of dedloc, or denies us"},
    {ExitCode::data_missing,
     "data_missing",
     "data of the task are not on this machine, or no run has that name; the message says what"},
    {ExitCode::disk,
     "disk",
     "a file could not be written or read (no space, no permission), or a program that helps "
     "failed"},
    {ExitCode::port, "port", "the address or port to listen on is not free"},
    {ExitCode::identity_in_use, "identity_in_use", "another process is this peer already"},
    {ExitCode::check_failed,
     "check_failed",
     "the command worked, but what it checked does not hold (demo, lab)"},
    {ExitCode::cannot_compute,
     "cannot_compute",
     "the model cannot be computed here: memory, libtorch, or gradients that are not finite"},
    {ExitCode::interrupted,
     "interrupted",
     "ended by Ctrl-C before it took part, or by a second one"},
};

}  // namespace

std::span<const ExitCodeMeaning> exit_code_table() { return table; }

std::string exit_code_help() {
    std::string text = "Exit codes:\n";
    for (const ExitCodeMeaning& row : table)
        text +=
            fmt::format("  {:>3}  {:<16} {}\n", static_cast<int>(row.code), row.name, row.meaning);
    return text;
}

ExitCode code_for(const Error& error) {
    switch (error.kind()) {
        case ErrorKind::timeout:
        case ErrorKind::overloaded:
        case ErrorKind::peer_gone:
        case ErrorKind::peer_broke_protocol:
            return ExitCode::unreachable;
        case ErrorKind::denied:
        case ErrorKind::conflict:
            return ExitCode::different_run;
        case ErrorKind::not_found:
            return ExitCode::data_missing;
        case ErrorKind::bad_input:
        case ErrorKind::unsupported:
            return ExitCode::bad_input;
        case ErrorKind::cancelled:
            return ExitCode::interrupted;
        case ErrorKind::local_fault:
            return ExitCode::disk;
        case ErrorKind::cannot_compute:
            return ExitCode::cannot_compute;
    }
    return ExitCode::internal;
}

Failure failure(const Error& error) { return {code_for(error), error.message()}; }
Failure failure(ExitCode code, const Error& error) { return {code, error.message()}; }

int report(const Failure& failure) {
    // Words of peers and of foreign run files may be in it.
    if (!failure.message.empty())
        say(stderr, "dedloc: {}\n", base::printable_lines(failure.message));
    return static_cast<int>(failure.code);
}

}  // namespace dedloc::peer
