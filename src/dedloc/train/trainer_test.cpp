// The trainer against a collaboration of one that steps whenever its batch is full: real threads,
// a real loop, no network.

#include "dedloc/train/trainer.h"

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <mutex>
#include <set>

#include "dedloc/replica/model_state.h"
#include "dedloc/runtime/event.h"
#include "dedloc/train/evaluator.h"

namespace dedloc::train {
namespace {

using collab::CounterRange;

PeerId made_peer(std::uint8_t number) {
    Bytes multihash{0x00, 36, 0x08, 0x01, 0x12, 32};
    multihash.resize(38, number);
    return *PeerId::from_bytes(multihash);
}

// The model's gradient of a sample is its number; it refuses numbers that it has seen.
class CountingModel final : public SampledModel {
  public:
    struct Seen {
        std::mutex mutex;
        std::set<std::uint64_t> counters;
        bool twice = false;
        std::uint64_t fail_at = ~std::uint64_t{0};
        std::uint64_t fits = ~std::uint64_t{0};  // more samples at a time run out of memory
        std::uint64_t refused = 0;
        std::set<std::uint64_t> sizes;
        std::function<void(std::uint64_t samples)> computed;
        std::uint64_t not_finite_from = ~std::uint64_t{0};
        std::uint64_t not_finite_until = ~std::uint64_t{0};
        std::vector<std::uint64_t> evaluated_values;
        std::vector<std::uint64_t> global_steps;                // that it was told of
        std::uint64_t throws_when_loading = ~std::uint64_t{0};  // the state of this step, once
        bool evaluates_for_ever = false;                        // until it is cancelled
        std::atomic<bool> evaluates = false;
        double norm_max = 0;  // that it was told
    };
    explicit CountingModel(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}

    run::Layout layout() const override {
        run::Layout layout;
        layout.parameters.push_back({.name = "p", .offset = 0, .count = 1});
        layout.parameters_count = 1;
        layout.buffers_count = 1;
        return layout;
    }
    void store(std::span<float>, std::span<float>) const override {}
    void limit_norm(double norm_max) override { seen_->norm_max = norm_max; }
    void at_step(std::uint64_t global_step) override {
        const std::lock_guard lock(seen_->mutex);
        seen_->global_steps.push_back(global_step);
    }
    void load(std::span<const float> parameters, std::span<const float>) override {
        const std::lock_guard lock(seen_->mutex);
        loaded_ = parameters[0];
        if (loaded_ != static_cast<float>(seen_->throws_when_loading)) return;
        seen_->throws_when_loading = ~std::uint64_t{0};
        throw std::runtime_error("CUDA out of memory.\nframe #0: c10::Error");
    }
    Result<GradientReport> accumulate(CounterRange samples) override {
        const std::lock_guard lock(seen_->mutex);
        if (samples.size() > seen_->fits) {
            ++seen_->refused;
            return make_error(ErrorKind::cannot_compute, "libtorch says: CUDA out of memory.");
        }
        seen_->sizes.insert(samples.size());
        if (seen_->computed) seen_->computed(samples.size());
        for (std::uint64_t i = samples.begin; i < samples.end; ++i) {
            if (i >= seen_->not_finite_from && i < seen_->not_finite_until)
                return GradientReport{.finite = false};
            if (i >= seen_->fail_at) return make_error(ErrorKind::cannot_compute, "no more memory");
            seen_->twice = seen_->twice || !seen_->counters.insert(i).second;
            sum_ += 1;
        }
        return GradientReport{.loss_sum = 1, .correct_sum = 2};
    }
    void take_sum(std::span<float> gradient) override { gradient[0] = std::exchange(sum_, 0.0f); }
    void take_buffers(std::span<float> changes, double scale) override {
        changes[0] = static_cast<float>(scale);
    }
    void forget_sum() override { sum_ = 0; }
    Result<collab::Evaluation> evaluate() override {
        seen_->evaluates = true;
        if (seen_->evaluates_for_ever) {
            cancelled_.wait(false);
            return make_error(ErrorKind::cancelled, "cancelled");
        }
        const std::lock_guard lock(seen_->mutex);
        seen_->evaluated_values.push_back(static_cast<std::uint64_t>(loaded_));
        return collab::Evaluation{.loss = 1, .accuracy = 0.5, .samples = 10};
    }
    void cancel_evaluation() override {
        cancelled_ = true;
        cancelled_.notify_all();
    }

  private:
    std::shared_ptr<Seen> seen_;
    float sum_ = 0;
    float loaded_ = 0;
    std::atomic<bool> cancelled_ = false;
};

// One peer: a step is due at every `target` samples; the state's one parameter is its step. A step
// beside the trainer takes until the next batch is computed. Where it `expects` a state, it tells
// of that first, and has it (or another one: `breaks_promise`) when it is not held any more.
class LoneCollaboration final : public collab::Collaboration {
  public:
    LoneCollaboration(runtime::Executor executor, std::uint64_t target, std::uint64_t steps_max)
        : target_(target),
          steps_max_(steps_max),
          never_(executor),
          clock_(runtime::real_clock(executor)),
          state_(made_state(0)) {}

