#include "dedloc/tasks/moe_classifier/moe_classifier.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

#include "dedloc/tasks/experts_section.h"
#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/tasks/tasks_testing.h"

namespace dedloc::tasks {
namespace {

run::TaskConfig moe_config() {
    MoeKeys sizes;
    sizes.width = 16;
    ExpertKeys experts;
    experts.hidden = 32;
    run::TaskConfig task{
        .kind = "moe_classifier", .model = "moe_mlp", .data = "fashion-mnist", .seed = 3};
    task.set_section(run::section_from(moe_section_name, sizes));
    task.set_section(run::section_from(experts_section_name, std::move(experts)));
    return task;
}

TEST(MoeClassifier, the_trunk_alone_is_the_runs_vector) {
    if (!std::filesystem::exists(fashion_mnist_directory))
        GTEST_SKIP() << "wants the Debian package dataset-fashion-mnist";
    const auto task = make_task(moe_config(), {.device = "cpu", .threads_count = 1});
    ASSERT_TRUE(task) << to_string(task.error());
    const auto learner = *(*task)->learner(made_peer(1));
    // Both dense layers, the norm, and a gate with an output for each coordinate of a 4 x 4 grid.
    const std::uint64_t trunk = (784 + 1) * 16 + (16 + 1) * 8 + 2 * 16 + (16 + 1) * 10;
    EXPECT_EQ(learner->layout().parameters_count, trunk);
    std::vector<float> parameters(trunk);
    learner->store(parameters, {});
    learner->load(parameters, {});
    const auto report = learner->accumulate({0, 32});
    ASSERT_TRUE(report) << to_string(report.error());
    EXPECT_TRUE(report->finite);
    EXPECT_LT(report->loss_sum / 32, 2 * std::log(10.0));
    const auto evaluation = learner->evaluate();
    ASSERT_FALSE(evaluation) << "the experts are elsewhere";
    EXPECT_EQ(evaluation.error().kind(), ErrorKind::unsupported);
}

TEST(MoeClassifier, its_servers_need_no_data) {
    const auto* kind = find_task("moe_classifier");
    ASSERT_TRUE(kind && kind->experts);
    const auto served = kind->experts(moe_config(), {.threads_count = 1});
    ASSERT_TRUE(served) << to_string(served.error());
    EXPECT_EQ(served->grid.experts_count(), 16u);
    const auto expert = served->factory(served->grid.all().front()).value();
    EXPECT_EQ(expert->bytes(), served->bytes_of_one);
    EXPECT_EQ(expert->schema().inputs.front().sample, std::vector<std::int64_t>{16});
}

}  // namespace
}  // namespace dedloc::tasks
