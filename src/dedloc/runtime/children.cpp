#include "dedloc/runtime/children.h"

#include <utility>
#include <vector>

#include "dedloc/runtime/child.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::runtime {

Children::Children(Executor executor) : executor_(executor), ended_(executor) {}

Task<bool> Children::run(Task<void> task) {
    if (stopping_) co_return false;
    const auto self = shared_from_this();
    auto child = std::make_shared<detail::Child>();
    struct Place {
        Place(Children& all_children, std::shared_ptr<detail::Child> child)
            : all(all_children), number(all.begun_++) {
            all.running_.emplace(number, std::move(child));
        }
        ~Place() {
            all.running_.erase(number);
            all.ended_.pulse();
        }
        Children& all;
        const std::uint64_t number;
    };
    const Place place(*self, child);
    co_await detail::run_child(executor_, child, std::move(task));
    if (!child->exception) co_return true;
    if (stopping_ && is_cancellation(child->exception)) co_return false;
    std::rethrow_exception(child->exception);
}

Task<void> Children::stop() {
    const auto self = shared_from_this();
    stopping_ = true;
    // A child that is cancelled may end at once and leave the map.
    const std::vector<std::pair<std::uint64_t, std::shared_ptr<detail::Child>>> running(
        running_.begin(), running_.end());
    for (const auto& [number, child] : running)
        child->signal.emit(asio::cancellation_type::terminal);
    while (!running_.empty()) co_await ended_.wait();
}

}  // namespace dedloc::runtime