    Task<Result<void>> start() override { co_return Result<void>(); }
    Task<void> leave(Duration) override { co_return; }
    Task<void> stop() override { co_return; }
    std::shared_ptr<const state::Snapshot> state() const override {
        const std::lock_guard lock(mutex_);
        return state_;
    }
    void report(std::uint64_t samples, double, double) override {
        EXPECT_TRUE(runs_);
        const std::lock_guard lock(mutex_);
        (ahead_ ? samples_ahead_ : samples_) += samples;
    }
    void report_not_finite(std::uint64_t samples) override { not_finite += samples; }
    bool somebody_computes() const { return runs_; }
    void trainer_runs(bool runs) override { runs_ = runs; }
    void compute_ahead() override {
        const std::lock_guard lock(mutex_);
        ahead_ = true;
        ++steps_ahead;
    }
    bool may_compute() const override { return rests_left == 0 && pause_looks == 0; }
    bool paused() const override { return pause_looks > 0 && pause_looks-- > 0; }
    bool may_compute_ahead() const override {
        const std::lock_guard lock(mutex_);
        return ahead_ && samples_ahead_ < target_;
    }
    void forget_ahead(std::uint64_t samples) override {
        const std::lock_guard lock(mutex_);
        ahead_ = false;
        samples_ahead_ = 0;
        forgotten += samples;
        if (next_counter) *next_counter += samples;
    }
    bool step_due() const override {
        const std::lock_guard lock(mutex_);
        return samples_ >= target_;
    }
    void set_caps(double, double) override {}
    Task<Result<collab::StepOutcome>> step(collab::Contribution contribution) override {
        if (hangs) co_await never_.wait();
        while (may_compute_ahead() || (is_ahead() && holds)) co_await clock_->sleep_for(1ms);
        if (failures_left > 0) {
            --failures_left;
            begin_again();
            if (next_counter) *next_counter += contribution.samples.size();
            co_return make_error(ErrorKind::timeout, "the round took too long");
        }
        if (rests_left > 0 && contribution.samples.size() == 0) {
            --rests_left;
            co_return collab::StepOutcome{collab::StepKind::stepped, state()};
        }
        EXPECT_EQ(contribution.sum[0],
                  per_sample * static_cast<float>(contribution.samples.size()));
        EXPECT_EQ(contribution.samples.begin, next_counter.value_or(contribution.samples.begin));
        next_counter = contribution.samples.end;
        handed_in += contribution.samples.size();
        auto next = made_state(state()->step() + 1);
        const bool is_last = steps_max_ > 0 && next->step() >= steps_max_;
        const bool broken = expects && breaks_promise;
        if (expects && contribution.on_expected && !is_last) {
            compute_ahead();
            contribution.on_expected(next);
            while (holds) co_await clock_->sleep_for(1ms);
            if (broken) next = made_state(next->step());
            expects = !broken;
        }
        const std::lock_guard lock(mutex_);
        state_ = next;
        over_ = is_last;
        const bool resyncs = state_->step() == resync_at || broken;
        const auto kind = over_     ? collab::StepKind::stopped
                          : resyncs ? collab::StepKind::resynced
                                    : collab::StepKind::stepped;
        const bool stepped = kind == collab::StepKind::stepped;
        samples_ = stepped ? std::exchange(samples_ahead_, 0) : 0;
        if (stepped) ahead_ = false;
        co_return collab::StepOutcome{kind, state_};
    }
    bool stopped() const override { return over_; }
    void report_evaluation(std::uint64_t step, const collab::Evaluation&) override {
        evaluated.push_back(step);
    }
    membership::Status status() const override { return peers()[self_index]; }
    std::vector<membership::Status> peers() const override {
        membership::Status a;
        a.peer = made_peer(1);
        a.role = membership::Role::observer;
        membership::Status b;
        b.peer = made_peer(2);
        b.phase = first_trainer.phase;
        const std::uint64_t step = state()->step();
        if (first_trainer.evaluates) b.accuracy_step = step;
        if (first_trainer.takes > 0 && step >= first_trainer.takes)  // one after the other
            b.accuracy_step = (step / first_trainer.takes - 1) * first_trainer.takes;
        membership::Status c;
        c.peer = made_peer(3);
        c.phase = membership::Phase::computing;
        c.accuracy_step = evaluated.empty() ? 0 : evaluated.back();
        return {a, b, c};
    }
    Digest branch() const override { return {}; }
    std::string join_string() const override { return {}; }
    Accounts accounts() const override { return {}; }
    Bytes chain() const override { return {}; }

    static std::shared_ptr<const state::Snapshot> made_state(std::uint64_t step) {
        state::SnapshotInfo info;
        info.step = step;
        const auto value = static_cast<float>(step);
        std::vector<state::Section> sections;
        sections.push_back({std::string(replica::parameters_section), {value}});
        sections.push_back({std::string(replica::buffers_section), {0}});
        return *state::Snapshot::make(std::move(info), std::move(sections));
    }

