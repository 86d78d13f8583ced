// What the benchmarks' programs share.

#pragma once
#include <stdexcept>

#include "dedloc/base/result.h"

namespace dedloc::bench {

// A benchmark that fails has nothing to tell but why.
[[noreturn]] inline void fail(const Error& error) { throw std::runtime_error(to_string(error)); }

template <typename T>
T need(Result<T> result) {
    if (!result) fail(result.error());
    return *std::move(result);
}

}  // namespace dedloc::bench
