#include "experiments/replay.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "dedloc/allreduce/mean_reducer.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/state/manifest.h"
#include "dedloc/wire/message.h"

#include "experiments/replayable.h"

namespace dedloc::lab {
namespace {

using consensus::CounterRange;
using consensus::Decision;
using consensus::RoundPlan;
using Snapshot = std::shared_ptr<const state::Snapshot>;

// Commits by the step that they make.
Result<std::map<std::uint64_t, Decision>> commits_in(const std::vector<Bytes>& certificates) {
    std::map<std::uint64_t, Decision> commits;
    for (const Bytes& bytes : certificates) {
        DEDLOC_TRY(const auto certificate, wire::decode<consensus::Certificate>(bytes));
        DEDLOC_TRY(auto decision, wire::decode<Decision>(certificate.decision));
        if (decision.kind != consensus::DecisionKind::commit) continue;
        const std::uint64_t made = decision.instance.step + 1;
        commits.insert_or_assign(made, std::move(decision));
    }
    return commits;
}

using Sum = Result<std::vector<float>>;

// Threads that stay: libtorch keeps what it has made ready for a layer by thread.
class ReplayThreads {
  public:
    ReplayThreads() {
        const unsigned count = std::max(1u, std::thread::hardware_concurrency());
        for (unsigned i = 0; i < count; ++i)
            threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
    ~ReplayThreads() {
        for (std::jthread& thread : threads_) thread.request_stop();
    }
    ReplayThreads(const ReplayThreads&) = delete;
    ReplayThreads& operator=(const ReplayThreads&) = delete;

    std::future<Sum> run(std::function<Sum()> compute) {
        std::packaged_task<Sum()> task(std::move(compute));
        std::future<Sum> result = task.get_future();
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(task));
        changed_.notify_one();
        return result;
    }

  private:
    void work(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
            std::packaged_task<Sum()> task = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            task();
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<std::packaged_task<Sum()>> waiting_;
    std::vector<std::jthread> threads_;  // last: they end first
};

class Player {
  public:
    explicit Player(const ReplayInput& input) : input_(input) {}

    Result<Replayed> play();

  private:
    Result<Snapshot> step(const Decision& decision);
    Ok make_learner(const PeerId& peer);
    Result<std::vector<float>> sum_at(train::SampledModel& learner,
                                      const state::Snapshot& state,
                                      CounterRange samples) const;
    Result<std::vector<float>> contribution(train::SampledModel& learner,
                                            const consensus::MemberInput& brings) const;
    SharedBytes average(const Decision& decision,
                        const RoundPlan& plan,
                        std::uint32_t part,
                        const std::vector<std::vector<float>>& sums);

