#include "dedloc/peer/fits_memory.h"

#include <gtest/gtest.h>

namespace dedloc::peer {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

class SizedTask final : public tasks::TrainingTask {
  public:
    explicit SizedTask(tasks::MemoryEstimate of_one) : of_one_(of_one) {}
    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId&) const override {
        return make_error(ErrorKind::unsupported, "nothing is to be computed");
    }
    std::string device() const override { return "cpu"; }
    std::string description() const override { return "a large model"; }
    tasks::MemoryEstimate memory(std::uint64_t samples) const override {
        tasks::MemoryEstimate estimate = of_one_;
        estimate.activations *= samples;
        return estimate;
    }

  private:
    tasks::MemoryEstimate of_one_;
};

TEST(FitsMemory, what_is_larger_than_the_machine_is_refused_with_both_numbers) {
    const SizedTask task(
        {.model = 3 * gib, .activations = gib, .collaboration = 11 * gib, .program = gib / 4});
    const Ok small = check_fits(task, MemoryUse::training, 8 * gib);
    ASSERT_FALSE(small);
    EXPECT_EQ(small.error().kind(), ErrorKind::cannot_compute);
    EXPECT_EQ(small.error().message(),
              "a large model takes at least 14.8 GiB of memory, and this machine, or what limits "
              "this program on it, has 8.0 GiB left; make the model smaller, or take a larger "
              "machine");
    EXPECT_TRUE(check_fits(task, MemoryUse::training, 16 * gib));
    EXPECT_TRUE(check_fits(task, MemoryUse::evaluation, 8 * gib)) << "which keeps the model alone";
    EXPECT_FALSE(check_fits(task, MemoryUse::evaluation, 2 * gib));
}

TEST(FitsMemory, averages_that_are_kept_for_others_need_no_room) {
    const SizedTask task({.model = gib / 64, .collaboration = gib / 2, .program = gib / 4});
    EXPECT_TRUE(check_fits(task, MemoryUse::training, gib / 2));
}

TEST(FitsMemory, what_is_not_known_is_no_reason_to_refuse) {
    EXPECT_TRUE(check_fits(SizedTask({}), MemoryUse::training, 1));
    EXPECT_TRUE(check_fits(SizedTask({.model = gib}), MemoryUse::training, 0));
}

}  // namespace
}  // namespace dedloc::peer
