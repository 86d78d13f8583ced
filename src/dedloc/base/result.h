// Expected failures as values: Result<T> is either a T or an Error.
//
// An Error's kind says what the caller can do next, not where it happened; its message is one
// sentence for people and says what happened, to whom, and, where there is one, what to do.
// Exceptions are for bugs, for libtorch's own, and for the cancellation of a runtime::Task.
//
//   Result<Record> get(...);
//   Result<int> use() {
//       DEDLOC_TRY(auto record, get(...));      // returns the Error, else names the value
//       DEDLOC_TRY_VOID(check(record));
//       return record.size;
//   }
// In a coroutine: DEDLOC_CO_TRY(auto record, co_await get(...)); and DEDLOC_CO_TRY_VOID(...).

#pragma once
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "dedloc/base/check.h"

namespace dedloc::base {

enum class ErrorKind {
    timeout,              // again later, with back-off
    overloaded,           // again later, with back-off; the other side protects itself
    peer_gone,            // use another peer; the same request id may be repeated
    peer_broke_protocol,  // drop the peer, lower its score
    not_found,            // go on without
    denied,               // tell the operator: not allowed
    unsupported,          // use an older variant
    cancelled,            // unwind quietly
    bad_input,            // the user's file, flag or value is wrong: say which and how to mend it
    conflict,             // the two sides disagree on what must be equal (run hash, state, step)
    local_fault,          // this machine: disk full, port in use
    cannot_compute,       // this machine cannot compute the model: no memory, libtorch, not finite
};

std::string_view to_string(ErrorKind kind);

class [[nodiscard]] Error;
// "timeout: peer 12D3… did not answer within 2 s"
std::string to_string(const Error& error);

class [[nodiscard]] Error {
  public:
    Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

    ErrorKind kind() const { return kind_; }
    const std::string& message() const { return message_; }

    // The same error with "context: " in front of its message.
    Error with_context(std::string_view context) const {
        return Error(kind_, fmt::format("{}: {}", context, message_));
    }

    friend bool operator==(const Error&, const Error&) = default;

  private:
    ErrorKind kind_;
    std::string message_;
};

template <typename... Args>
Error make_error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
    return Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

template <typename T>
class [[nodiscard]] Result {
  public:
    using value_type = T;

    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

    bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }

    T& value() & {
        DEDLOC_CHECK(has_value(), "{}", to_string(std::get<1>(state_)));
        return std::get<0>(state_);
    }
    const T& value() const& {
        DEDLOC_CHECK(has_value(), "{}", to_string(std::get<1>(state_)));
        return std::get<0>(state_);
    }
    T&& value() && {
        DEDLOC_CHECK(has_value(), "{}", to_string(std::get<1>(state_)));
        return std::move(std::get<0>(state_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const Error& error() const& {
        DEDLOC_CHECK(!has_value());
        return std::get<1>(state_);
    }
    Error&& error() && {
        DEDLOC_CHECK(!has_value());
        return std::get<1>(std::move(state_));
    }

    T value_or(T other) && { return has_value() ? std::move(*this).value() : std::move(other); }

  private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    using value_type = void;

    Result() = default;
    Result(Error error) : error_(std::move(error)) {}  // NOLINT

    bool has_value() const { return !error_.has_value(); }
    explicit operator bool() const { return has_value(); }
    void value() const { DEDLOC_CHECK(has_value(), "{}", to_string(*error_)); }

    const Error& error() const& {
        DEDLOC_CHECK(!has_value());
        return *error_;
    }
    Error&& error() && {
        DEDLOC_CHECK(!has_value());
        return std::move(*error_);
    }

  private:
    std::optional<Error> error_;
};

using Ok = Result<void>;

}  // namespace dedloc::base

namespace dedloc {
using base::Error;
using base::ErrorKind;
using base::make_error;
using base::Ok;
using base::Result;
}  // namespace dedloc

#define DEDLOC_CONCAT_(a, b) a##b
#define DEDLOC_CONCAT(a, b) DEDLOC_CONCAT_(a, b)
#define DEDLOC_TRY_IMPL_(result, declaration, expression, return_word) \
    auto result = (expression);                                        \
    if (!result) [[unlikely]]                                          \
        return_word std::move(result).error();                         \
    declaration = *std::move(result)
// The expression may contain commas outside parentheses only if it is wrapped in parentheses.
#define DEDLOC_TRY(declaration, expression) \
    DEDLOC_TRY_IMPL_(DEDLOC_CONCAT(dedloc_try_, __LINE__), declaration, expression, return )
#define DEDLOC_CO_TRY(declaration, expression) \
    DEDLOC_TRY_IMPL_(DEDLOC_CONCAT(dedloc_try_, __LINE__), declaration, expression, co_return )
#define DEDLOC_TRY_VOID_IMPL_(expression, return_word)                  \
    do {                                                                \
        if (auto dedloc_try_ = (expression); !dedloc_try_) [[unlikely]] \
            return_word std::move(dedloc_try_).error();                 \
    } while (false)
#define DEDLOC_TRY_VOID(expression) DEDLOC_TRY_VOID_IMPL_(expression, return )
#define DEDLOC_CO_TRY_VOID(expression) DEDLOC_TRY_VOID_IMPL_(expression, co_return )
