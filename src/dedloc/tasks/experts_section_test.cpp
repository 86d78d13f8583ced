#include "dedloc/tasks/experts_section.h"

#include <gtest/gtest.h>

namespace dedloc::tasks {
namespace {

run::TaskConfig with_grid(std::string grid, std::uint64_t best = 2, std::uint64_t at_least = 1) {
    ExpertKeys keys;
    keys.grid = std::move(grid);
    keys.best = best;
    keys.at_least = at_least;
    run::TaskConfig task;
    task.seed = 7;
    task.set_section(run::section_from(experts_section_name, std::move(keys)));
    return task;
}

TEST(ExpertsSection, reads_grids_and_refuses_what_is_none) {
    EXPECT_EQ(expert_grid(with_grid("4x5"))->sizes, (std::vector<std::uint32_t>{4, 5}));
    EXPECT_EQ(expert_grid(with_grid("16"))->experts_count(), 16u);
    for (const char* wrong :
         {"", "x", "4x", "x4", "4x0", "4y4", "4x-1", "999999999999x2", "70000", "4 x 4"})
        EXPECT_FALSE(expert_grid(with_grid(wrong))) << wrong;
    EXPECT_FALSE(expert_grid(with_grid("2x2", 5))) << "more than there are";
    EXPECT_FALSE(expert_grid(with_grid("2x2", 2, 3))) << "more answers than questions";
}

TEST(ExpertsSection, makes_the_same_expert_on_every_machine) {
    const auto served = run_experts(with_grid("2x2"), 8);
    ASSERT_TRUE(served);
    const experts::ExpertUid uid = served->grid.all().at(1);
    const auto one = served->factory(uid).value();
    const auto two = served->factory(uid).value();
    EXPECT_EQ(one->bytes(), served->bytes_of_one);
    EXPECT_EQ(one->snapshot()[0].values, two->snapshot()[0].values);
    const auto other = served->factory(served->grid.all().at(2)).value();
    EXPECT_NE(one->snapshot()[0].values, other->snapshot()[0].values);
}

}  // namespace
}  // namespace dedloc::tasks
