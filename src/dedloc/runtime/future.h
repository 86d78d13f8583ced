// spawn_future: a task of the network thread, started and awaited from another thread.
//
//   Spawn spawn = spawner(loop, scope);
//   std::future<Result<int>> answer = spawn_future(spawn, "ask", ask(peer));
//   Result<int> result = wait_for_result(answer);   // never on the network thread
//
// The task belongs to the scope: when the scope (or the loop) ends first, wait_for_result gives an
// error of kind cancelled. Loop and scope must outlive the Spawn's use.
//
// Thread: any but the network thread.

#pragma once
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "dedloc/base/result.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::runtime {

// Starts a task in some scope of the network thread; may be called from any thread.
using Spawn = std::function<void(std::string name, Task<void> task)>;

inline Spawn spawner(Loop& loop, Scope& scope) {
    return [&loop, &scope](std::string name, Task<void> task) {
        // std::function wants copies; a task can only be moved.
        auto shared = std::make_shared<Task<void>>(std::move(task));
        loop.post(
            [&scope, name = std::move(name), shared] { scope.spawn(name, std::move(*shared)); });
    };
}

namespace detail {

template <typename T>
Task<void> fulfil(std::shared_ptr<std::promise<T>> promise, Task<T> task) {
    if constexpr (std::is_void_v<T>) {
        co_await std::move(task);
        promise->set_value();
    } else {
        T value = co_await std::move(task);
        promise->set_value(std::move(value));
    }
}

}  // namespace detail

template <typename T>
std::future<T> spawn_future(const Spawn& spawn, std::string name, Task<T> task) {
    auto promise = std::make_shared<std::promise<T>>();
    std::future<T> future = promise->get_future();
    spawn(std::move(name), detail::fulfil<T>(std::move(promise), std::move(task)));
    return future;
}

// Waits. R is a Result. Errors besides the task's own: cancelled, when it never came to its end.
template <typename R>
R wait_for_result(std::future<R>& future) {
    try {
        return future.get();
    } catch (const std::future_error&) {
        return make_error(ErrorKind::cancelled, "the program is stopping");
    }
}

}  // namespace dedloc::runtime