    std::size_t self_index = 1;  // the first trainer
    struct {
        membership::Phase phase = membership::Phase::computing;
        bool evaluates = false;
        std::uint64_t takes = 0;  // steps for an evaluation
    } first_trainer;
    float per_sample = 1;  // in the sums that are handed in
    int failures_left = 0;
    std::atomic<int> rests_left = 0;
    mutable std::atomic<int> pause_looks = 0;  // how often it says that it is paused
    bool hangs = false;
    bool expects = false;
    bool breaks_promise = false;
    std::atomic<bool> holds = false;  // steps that are made beside the trainer
    std::uint64_t resync_at = 0;
    std::optional<std::uint64_t> next_counter;
    std::atomic<std::uint64_t> handed_in = 0;
    std::atomic<std::uint64_t> not_finite = 0;
    std::atomic<std::uint64_t> forgotten = 0;
    std::atomic<int> steps_ahead = 0;
    std::vector<std::uint64_t> evaluated;

  private:
    bool is_ahead() const {
        const std::lock_guard lock(mutex_);
        return ahead_;
    }
    void begin_again() {
        const std::lock_guard lock(mutex_);
        samples_ = 0;
    }

    std::uint64_t target_;
    std::uint64_t steps_max_;
    runtime::Event never_;
    std::unique_ptr<runtime::Clock> clock_;
    mutable std::mutex mutex_;  // the trainer's thread counts while the loop's ends a step
    std::shared_ptr<const state::Snapshot> state_;
    std::uint64_t samples_ = 0;
    std::uint64_t samples_ahead_ = 0;
    bool ahead_ = false;
    std::atomic<bool> over_ = false;
    std::atomic<bool> runs_ = false;
};

// Takes so many files, then refuses so many.
class FullDisk final : public runtime::Disk {
  public:
    explicit FullDisk(runtime::Disk& disk) : disk_(disk) {}
    Result<Bytes> read(const std::string& path) override { return disk_.read(path); }
    Result<void> write_atomically(const std::string& path, ByteView bytes) override {
        if (taken_before > 0)
            --taken_before;
        else if (refused < refusals)
            return make_error(ErrorKind::local_fault, "no space left ({})", ++refused);
        return disk_.write_atomically(path, bytes);
    }
    Result<void> append_durably(const std::string& path, ByteView bytes) override {
        return disk_.append_durably(path, bytes);
    }
    Result<void> remove(const std::string& path) override { return disk_.remove(path); }
    Result<std::vector<std::string>> list(const std::string& folder) override {
        return disk_.list(folder);
    }

    int taken_before = 0;
    int refusals = 0;
    std::atomic<int> refused = 0;

