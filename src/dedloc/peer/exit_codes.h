// The meaning of the program's exit codes: one table, printed by docs/exit-codes.md and by --help.
//
// A failure carries its code from where it is understood (a busy port and a full disk are both
// local_fault, but not the same to a script).

#pragma once
#include <span>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::peer {

enum class ExitCode : int {
    ok = 0,
    internal = 1,
    bad_input = 2,
    unreachable = 3,
    different_run = 4,
    data_missing = 5,
    disk = 6,
    port = 7,
    identity_in_use = 8,
    check_failed = 9,
    cannot_compute = 10,
    interrupted = 130,
};

struct ExitCodeMeaning {
    ExitCode code;
    std::string_view name;
    std::string_view meaning;
};
std::span<const ExitCodeMeaning> exit_code_table();
std::string exit_code_help();  // the table as text for people

// A failed command: one sentence for people, and its code.
struct Failure {
    ExitCode code;
    std::string message;
};

// The code of an error where nothing more is known about it than its kind.
ExitCode code_for(const Error& error);
Failure failure(const Error& error);
Failure failure(ExitCode code, const Error& error);

// "dedloc: <sentence>" on standard error; returns the number for main().
int report(const Failure& failure);

// A value or a Failure.
template <typename T>
class Outcome {
  public:
    Outcome(T value) : value_(std::move(value)) {}              // NOLINT
    Outcome(Failure failure) : failure_(std::move(failure)) {}  // NOLINT
    explicit operator bool() const { return value_.has_value(); }
    T& operator*() { return *value_; }
    T* operator->() { return &*value_; }
    const Failure& failure() const { return failure_; }

  private:
    std::optional<T> value_;
    Failure failure_{ExitCode::ok, {}};
};

}  // namespace dedloc::peer
