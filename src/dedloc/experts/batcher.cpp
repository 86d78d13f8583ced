#include "dedloc/experts/batcher.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "dedloc/experts/update_pool.h"

namespace dedloc::experts {

struct Batcher::Call {
    explicit Call(runtime::Executor executor) : done(executor) {}

    PeerId from;
    std::vector<Tensor> tensors;
    std::size_t rows = 0;
    TimePoint arrived;
    TimePoint give_up;
    bool abandoned = false;
    Hold hold;
    std::optional<Result<std::vector<Tensor>>> result;
    runtime::Event done;

    void finish(Result<std::vector<Tensor>> with) {
        result.emplace(std::move(with));
        tensors.clear();
        done.set();
    }
};

namespace {

std::vector<Tensor> joined(const std::vector<std::vector<Tensor>*>& calls) {
    if (calls.size() == 1) return std::move(*calls.front());
    std::vector<Tensor> batch;
    for (std::size_t i = 0; i < calls.front()->size(); ++i) {
        std::vector<const Tensor*> parts;
        for (const auto* tensors : calls) parts.push_back(&(*tensors)[i]);
        batch.push_back(join_rows(parts));
    }
    return batch;
}

double norm_of(std::span<const float> vector) {
    double squares = 0;
    for (const float value : vector) squares += static_cast<double>(value) * value;
    return std::sqrt(squares);
}

}  // namespace

struct Batcher::Update {
    UpdateGuard::Verdict verdict;
    PeerId member;
    std::shared_ptr<UpdatePool> pool;  // null: it is applied at once
    std::size_t pool_members = 0;      // so many make an update
};

struct Batcher::Computed {
    std::vector<Result<std::vector<Tensor>>> results;  // one a call
    std::uint64_t updates = 0;
    UpdateGuard::Applied applied;
};

// Runs the backend on a whole batch. The tensors of a backward call are inputs, then gradients.
Result<std::vector<Tensor>> Batcher::run_backend(ExpertBackend& backend,
                                                 Pass pass,
                                                 std::vector<Tensor> tensors,
                                                 const Update& update,
                                                 UpdateGuard::Applied& applied) {
    if (pass == Pass::forward) return backend.forward(tensors);
    const std::size_t rows = tensors.front().rows();
    const auto middle =
        tensors.begin() + static_cast<std::ptrdiff_t>(backend.schema().inputs.size());
    std::vector<Tensor> gradients(std::make_move_iterator(middle),
                                  std::make_move_iterator(tensors.end()));
    tensors.erase(middle, tensors.end());
    DEDLOC_TRY(ExpertGradient computed, backend.gradient(tensors, gradients));
    applied.norm = norm_of(computed.parameters);
    if (!update.verdict.applies) return std::move(computed.inputs);
    applied.applied = true;
    if (applied.norm > update.verdict.norm_max) {
        const auto factor = static_cast<float>(update.verdict.norm_max / applied.norm);
        for (float& value : computed.parameters) value *= factor;
    }
    if (!update.pool) {
        backend.apply(computed.parameters);
        return std::move(computed.inputs);
    }
    update.pool->add(update.member, rows, std::move(computed.parameters));
    if (update.pool->members() >= update.pool_members) backend.apply(update.pool->take());
    return std::move(computed.inputs);
}

Batcher::Computed Batcher::compute_calls(ExpertBackend& backend,
                                         Pass pass,
                                         const std::vector<std::vector<Tensor>*>& calls,
                                         const std::vector<std::size_t>& rows,
                                         const Update& update) {
    const std::uint64_t before = backend.updates();
    Computed computed;
    const bool alone = calls.size() == 1;
    auto whole = run_backend(backend, pass, joined(calls), update, computed.applied);
    if (whole && !alone) {
        std::size_t first = 0;
        for (const std::size_t count : rows) {
            std::vector<Tensor> part;
            for (const Tensor& tensor : *whole) part.push_back(take_rows(tensor, first, count));
            computed.results.emplace_back(std::move(part));
            first += count;
        }
    } else if (alone) {
        computed.results.push_back(std::move(whole));
    } else {
        for (auto* tensors : calls)
            computed.results.push_back(
                run_backend(backend, pass, std::move(*tensors), update, computed.applied));
    }
    computed.updates = backend.updates() - before;
    return computed;
}

Batcher::Batcher(runtime::Executor executor,
                 runtime::Clock& clock,
                 runtime::Workers& device,
                 BatcherLimits limits)
    : executor_(executor),
      clock_(clock),
      device_(device),
      limits_(limits),
      bytes_(std::make_shared<std::uint64_t>(0)),
      scope_(executor) {}

void Batcher::add(const std::string& uid, std::shared_ptr<ExpertBackend> backend) {
    DEDLOC_CHECK(!experts_.contains(uid), "{} is served already", uid);
    Expert& expert = experts_[uid];
    expert.backend = std::move(backend);
    if (limits_.updates.pooled_min > 0) expert.pool = std::make_shared<UpdatePool>();
}

void Batcher::remove(const std::string& uid) {
    const auto found = experts_.find(uid);
    if (found == experts_.end()) return;
    for (Queue& queue : found->second.queues)
        for (const auto& call : queue.calls) {
            --waiting_;
            call->finish(make_error(ErrorKind::not_found, "expert {} is no longer here", uid));
        }
    experts_.erase(found);
}

std::shared_ptr<ExpertBackend> Batcher::find(const std::string& uid) const {
    const auto found = experts_.find(uid);
    return found == experts_.end() ? nullptr : found->second.backend;
}

std::vector<std::string> Batcher::uids() const {
    std::vector<std::string> uids;
    for (const auto& [uid, expert] : experts_) uids.push_back(uid);
    return uids;
}

Result<Batcher::Hold> Batcher::hold(std::uint64_t bytes) {
    if (bytes > limits_.queued_bytes_max || *bytes_ > limits_.queued_bytes_max - bytes) {
        ++counts_.overloaded;
        return make_error(ErrorKind::overloaded,
                          "this expert server holds as many tensors as it may ({} MiB)",
                          limits_.queued_bytes_max >> 20);
    }
    *bytes_ += bytes;
    Hold hold;
    hold.released_ =
        std::shared_ptr<void>(nullptr, [shared = bytes_, bytes](void*) { *shared -= bytes; });
    return hold;
}

Duration Batcher::expected_wait() const {
    double seconds = 0;
    for (const auto& [uid, expert] : experts_)
        for (const Queue& queue : expert.queues)
            seconds += static_cast<double>(queue.rows) * queue.seconds_per_row;
    return from_seconds(seconds);
}

Task<Result<std::vector<Tensor>>> Batcher::submit(
    Pass pass, PeerId from, std::string uid, std::vector<Tensor> tensors, Duration timeout) {
    const auto found = experts_.find(uid);
    if (found == experts_.end())
        co_return make_error(ErrorKind::not_found, "expert {} is not served here", uid);
    if (timeout <= Duration(0)) timeout = limits_.timeout_unsaid;
    if (waiting_ >= limits_.calls_max || expected_wait() > timeout) {
        ++counts_.overloaded;
        co_return make_error(ErrorKind::overloaded,
                             "{} calls wait, for {:.1f} s; yours waits {:.1f} s at most",
                             waiting_,
                             to_seconds(expected_wait()),
                             to_seconds(timeout));
    }
    DEDLOC_CO_TRY(Hold held, hold(bytes_of(tensors)));
    auto call = std::make_shared<Call>(executor_);
    call->from = std::move(from);
    call->rows = tensors.front().rows();
    call->tensors = std::move(tensors);
    call->arrived = clock_.now();
    call->give_up = call->arrived + timeout;
    call->hold = std::move(held);
    Queue& queue = found->second.queues[static_cast<std::size_t>(pass)];
    queue.rows += call->rows;
    queue.calls.push_back(call);
    ++waiting_;
    if (!working_) {
        working_ = true;
        scope_.spawn("compute experts", work());
    }
    // A caller that is cancelled leaves a call that nobody needs.
    struct Leaving {
        Call& call;
        ~Leaving() { call.abandoned = !call.result.has_value(); }
    } leaving{*call};
    co_await call->done.wait();
    co_return std::move(*call->result);
}

Task<void> Batcher::run_on_device(std::function<void()> work_item) {
    auto done = std::make_shared<runtime::Event>(executor_);
    other_work_.emplace_back(std::move(work_item), done);
    if (!working_) {
        working_ = true;
        scope_.spawn("compute experts", work());
    }
    co_await done->wait();
}

Batcher::Queue* Batcher::next_queue(std::string* of, Pass* pass) {
    Queue* oldest = nullptr;
    for (auto& [uid, candidate] : experts_)
        for (const Pass kind : {Pass::forward, Pass::backward}) {
            Queue& queue = candidate.queues[static_cast<std::size_t>(kind)];
            if (queue.calls.empty()) continue;
            if (oldest && oldest->calls.front()->arrived <= queue.calls.front()->arrived) continue;
            oldest = &queue;
            *of = uid;
            *pass = kind;
        }
    return oldest;
}

// From the front: what fits, and of backward calls those of the first one's member.
Batcher::Batch Batcher::take_batch(Queue& queue, Pass pass) {
    Batch batch;
    std::deque<std::shared_ptr<Call>> left;
    std::size_t rows = 0;
    const TimePoint now = clock_.now();
    while (!queue.calls.empty()) {
        const std::shared_ptr<Call> call = queue.calls.front();
        if (call->abandoned || now >= call->give_up) {
            ++counts_.abandoned;
            call->finish(make_error(ErrorKind::timeout, "the call waited longer than it may"));
        } else if (pass == Pass::backward && !batch.empty() && batch.front()->from != call->from) {
            queue.calls.pop_front();
            left.push_back(call);
            continue;
        } else {
            if (!batch.empty() && rows + call->rows > limits_.batch_rows_max) break;
            rows += call->rows;
            batch.push_back(call);
        }
        queue.rows -= call->rows;
        --waiting_;
        queue.calls.pop_front();
    }
    queue.calls.insert(queue.calls.begin(), left.begin(), left.end());
    return batch;
}

Task<void> Batcher::work() {
    // The last of the queue ends this task; the next call starts it again.
    for (;;) {
        if (!other_work_.empty()) {
            auto [item, done] = std::move(other_work_.front());
            other_work_.pop_front();
            co_await device_.run_erased(std::move(item));
            done->set();
            continue;
        }
        std::string uid;
        Pass pass{};
        Queue* queue = next_queue(&uid, &pass);
        if (!queue) break;
        Batch batch = take_batch(*queue, pass);
        if (batch.empty()) continue;
        if (const Ok may = limits_.may_compute ? limits_.may_compute() : Ok(); !may) {
            counts_.overloaded += batch.size();
            for (const auto& call : batch) call->finish(may.error());
            continue;
        }
        co_await compute(std::move(uid), pass, std::move(batch));
    }
    working_ = false;
}

std::size_t Batcher::rows_of(const Batch& batch) {
    std::size_t rows = 0;
    for (const auto& call : batch) rows += call->rows;
    return rows;
}

Batcher::Update Batcher::allowed(const Expert& expert, const Batch& batch) const {
    const UpdateLimits& limits = limits_.updates;
    const TimePoint now = clock_.now();
    Update update;
    update.member = batch.front()->from;
    update.verdict = expert.guard.check(limits, update.member, rows_of(batch), now);
    if (!expert.pool) return update;
    update.pool = expert.pool;
    // More than half of those who train it now.
    update.pool_members = std::clamp(expert.guard.active(limits, now) / 2 + 1,
                                     limits.pooled_min,
                                     std::max(limits.pooled_min, UpdatePool::members_max));
    return update;
}

void Batcher::note_update(Expert& expert,
                          const Batch& batch,
                          const Update& update,
                          const UpdateGuard::Applied& applied) {
    expert.guard.note(limits_.updates, update.member, rows_of(batch), clock_.now(), applied);
    const bool shortened = applied.applied && applied.norm > update.verdict.norm_max;
    if (!members_.contains(update.member) && members_.size() >= limits_.members_told_max) return;
    MemberUpdates& member = members_[update.member];
    member.calls += batch.size();
    member.rows += rows_of(batch);
    member.shortened += shortened ? batch.size() : 0;
    member.withheld += applied.applied ? 0 : batch.size();
}

Task<void> Batcher::compute(std::string uid, Pass pass, Batch batch) {
    auto calls = std::make_shared<std::vector<std::vector<Tensor>>>();
    std::vector<std::size_t> rows;
    for (const auto& call : batch) {
        calls->push_back(std::move(call->tensors));
        rows.push_back(call->rows);
    }
    computing_ = batch;
    const TimePoint begun = clock_.now();
    const std::shared_ptr<ExpertBackend> backend = experts_.at(uid).backend;
    Update update;
    if (pass == Pass::backward) update = allowed(experts_.at(uid), batch);
    std::function<Computed()> job = [backend, pass, calls, rows, update] {
        std::vector<std::vector<Tensor>*> views;
        for (auto& tensors : *calls) views.push_back(&tensors);
        return compute_calls(*backend, pass, views, rows, update);
    };
    Computed computed = co_await device_.run(std::move(job));
    const double seconds = to_seconds(clock_.now() - begun);
    // The expert may have been given up, or replaced, meanwhile.
    const auto expert = experts_.find(uid);
    if (expert != experts_.end() && expert->second.backend == backend) {
        Queue& queue = expert->second.queues[static_cast<std::size_t>(pass)];
        const double measured = seconds / static_cast<double>(rows_of(batch));
        queue.seconds_per_row =
            queue.seconds_per_row == 0 ? measured : 0.75 * queue.seconds_per_row + 0.25 * measured;
        if (pass == Pass::backward) note_update(expert->second, batch, update, computed.applied);
    }
    computing_.clear();
    ++counts_.batches;
    counts_.updates += computed.updates;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        ++counts_.calls;
        counts_.rows += rows[i];
        if (!computed.results[i]) ++counts_.failed;
        batch[i]->finish(std::move(computed.results[i]));
    }
}

Task<void> Batcher::stop() {
    co_await scope_.stop();
    for (const auto& call : computing_)
        call->finish(make_error(ErrorKind::peer_gone, "this expert server stops"));
    computing_.clear();
    for (const auto& [item, done] : other_work_) done->set();
    other_work_.clear();
    for (const std::string& uid : uids()) remove(uid);
}

}  // namespace dedloc::experts