  private:
    runtime::Disk& disk_;
};

class TrainerTest : public testing::Test {
  protected:
    TrainerTest() : scope_(std::make_unique<runtime::Scope>(loop_.executor())) {
        std::string pattern = (std::filesystem::temp_directory_path() / "dedloc-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
        disk_ = *runtime::real_disk(directory_.string());
        clock_ = runtime::real_clock(loop_.executor());
        thread_ = std::thread([this] { loop_.run(); });
        options_.micro_batch = 8;
        options_.loop.make_evaluator = [seen = seen_]() -> Result<std::unique_ptr<SampledModel>> {
            return std::unique_ptr<SampledModel>(std::make_unique<CountingModel>(seen));
        };
        options_.loop.evaluate_every = 2;
    }
    ~TrainerTest() override {
        // Ends the tasks on the loop; the loop runs dry and stops.
        std::promise<void> stopped;
        auto closing = std::make_shared<runtime::Scope>(loop_.executor());
        loop_.post([&] { closing->spawn("stop", stop(*scope_, stopped)); });
        stopped.get_future().wait();
        loop_.keep_alive(false);
        thread_.join();
        closing.reset();
        scope_.reset();
        std::filesystem::remove_all(directory_);
    }
    static Task<void> stop(runtime::Scope& scope, std::promise<void>& stopped) {
        co_await scope.stop();
        stopped.set_value();
    }
    std::unique_ptr<Trainer> trainer(collab::Collaboration& collaboration,
                                     runtime::Clock* clock = nullptr,
                                     runtime::Disk* disk = nullptr) {
        return std::make_unique<Trainer>(runtime::spawner(loop_, *scope_),
                                         clock ? *clock : *clock_,
                                         disk ? *disk : *disk_,
                                         collaboration,
                                         std::make_unique<CountingModel>(seen_),
                                         options_);
    }

    // Returns when it has computed so many samples.
    void start_and_wait_for(Trainer& trainer, std::uint64_t samples) {
        std::promise<void> there;
        std::uint64_t computed = 0;
        seen_->computed = [&](std::uint64_t more) {
            const bool before = computed < samples;
            computed += more;
            if (before && computed >= samples) there.set_value();
        };
        trainer.start();
        there.get_future().wait();
        const std::lock_guard lock(seen_->mutex);
        seen_->computed = nullptr;
    }
    std::vector<std::uint64_t> states_told() {
        const std::lock_guard lock(seen_->mutex);
        return seen_->global_steps;
    }

    // Sizes of micro-batches, one after the other, until the run is over.
    std::vector<std::uint64_t> sizes_found(collab::Collaboration& collaboration,
                                           runtime::Clock& clock) {
        std::vector<std::uint64_t> found;
        options_.on_micro_batch = [&found](const MicroBatchSearch& search) {
            found.push_back(search.size());
        };
        const auto trainer_ = trainer(collaboration, &clock);
        trainer_->start();
        EXPECT_TRUE(trainer_->join());
        return found;
    }

    std::shared_ptr<CountingModel::Seen> seen_ = std::make_shared<CountingModel::Seen>();
    runtime::Loop loop_;
    std::unique_ptr<runtime::Scope> scope_;
    std::filesystem::path directory_;
    std::unique_ptr<runtime::Disk> disk_;
    std::unique_ptr<runtime::Clock> clock_;
    TrainerOptions options_;
    std::thread thread_;
};

TEST_F(TrainerTest, hands_in_every_sample_once_until_the_run_is_over) {
    LoneCollaboration collaboration(loop_.executor(), 20, 7);
    std::promise<bool> ended;
    options_.on_end = [&ended](const Result<void>& how) { ended.set_value(how.has_value()); };
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    EXPECT_TRUE(ended.get_future().get());
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.state()->step(), 7u);
    EXPECT_EQ(collaboration.handed_in, 7u * 24);  // micro-batches of 8 up to 20
    EXPECT_EQ(trainer_->samples_computed(), 7u * 24);
    EXPECT_FALSE(seen_->twice);
    EXPECT_FALSE(collaboration.somebody_computes());  // or leave() would wait for it
}

TEST_F(TrainerTest, computes_from_the_state_that_its_step_leads_to_while_the_vote_is_written) {
    LoneCollaboration collaboration(loop_.executor(), 20, 4);
    collaboration.expects = collaboration.holds = true;
    options_.loop.begins_early = true;
    const auto trainer_ = trainer(collaboration);
    start_and_wait_for(*trainer_, 2 * 24);
    EXPECT_EQ(collaboration.state()->step(), 0u);
    EXPECT_EQ(states_told(), (std::vector<std::uint64_t>{0, 1}));
    collaboration.holds = false;
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.steps_ahead, 3);  // after the last one nothing is computed
    EXPECT_EQ(collaboration.handed_in, 4u * 24);
    EXPECT_EQ(trainer_->samples_computed(), 4u * 24);
    EXPECT_EQ(collaboration.forgotten, 0u);
    EXPECT_EQ(states_told(), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, forgets_what_it_computed_from_a_state_that_never_came_to_be) {
    LoneCollaboration collaboration(loop_.executor(), 20, 4);
    collaboration.expects = collaboration.breaks_promise = collaboration.holds = true;
    options_.loop.begins_early = true;
    const auto trainer_ = trainer(collaboration);
    start_and_wait_for(*trainer_, 2 * 24);
    collaboration.holds = false;
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.forgotten, 24u);
    EXPECT_EQ(collaboration.handed_in, 4u * 24);
    EXPECT_EQ(states_told(), (std::vector<std::uint64_t>{0, 1, 1, 2, 3, 4}));
    EXPECT_FALSE(seen_->twice);
}

// A loop of one's own tells its owner which step its model is at.
TEST_F(TrainerTest, waits_for_the_step_where_the_state_is_shown_to_somebody) {
    LoneCollaboration collaboration(loop_.executor(), 20, 4);
    collaboration.expects = true;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.steps_ahead, 0);
    EXPECT_EQ(collaboration.handed_in, 4u * 24);
}

TEST_F(TrainerTest, tells_its_model_what_the_run_takes_of_a_gradients_norm) {
    LoneCollaboration collaboration(loop_.executor(), 20, 1);
    options_.loop.norm_max = 7;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(seen_->norm_max, 7.0);
}

TEST_F(TrainerTest, computes_nothing_while_there_is_no_use_in_it) {
    LoneCollaboration collaboration(loop_.executor(), 20, 3);
    collaboration.rests_left = 5;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.rests_left, 0);
    EXPECT_EQ(trainer_->samples_computed(), 3u * 24);
    EXPECT_EQ(collaboration.handed_in, 3u * 24);
}

// The rest of the batch comes after the pause; nothing is handed in before, and nothing is lost.
TEST_F(TrainerTest, a_pause_keeps_the_samples_of_a_step_that_is_not_due) {
    LoneCollaboration collaboration(loop_.executor(), 20, 3);
    seen_->computed = [&collaboration, first = true](std::uint64_t) mutable {
        if (std::exchange(first, false)) collaboration.pause_looks = 4;
    };
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.pause_looks, 0);
    EXPECT_EQ(trainer_->samples_computed(), 3u * 24);
    EXPECT_EQ(collaboration.handed_in, 3u * 24);
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, a_paused_trainer_can_be_stopped) {
    LoneCollaboration collaboration(loop_.executor(), 1'000'000, 0);
    const auto trainer_ = trainer(collaboration);
    start_and_wait_for(*trainer_, 8);
    collaboration.pause_looks = 1'000'000;
    trainer_->stop(Duration(0));
    (void)trainer_->join();
    EXPECT_GT(collaboration.pause_looks, 0);
}