    const ReplayInput& input_;
    run::Layout layout_;
    std::map<PeerId, std::unique_ptr<train::SampledModel>> learners_;
    Snapshot before_;  // the state before now_
    Snapshot now_;
    Replayed replayed_;
    ReplayThreads threads_;
};

Ok Player::make_learner(const PeerId& peer) {
    auto& learner = learners_[peer];
    if (learner) return {};
    DEDLOC_TRY(learner, input_.task.learner(peer));
    layout_ = learner->layout();
    return {};
}

Result<std::vector<float>> Player::sum_at(train::SampledModel& learner,
                                          const state::Snapshot& state,
                                          CounterRange samples) const {
    learner.at_step(state.step());
    learner.load(replica::parameters_of(state), replica::buffers_of(state));
    const std::uint64_t micro = input_.run.batch.micro;
    for (std::uint64_t begin = samples.begin; begin < samples.end; begin += micro)
        DEDLOC_TRY_VOID(learner.accumulate({begin, std::min(begin + micro, samples.end)}));
    std::vector<float> sum(layout_.vector_count());
    const std::span<float> all(sum);
    learner.take(
        all.first(layout_.parameters_count), all.subspan(layout_.parameters_count), samples.size());
    return sum;
}

Result<std::vector<float>> Player::contribution(train::SampledModel& learner,
                                                const consensus::MemberInput& brings) const {
    std::vector<float> sum(layout_.vector_count());
    if (brings.fresh.size() > 0) {
        DEDLOC_TRY(sum, sum_at(learner, *now_, brings.fresh));
    }
    if (brings.carried.size() == 0 || !before_) return sum;
    DEDLOC_TRY(const std::vector<float> carried, sum_at(learner, *before_, brings.carried));
    for (const consensus::ElementRange& range : brings.carried_ranges)
        for (std::uint64_t i = range.offset; i < range.end(); ++i) sum[i] += carried[i];
    return sum;
}

SharedBytes Player::average(const Decision& decision,
                            const RoundPlan& plan,
                            std::uint32_t part,
                            const std::vector<std::vector<float>>& sums) {
    const consensus::ElementRange range = plan.parts[part].range();
    std::vector<allreduce::PartInput> inputs;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i) {
        if (sums[i].empty() || !decision.parts[part].includes(i)) continue;
        const std::span<const float> sum = std::span(sums[i]).subspan(
            static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.count));
        inputs.push_back({i,
                          allreduce::encode_contribution(
                              allreduce::codec_of(plan, part), sum, plan.members[i].input)});
    }
    const allreduce::ReducedPart reduced = allreduce::reduce_part(plan, part, inputs);
    if (reduced.digest != decision.parts[part].digest) ++replayed_.parts_different;
    return reduced.encoded;
}

Result<Snapshot> Player::step(const Decision& decision) {
    DEDLOC_TRY(const RoundPlan plan, wire::decode<RoundPlan>(decision.plan));
    for (const consensus::PlanMember& member : plan.members)
        if (!member.input.is_empty()) DEDLOC_TRY_VOID(make_learner(member.peer));
    std::vector<std::future<Sum>> computing;  // from here on nothing returns before they end
    std::uint64_t members = 0;
    for (const consensus::PlanMember& member : plan.members) {
        if (member.input.is_empty()) {
            computing.emplace_back();
            continue;
        }
        ++members;
        replayed_.samples += static_cast<double>(member.input.fresh.size());
        train::SampledModel& learner = *learners_.at(member.peer);
        computing.push_back(threads_.run(
            [this, &learner, &member] { return contribution(learner, member.input); }));
    }
    std::vector<std::vector<float>> sums;
    Ok all_computed;
    for (auto& one : computing) {
        Sum sum = one.valid() ? one.get() : std::vector<float>();
        if (!sum && all_computed) all_computed = sum.error();
        sums.push_back(sum ? *std::move(sum) : std::vector<float>());
    }
    DEDLOC_TRY_VOID(all_computed);
    replayed_.members_least =
        replayed_.steps == 0 ? members : std::min(replayed_.members_least, members);
    replayed_.members_most = std::max(replayed_.members_most, members);
    std::vector<SharedBytes> averages;
    for (std::uint32_t part = 0; part < plan.parts.size(); ++part)
        averages.push_back(average(decision, plan, part, sums));
    DEDLOC_TRY(replica::AveragedVector average, replica::averaged_vector(layout_, plan, averages));
    replica::shorten(average, layout_, consensus::step_scale(decision, plan));
    return replica::next_state(input_.run, layout_, *now_, decision, average.view());
}

Result<Replayed> Player::play() {
    DEDLOC_TRY(const auto commits, commits_in(input_.certificates));
    now_ = input_.first;
    while (now_->step() < input_.steps) {
        const auto commit = commits.find(now_->step() + 1);
        if (commit == commits.end())
            return make_error(
                ErrorKind::not_found, "there is no certificate of step {}", now_->step() + 1);
        DEDLOC_TRY(Snapshot after, step(commit->second));
        before_ = std::exchange(now_, std::move(after));
        ++replayed_.steps;
        const auto said = input_.hashes.find(now_->step());
        if (said != input_.hashes.end() && said->second != state::make_manifest(*now_).root.hex())
            ++replayed_.states_different;
        if (input_.on_step) input_.on_step(*now_);
    }
    return replayed_;
}

}  // namespace

Result<Replayed> replay(const ReplayInput& input) {
    DEDLOC_TRY_VOID(check_replayable(input.run));
    Player player(input);
    return player.play();
}

}  // namespace dedloc::lab
