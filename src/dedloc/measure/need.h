// For programs that measure: one that fails has nothing to tell but why.

#pragma once
#include <stdexcept>

#include "dedloc/base/result.h"

namespace dedloc::measure {

[[noreturn]] inline void fail(const Error& error) { throw std::runtime_error(to_string(error)); }

template <typename T>
T need(Result<T> result) {
    if (!result) fail(result.error());
    return *std::move(result);
}

}  // namespace dedloc::measure