// The largest that makes sense is found, and every sample computed meanwhile is handed in once.
TEST_F(TrainerTest, finds_its_micro_batch_on_samples_that_count) {
    LoneCollaboration collaboration(loop_.executor(), 64, 40);
    options_.micro_batch = run::micro_auto;
    options_.micro_search.samples_max = 64;
    std::vector<std::uint64_t> found;
    options_.on_micro_batch = [&](const MicroBatchSearch& search) {
        EXPECT_TRUE(search.done());
        found.push_back(search.size());
    };
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.state()->step(), 40u);
    EXPECT_EQ(collaboration.handed_in, trainer_->samples_computed());
    EXPECT_FALSE(seen_->twice);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(std::has_single_bit(found[0])) << found[0];
    EXPECT_LE(*seen_->sizes.rbegin(), 64u);
}

// Time is what computing takes.
class ComputedClock final : public runtime::Clock {
  public:
    TimePoint now() const override { return TimePoint{Duration(elapsed_.load())}; }
    WallSeconds wall_now() const override { return {}; }
    runtime::TimerId call_at(TimePoint, std::function<void()>) override { return 0; }
    void cancel_timer(runtime::TimerId) override {}
    void pass(double seconds) { elapsed_ += from_seconds(seconds).count(); }

  private:
    std::atomic<Duration::rep> elapsed_ = 0;
};

TEST_F(TrainerTest, finds_a_better_micro_batch_when_the_machine_is_its_own_again) {
    LoneCollaboration collaboration(loop_.executor(), 64, 400);
    options_.micro_batch = run::micro_auto;
    options_.micro_search.samples_max = 64;
    options_.micro_search_again = 100s;
    ComputedClock clock;
    // For a hundred seconds others use it, and what is computed takes the longer the more it is.
    seen_->computed = [&clock](std::uint64_t samples) {
        const bool busy = clock.now() < TimePoint{100s};
        clock.pass(busy ? 0.2 * static_cast<double>(samples * samples) : 0.5);
    };
    EXPECT_EQ(sizes_found(collaboration, clock), (std::vector<std::uint64_t>{2, 64}));
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, keeps_its_micro_batch_while_other_things_take_memory) {
    LoneCollaboration collaboration(loop_.executor(), 64, 400);
    options_.micro_batch = run::micro_auto;
    options_.micro_search.samples_max = 64;
    options_.micro_search.bytes_max = 1'100'000;
    options_.micro_search_again = 20s;
    ComputedClock clock;
    options_.memory = [&clock] { return clock.now() < TimePoint{25s} ? 1'000'000 : 1'200'000; };
    seen_->computed = [&clock](std::uint64_t) { clock.pass(0.5); };
    EXPECT_EQ(sizes_found(collaboration, clock), (std::vector<std::uint64_t>{64}));
}

TEST_F(TrainerTest, does_not_try_again_what_ran_out_of_memory) {
    LoneCollaboration collaboration(loop_.executor(), 64, 400);
    options_.micro_batch = run::micro_auto;
    options_.micro_search_again = 30s;  // within three minutes
    seen_->fits = 16;
    ComputedClock clock;
    std::uint64_t computed = 0;
    seen_->computed = [&](std::uint64_t samples) {
        clock.pass(0.1);
        computed += samples;
    };
    const auto trainer_ = trainer(collaboration, &clock);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.handed_in, computed);
    EXPECT_EQ(*seen_->sizes.rbegin(), 16u);
    EXPECT_EQ(seen_->refused, 1u);
}

// The other program is gone after fifty seconds: twice as many are tried after six searches.
TEST_F(TrainerTest, tries_what_ran_out_of_memory_again_much_later) {
    LoneCollaboration collaboration(loop_.executor(), 64, 800);
    options_.micro_batch = run::micro_auto;
    options_.micro_search.samples_max = 64;
    options_.micro_search_again = 10s;
    seen_->fits = 16;
    ComputedClock clock;
    seen_->computed = [&](std::uint64_t) {
        clock.pass(0.1);
        if (clock.now() > TimePoint{50s}) seen_->fits = 64;
    };
    EXPECT_EQ(sizes_found(collaboration, clock), (std::vector<std::uint64_t>{16, 32, 64}));
    EXPECT_EQ(seen_->refused, 1u);
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, computes_in_halves_what_did_not_fit_and_no_sample_is_lost_or_twice) {
    LoneCollaboration collaboration(loop_.executor(), 64, 10);
    options_.micro_batch = run::micro_auto;
    seen_->fits = 1;
    std::uint64_t found = 0;
    options_.on_micro_batch = [&](const MicroBatchSearch& search) { found = search.size(); };
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(found, 1u);
    EXPECT_EQ(collaboration.handed_in, 10u * 64);
    EXPECT_EQ(seen_->counters.size(), 10u * 64);
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, halves_what_fitted_when_others_take_the_memory_later) {
    LoneCollaboration collaboration(loop_.executor(), 64, 40);
    options_.micro_batch = run::micro_auto;
    options_.micro_search.samples_max = 16;
    ComputedClock clock;
    seen_->computed = [&](std::uint64_t) {
        clock.pass(0.1);
        if (clock.now() > TimePoint{10s}) seen_->fits = 5;
    };
    EXPECT_EQ(sizes_found(collaboration, clock), (std::vector<std::uint64_t>{16, 8, 4}));
    EXPECT_EQ(collaboration.handed_in, seen_->counters.size());
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, does_not_shrink_a_micro_batch_that_the_run_gives) {
    LoneCollaboration collaboration(loop_.executor(), 64, 10);
    seen_->fits = 4;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    const Result<void> how = trainer_->join();
    ASSERT_FALSE(how);
    EXPECT_NE(how.error().message().find("out of memory"), std::string::npos);
    EXPECT_NE(how.error().message().find("batch.micro, 8 samples"), std::string::npos);
}

