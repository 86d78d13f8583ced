#include "dedloc/dht/batches.h"

#include <algorithm>

namespace dedloc::dht {
namespace {

// A waiting caller is told, even when the node stops meanwhile.
template <typename Batch>
struct Ending {
    Batch& batch;
    ~Ending() {
        if (!batch.result) batch.result.emplace(Error(ErrorKind::peer_gone, stopping_text));
        batch.done.set();
    }
};

}  // namespace

Task<Result<wire::FindResponse>> FindBatches::find(PeerId peer, DhtId key, TimePoint deadline) {
    if (core_.stopped) co_return Error(ErrorKind::peer_gone, stopping_text);
    std::shared_ptr<Batch>& open = open_[peer];
    if (!open || open->keys.size() >= find_keys_a_call) {
        open = std::make_shared<Batch>(core_.host.executor());
        core_.scope.spawn("find in the table", send(peer, open));
    }
    const std::shared_ptr<Batch> batch = open;
    auto place = std::find(batch->keys.begin(), batch->keys.end(), key);
    const auto index = static_cast<std::size_t>(place - batch->keys.begin());
    if (place == batch->keys.end()) batch->keys.push_back(key);
    if (!co_await batch->done.wait_until(core_.host.clock(), deadline))
        co_return make_error(ErrorKind::timeout, "node {} has not answered", peer.short_text());
    if (!*batch->result) co_return batch->result->error();
    const wire::FindResponse& whole = **batch->result;
    wire::FindResponse part;
    part.peer = whole.peer;
    part.results.push_back(whole.results[index]);
    co_return part;
}

// Starts a turn after it was spawned: until then others join.
Task<void> FindBatches::send(PeerId peer, std::shared_ptr<Batch> batch) {
    if (const auto open = open_.find(peer); open != open_.end() && open->second == batch)
        open_.erase(open);
    ++calls_;
    keys_ += batch->keys.size();
    const Ending<Batch> ending{*batch};
    auto answer = co_await exchange(peer, *batch);
    if (answer)
        core_.note_info(peer, answer->peer, /*add=*/true);
    else
        core_.note_failed(peer, answer.error());
    batch->result.emplace(std::move(answer));
}

Task<Result<wire::FindResponse>> FindBatches::exchange(const PeerId& peer, const Batch& batch) {
    wire::FindRequest request;
    for (const DhtId& key : batch.keys) request.keys.push_back(to_bytes(key.view()));
    request.peer = core_.own_info();
    const TimePoint deadline = core_.call_deadline(TimePoint::never());
    auto answer = co_await core_.host.call(peer, find_method, wire::encode(request), deadline);
    if (!answer) co_return std::move(answer).error();
    auto response = wire::decode<wire::FindResponse>(*answer);
    if (response && response->results.size() != batch.keys.size())
        response = make_error(ErrorKind::peer_broke_protocol,
                              "node {} answered {} questions, not {}",
                              peer.short_text(),
                              response->results.size(),
                              batch.keys.size());
    co_return response;
}

Task<Result<std::vector<bool>>> StoreBatches::store(PeerId peer,
                                                    std::vector<DhtItem> items,
                                                    bool in_cache,
                                                    TimePoint deadline) {
    if (core_.stopped) co_return Error(ErrorKind::peer_gone, stopping_text);
    const std::pair<PeerId, bool> where(peer, in_cache);
    std::shared_ptr<Batch>& open = open_[where];
    const bool fits =
        open && (open->items.empty() || open->items.size() + items.size() <= store_items_a_batch);
    if (!fits) {
        open = std::make_shared<Batch>(core_.host.executor());
        core_.scope.spawn("store in the table", send(where, open));
    }
    const std::shared_ptr<Batch> batch = open;
    const std::size_t first = batch->items.size();
    const std::size_t count = items.size();
    batch->items.insert(batch->items.end(),
                        std::make_move_iterator(items.begin()),
                        std::make_move_iterator(items.end()));
    if (!co_await batch->done.wait_until(core_.host.clock(), deadline))
        co_return make_error(ErrorKind::timeout, "node {} has not answered", peer.short_text());
    if (!*batch->result) co_return batch->result->error();
    const auto begin = (*batch->result)->begin() + static_cast<std::ptrdiff_t>(first);
    co_return std::vector<bool>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

Task<void> StoreBatches::send(std::pair<PeerId, bool> where, std::shared_ptr<Batch> batch) {
    if (const auto open = open_.find(where); open != open_.end() && open->second == batch)
        open_.erase(open);
    const Ending<Batch> ending{*batch};
    auto taken = co_await core_.send_store(
        where.first, std::move(batch->items), where.second, TimePoint::never());
    batch->result.emplace(std::move(taken));
}

}  // namespace dedloc::dht
