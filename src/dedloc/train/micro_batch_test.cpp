#include "dedloc/train/micro_batch.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace dedloc::train {
namespace {

// A micro-batch of n samples takes fixed_s + n × sample_s, and the first ones more; memory
// for the largest one stays in use.
struct Machine {
    double fixed_s = 0.01;
    double sample_s = 0.001;
    double start_s = 5;
    std::size_t starts = 1;
    std::uint64_t slow_at = 0;  // another process disturbs micro-batches of this size
    std::uint64_t bytes_before = 1'000'000;
    std::uint64_t sample_bytes = 1000;
    std::uint64_t fits = ~std::uint64_t{0};  // more samples at a time run out of memory
    std::string failure = "CUDA out of memory. Tried to allocate 2.00 GiB";

    TimePoint now{};
    std::uint64_t largest = 0;
    std::uint64_t computed = 0;
    std::multiset<std::uint64_t> sizes{};
    bool twice = false;

    std::uint64_t bytes() const { return bytes_before + largest * sample_bytes; }
};

class FakeLearner final : public train::SampledModel {
  public:
    explicit FakeLearner(Machine& machine) : machine_(machine) {}
    run::Layout layout() const override { return {}; }
    void load(std::span<const float>, std::span<const float>) override {}
    void store(std::span<float>, std::span<float>) const override {}
    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        machine_.twice = machine_.twice || samples.begin < machine_.computed;
        machine_.computed = samples.end;
        const std::uint64_t count = samples.size();
        if (count > machine_.fits)
            return make_error(ErrorKind::cannot_compute, "{}", machine_.failure);
        double seconds = machine_.fixed_s + machine_.sample_s * static_cast<double>(count);
        if (count == machine_.slow_at) seconds *= 4;
        const std::size_t before = machine_.sizes.size();
        if (before < machine_.starts) seconds += machine_.start_s / std::pow(4, before);
        machine_.now = machine_.now + from_seconds(seconds);
        machine_.sizes.insert(count);
        machine_.largest = std::max(machine_.largest, count);
        return train::GradientReport{};
    }
    void take_sum(std::span<float>) override {}
    void take_buffers(std::span<float>, double) override {}
    void forget_sum() override {}
    Result<collab::Evaluation> evaluate() override { return collab::Evaluation{}; }

  private:
    Machine& machine_;
};

Result<MicroBatchSearch> found(Machine& machine, const MicroBatchOptions& options = {}) {
    FakeLearner learner(machine);
    return search_micro_batch(
        learner,
        options,
        [&machine] { return machine.now; },
        [&machine] { return machine.bytes(); });
}

// Doubling n gains 2 (a + b n) / (a + 2 b n): more than 5 % while n < 9.5 a / b.
TEST(MicroBatchSearch, doubles_while_it_gains_a_twentieth) {
    Machine machine{.fixed_s = 0.01, .sample_s = 0.001};
    const auto search = found(machine);
    ASSERT_TRUE(search);
    EXPECT_EQ(search->size(), 128u);
    EXPECT_NEAR(search->samples_per_s(), 128 / 0.138, 1e-3);
    EXPECT_NEAR(search->seconds(), 0.138, 1e-9);
    EXPECT_EQ(search->why(), "more at a time compute hardly more samples a second");
    EXPECT_FALSE(machine.twice);
    // For 0.1 s each, at least twice, and the first once more, which misleads nobody.
    EXPECT_EQ(machine.sizes.count(2), 10u);   // of 12 ms
    EXPECT_EQ(machine.sizes.count(32), 3u);   // of 42 ms
    EXPECT_EQ(machine.sizes.count(512), 2u);  // of 522 ms, and no more after it
    EXPECT_EQ(*machine.sizes.rbegin(), 512u);
}

TEST(MicroBatchSearch, tells_of_each_micro_batch_what_it_took) {
    Machine machine{.fixed_s = 0.5, .sample_s = 0.25, .starts = 0};
    FakeLearner learner(machine);
    std::vector<std::pair<std::uint64_t, double>> told;
    const auto search = search_micro_batch(
        learner,
        {},
        [&machine] { return machine.now; },
        [&machine] { return machine.bytes(); },
        [&told](std::uint64_t samples, double seconds) { told.emplace_back(samples, seconds); });
    ASSERT_TRUE(search);
    ASSERT_EQ(told.size(), 2u) << "the first does not count, and the second took a second";
    for (const auto& [samples, seconds] : told) {
        EXPECT_EQ(samples, 2u);
        EXPECT_DOUBLE_EQ(seconds, 1.0);
    }
}

// As a GPU whose kernels are loaded when they are used first.
TEST(MicroBatchSearch, is_not_misled_by_a_machine_that_warms_up_for_two_micro_batches) {
    Machine machine{.fixed_s = 0.01, .sample_s = 0.001, .starts = 2};
    EXPECT_EQ(found(machine)->size(), 128u);
}