// The mean gradient is 1, so that each of three inner steps at rate 1/2 goes half a unit.
TEST_F(TrainerTest, hands_in_the_way_it_went_by_itself_with_local_updates) {
    LoneCollaboration collaboration(loop_.executor(), 20, 5);
    collaboration.per_sample = 1.5f;
    run::RunFile run;
    run.local.emplace();
    run.local->batch = 8;
    run.local->optimizer.momentum = 0;
    run.local->optimizer.schedule.peak = 0.5;
    options_.loop.local = run.local;
    seen_->not_finite_from = 40;  // of 32 to 56: one inner step less, and one more micro-batch
    seen_->not_finite_until = 48;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.state()->step(), 5u);
    EXPECT_EQ(collaboration.handed_in, 5u * 24);
    EXPECT_EQ(collaboration.not_finite, 8u);
    EXPECT_FALSE(seen_->twice);
    // The outcome of the last step is a state, too.
    EXPECT_EQ(seen_->global_steps, std::vector<std::uint64_t>({0, 1, 2, 3, 4, 5}));
}

// Sums and numbers fit each other in every contribution, as step() checks.
TEST_F(TrainerTest, goes_on_computing_while_a_delayed_step_is_made) {
    LoneCollaboration collaboration(loop_.executor(), 20, 30);
    options_.loop.delayed = true;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.state()->step(), 30u);
    EXPECT_EQ(collaboration.steps_ahead, 30);
    EXPECT_EQ(collaboration.handed_in, 30u * 24);
    EXPECT_EQ(collaboration.forgotten, 24u);  // computed ahead of the last step
    EXPECT_EQ(trainer_->samples_computed(), 31u * 24);
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, forgets_what_it_computed_ahead_of_another_state_and_says_so) {
    LoneCollaboration collaboration(loop_.executor(), 20, 9);
    collaboration.resync_at = 4;
    options_.loop.delayed = true;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.state()->step(), 9u);
    EXPECT_EQ(collaboration.handed_in, 9u * 24);
    EXPECT_EQ(collaboration.forgotten, 2u * 24);
    EXPECT_EQ(trainer_->samples_computed(), 11u * 24);
}

TEST_F(TrainerTest, forgets_what_it_computed_ahead_of_a_step_that_failed) {
    LoneCollaboration collaboration(loop_.executor(), 20, 4);
    collaboration.failures_left = 3;
    options_.loop.delayed = true;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.state()->step(), 4u);
    EXPECT_EQ(collaboration.handed_in, 4u * 24);
    EXPECT_EQ(collaboration.forgotten, 4u * 24);
}

TEST_F(TrainerTest, leaves_out_what_is_not_finite_of_what_it_computes_ahead) {
    LoneCollaboration collaboration(loop_.executor(), 20, 5);
    options_.loop.delayed = true;
    seen_->not_finite_from = 32;  // the second micro-batch that is computed ahead
    seen_->not_finite_until = 48;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.not_finite, 16u);
    EXPECT_EQ(collaboration.handed_in, 5u * 24);
}

TEST_F(TrainerTest, hands_in_what_it_computed_ahead_when_it_is_stopped_in_a_step) {
    LoneCollaboration collaboration(loop_.executor(), 20, 0);
    collaboration.holds = true;
    options_.loop.delayed = true;
    options_.loop.make_evaluator = nullptr;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    while (trainer_->samples_computed() < 2 * 24) std::this_thread::yield();
    trainer_->stop(10s);
    collaboration.holds = false;
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(trainer_->samples_computed(), 2u * 24);
    EXPECT_EQ(collaboration.handed_in, 2u * 24);
    EXPECT_EQ(collaboration.forgotten, 0u);
}

TEST_F(TrainerTest, evaluates_the_last_state_if_it_is_the_first_trainer) {
    LoneCollaboration collaboration(loop_.executor(), 8, 7);
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    ASSERT_FALSE(collaboration.evaluated.empty());
    EXPECT_EQ(collaboration.evaluated.back(), 7u);
    // Model and report agree on which state was measured.
    EXPECT_EQ(seen_->evaluated_values, collaboration.evaluated);
    EXPECT_TRUE(std::is_sorted(collaboration.evaluated.begin(), collaboration.evaluated.end()));
}

