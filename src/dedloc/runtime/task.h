// Task<T>: a coroutine of the network thread. Asio's awaitable under our name; no other name of
// Asio may appear outside room runtime (and sim, its twin).
//
// A Task starts when it is awaited or spawned in a Scope. Cancellation (the Scope stops, a deadline
// passes) unwinds it as an exception of type Cancelled's base; code between two awaits is never
// interrupted. Expected failures are Result values, never exceptions.
//
// g++ 12 miscompiles braces inside an awaited expression: await names, not braces
// (CONTRIBUTING.md, tools/lint_coawait.py).

#pragma once
#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

namespace dedloc::runtime {

template <typename T = void>
using Task = asio::awaitable<T>;

// Where coroutines and callbacks of one node run. Exactly one thread runs it.
using Executor = asio::any_io_executor;

}  // namespace dedloc::runtime

namespace dedloc {
using runtime::Task;
}