TEST(MicroBatchSearch, looks_beyond_a_size_at_which_the_machine_was_busy) {
    for (const std::uint64_t slow : {4, 16, 32}) {
        Machine machine{.fixed_s = 0.01, .sample_s = 0.001, .slow_at = slow};
        EXPECT_EQ(found(machine)->size(), 128u) << slow;
    }
}

TEST(MicroBatchSearch, ends_where_a_micro_batch_takes_a_second) {
    Machine machine{.fixed_s = 0.9, .sample_s = 0.02};
    const auto search = found(machine);
    ASSERT_TRUE(search);
    EXPECT_EQ(search->size(), 8u);
    EXPECT_EQ(search->why(), "they take 1.1 s");
    EXPECT_EQ(machine.sizes.count(8), 1u);  // once is enough to see it
}

TEST(MicroBatchSearch, never_exceeds_the_target_batch) {
    Machine machine{.fixed_s = 0.1, .sample_s = 1e-6};
    EXPECT_EQ(found(machine, {.samples_max = 100})->size(), 64u);
    Machine one;
    EXPECT_EQ(found(one, {.samples_max = 1})->size(), 1u);
    EXPECT_EQ(one.sizes.count(1), one.sizes.size());
}

// 64 samples take 64 kB: twice as much would go beyond the bound.
TEST(MicroBatchSearch, stays_within_memory) {
    Machine machine{.fixed_s = 0.1, .sample_s = 1e-6};
    const auto search = found(machine, {.bytes_max = 1'100'000});
    ASSERT_TRUE(search);
    EXPECT_EQ(search->size(), 64u);
    EXPECT_EQ(search->why(), "twice as many might not fit into memory");
    EXPECT_LE(machine.bytes(), 1'100'000u);
    // Where memory is not known, it is no reason.
    Machine unknown{.fixed_s = 0.1, .sample_s = 1e-6, .bytes_before = 0, .sample_bytes = 0};
    EXPECT_EQ(found(unknown, {.bytes_max = 1})->size(), 1024u);
}

// As a trainer's next search: what its peer keeps by now came after the memory was looked at.
TEST(MicroBatchSearch, reaches_what_fitted_already_whatever_else_took_memory_since) {
    const auto found_again = [](std::uint64_t known) {
        Machine machine{.fixed_s = 0.1, .sample_s = 1e-6, .starts = 0};
        FakeLearner learner(machine);
        const MicroBatchOptions options{
            .samples_first = 32, .bytes_max = 1'100'000, .samples_known = known};
        return search_micro_batch(
                   learner,
                   options,
                   [&machine] { return machine.now; },
                   [&machine] { return machine.bytes() + (machine.largest > 0 ? 90'000 : 0); })
            ->size();
    };
    EXPECT_EQ(found_again(0), 32u);
    EXPECT_EQ(found_again(64), 64u);
    EXPECT_EQ(found_again(65), 64u);
}

TEST(MicroBatchSearch, halves_when_memory_runs_out) {
    Machine machine{.fixed_s = 0.1, .sample_s = 1e-6, .fits = 20};
    const auto search = found(machine);
    ASSERT_TRUE(search);
    EXPECT_EQ(search->size(), 16u);
    EXPECT_EQ(search->why(), "32 at a time do not fit into memory");
    EXPECT_NEAR(search->samples_per_s(), 160, 0.1);
}

TEST(MicroBatchSearch, ends_with_any_other_error_and_where_not_one_sample_fits) {
    Machine broken{.fits = 10, .failure = "sizes do not match"};
    EXPECT_FALSE(found(broken));
    Machine tiny{.fits = 0};
    const auto search = found(tiny);
    ASSERT_TRUE(search);  // one may fit; if it does not, the trainer will say so
    EXPECT_EQ(search->size(), 1u);
    EXPECT_FALSE(found(tiny, {.samples_max = 1}));
}

TEST(MicroBatchSearch, knows_what_says_that_memory_ran_out) {
    for (const char* text : {"CUDA out of memory. Tried to allocate 2.00 GiB",
                             "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate",
                             "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
                             "DefaultCPUAllocator: can't allocate memory",
                             "std::bad_alloc"})
        EXPECT_TRUE(says_out_of_memory(make_error(ErrorKind::cannot_compute, "{}", text))) << text;
    EXPECT_FALSE(says_out_of_memory(make_error(ErrorKind::cannot_compute, "sizes do not match")));
}

TEST(MicroBatchSearch, divides_the_inner_batch_of_local_updates) {
    EXPECT_EQ(micro_batch_max(1000, 0), 1000u);
    EXPECT_EQ(micro_batch_max(1000, 96), 32u);
    EXPECT_EQ(micro_batch_max(1000, 7), 1u);
    EXPECT_EQ(micro_batch_max(16, 64), 16u);
}

}  // namespace
}  // namespace dedloc::train