TEST_F(TrainerTest, leaves_evaluation_to_the_first_trainer) {
    LoneCollaboration collaboration(loop_.executor(), 8, 7);
    collaboration.self_index = 2;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    EXPECT_TRUE(collaboration.evaluated.empty());
}

// The first trainer has no memory for it, say.
TEST_F(TrainerTest, takes_over_from_a_first_trainer_that_evaluates_nothing_for_long) {
    for (const bool can : {true, false}) {
        LoneCollaboration collaboration(loop_.executor(), 8, 40);
        collaboration.self_index = 2;
        collaboration.first_trainer.evaluates = can;
        const auto trainer_ = trainer(collaboration);
        trainer_->start();
        ASSERT_TRUE(trainer_->join());
        EXPECT_EQ(collaboration.evaluated.empty(), can);
        if (can) continue;
        ASSERT_FALSE(collaboration.evaluated.empty());
        EXPECT_GE(collaboration.evaluated.front(), 9u) << "it was given time";
    }
}

// All would evaluate at once, for ever.
TEST_F(TrainerTest, leaves_evaluation_to_a_first_trainer_that_is_slow_at_it) {
    LoneCollaboration collaboration(loop_.executor(), 8, 100);
    collaboration.self_index = 2;
    collaboration.first_trainer.takes = 10;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    ASSERT_TRUE(trainer_->join());
    for (const std::uint64_t step : collaboration.evaluated)
        EXPECT_LE(step, 20u) << "then it was seen to be able to";
}

TEST_F(TrainerTest, evaluates_for_first_trainers_that_have_no_state_yet_or_leave) {
    for (const membership::Phase phase :
         {membership::Phase::downloading, membership::Phase::leaving}) {
        LoneCollaboration collaboration(loop_.executor(), 8, 4);
        collaboration.self_index = 2;
        collaboration.first_trainer.phase = phase;
        const auto trainer_ = trainer(collaboration);
        trainer_->start();
        ASSERT_TRUE(trainer_->join());
        ASSERT_FALSE(collaboration.evaluated.empty()) << to_string(phase);
        EXPECT_EQ(collaboration.evaluated.back(), 4u);
    }
}

// In the middle of the run, and after its last step.
TEST_F(TrainerTest, ends_at_once_when_it_is_stopped_in_an_evaluation) {
    for (const std::uint64_t steps_max : {0u, 2u}) {
        LoneCollaboration collaboration(loop_.executor(), 8, steps_max);
        seen_->evaluates_for_ever = true;
        seen_->evaluates = false;
        const auto trainer_ = trainer(collaboration);
        trainer_->start();
        while (!seen_->evaluates) std::this_thread::yield();
        trainer_->stop(10s);
        EXPECT_TRUE(trainer_->join());
        EXPECT_TRUE(collaboration.evaluated.empty());
    }
}

TEST_F(TrainerTest, an_evaluator_that_failed_tries_again_with_the_next_state) {
    LoneCollaboration collaboration(loop_.executor(), 8, 0);
    bool fails = true;
    seen_->throws_when_loading = 2;
    Evaluator evaluator(runtime::spawner(loop_, *scope_), collaboration, [&]() {
        if (std::exchange(fails, false))
            return Result<std::unique_ptr<SampledModel>>(
                make_error(ErrorKind::cannot_compute, "no memory now"));
        return options_.loop.make_evaluator();
    });
    for (const std::uint64_t step : {1u, 2u, 3u}) {
        evaluator.request(LoneCollaboration::made_state(step));
        ASSERT_TRUE(evaluator.finish_within(60s));
    }
    EXPECT_EQ(collaboration.evaluated, std::vector<std::uint64_t>{3});
}

TEST_F(TrainerTest, never_uses_a_sample_number_again_after_a_restart) {
    for (const bool clean : {true, false, true}) {
        LoneCollaboration collaboration(loop_.executor(), 20, 3);
        const auto trainer_ = trainer(collaboration);
        trainer_->start();
        ASSERT_TRUE(trainer_->join());
        EXPECT_FALSE(seen_->twice);
        if (clean) continue;
        // A crash leaves the reservation instead of the exact end.
        Result<SampleCounter> counter = SampleCounter::open(*disk_, "samples");
        ASSERT_TRUE(counter);
        const Result<CounterRange> used = counter->take(5);
        ASSERT_TRUE(used);
        const std::lock_guard lock(seen_->mutex);
        for (std::uint64_t i = used->begin; i < used->end; ++i) seen_->counters.insert(i);
    }
}

TEST_F(TrainerTest, goes_on_after_a_disk_that_was_full_for_a_moment) {
    LoneCollaboration collaboration(loop_.executor(), 20, 3);
    FullDisk disk(*disk_);
    disk.refusals = 2;
    options_.loop.disk_tried_again_after = 1ms;
    const auto trainer_ = trainer(collaboration, nullptr, &disk);
    trainer_->start();
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(disk.refused, 2);
    EXPECT_EQ(collaboration.handed_in, 3u * 24);
    EXPECT_FALSE(seen_->twice);
}

TEST_F(TrainerTest, hands_in_what_it_has_when_it_is_stopped_while_the_disk_is_full) {
    LoneCollaboration collaboration(loop_.executor(), 1'000'000'000, 0);
    FullDisk disk(*disk_);
    disk.taken_before = 1;
    disk.refusals = 1'000'000;
    options_.loop.disk_tried_again_after = 1h;
    options_.loop.make_evaluator = nullptr;
    const auto trainer_ = trainer(collaboration, nullptr, &disk);
    trainer_->start();
    while (disk.refused == 0) std::this_thread::yield();
    trainer_->stop(10s);
    (void)trainer_->join();  // the unused numbers cannot be given back
    EXPECT_GE(collaboration.handed_in, counter_block);
    EXPECT_EQ(collaboration.handed_in, trainer_->samples_computed());
}

TEST_F(TrainerTest, goes_on_after_rounds_that_failed) {
    LoneCollaboration collaboration(loop_.executor(), 8, 4);
    collaboration.failures_left = 3;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.state()->step(), 4u);
}

TEST_F(TrainerTest, ends_with_the_error_when_rounds_only_fail) {
    LoneCollaboration collaboration(loop_.executor(), 8, 4);
    collaboration.failures_left = 1000;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    const Result<void> how = trainer_->join();
    ASSERT_FALSE(how);
    EXPECT_EQ(how.error().kind(), ErrorKind::timeout);
}

TEST_F(TrainerTest, ends_with_what_the_model_says) {
    LoneCollaboration collaboration(loop_.executor(), 100, 4);
    seen_->fail_at = 40;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    const Result<void> how = trainer_->join();
    ASSERT_FALSE(how);
    EXPECT_EQ(how.error().message(), "no more memory");
}

TEST_F(TrainerTest, ends_with_what_the_model_throws) {
    LoneCollaboration collaboration(loop_.executor(), 8, 4);
    seen_->throws_when_loading = 2;
    options_.loop.make_evaluator = nullptr;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    const Result<void> how = trainer_->join();
    ASSERT_FALSE(how);
    EXPECT_EQ(how.error().message(),
              "this machine cannot go on training: CUDA out of memory. (if memory ran out, "
              "--device cpu may have more)");
    EXPECT_EQ(how.error().kind(), ErrorKind::cannot_compute);
    EXPECT_FALSE(collaboration.somebody_computes());
}

// Micro-batches of 8; in the middle of what is handed in, and at its beginning.
TEST_F(TrainerTest, leaves_out_and_counts_a_micro_batch_that_is_not_finite) {
    for (const auto& [from, until] : {std::pair<std::uint64_t, std::uint64_t>{16, 32}, {0, 8}}) {
        LoneCollaboration collaboration(loop_.executor(), 20, 3);
        options_.loop.counter_path = fmt::format("samples-{}", from);
        seen_->counters.clear();
        seen_->not_finite_from = from;
        seen_->not_finite_until = until;
        const auto trainer_ = trainer(collaboration);
        trainer_->start();
        ASSERT_TRUE(trainer_->join());
        // step() checks that the sum is that of exactly the samples with weight.
        EXPECT_EQ(collaboration.handed_in, 3u * 24);
        EXPECT_EQ(collaboration.not_finite, until - from);
        EXPECT_FALSE(seen_->twice);
    }
}

TEST_F(TrainerTest, ends_when_nothing_that_it_computes_is_finite) {
    LoneCollaboration collaboration(loop_.executor(), 20, 3);
    seen_->not_finite_from = 30;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    const Result<void> how = trainer_->join();
    ASSERT_FALSE(how);
    EXPECT_EQ(how.error().kind(), ErrorKind::cannot_compute);
    EXPECT_NE(how.error().message().find("not finite"), std::string::npos);
}

TEST_F(TrainerTest, hands_in_what_it_has_when_it_is_stopped) {
    LoneCollaboration collaboration(loop_.executor(), 1'000'000'000, 0);
    options_.loop.make_evaluator = nullptr;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    while (trainer_->samples_computed() < 100) std::this_thread::yield();
    trainer_->stop(10s);
    ASSERT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.handed_in, trainer_->samples_computed());
}

TEST_F(TrainerTest, waits_no_longer_than_it_was_told_for_the_last_step) {
    LoneCollaboration collaboration(loop_.executor(), 8, 0);
    collaboration.hangs = true;
    options_.loop.make_evaluator = nullptr;
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    while (trainer_->samples_computed() < 8) std::this_thread::yield();
    trainer_->stop(100ms);
    EXPECT_TRUE(trainer_->join());
    EXPECT_EQ(collaboration.handed_in, 0u);
}

TEST_F(TrainerTest, refuses_a_counter_file_that_is_damaged) {
    const Bytes damaged{1, 2, 3};
    ASSERT_TRUE(disk_->write_atomically("samples", damaged));
    LoneCollaboration collaboration(loop_.executor(), 8, 1);
    const auto trainer_ = trainer(collaboration);
    trainer_->start();
    const Result<void> how = trainer_->join();
    ASSERT_FALSE(how);
    EXPECT_EQ(how.error().kind(), ErrorKind::bad_input);
}

}  // namespace
}  // namespace dedloc::train
