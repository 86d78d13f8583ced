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

// The host of a loop of its own wrote the file without a schema.
TEST(ExpertsSection, of_a_loop_of_ones_own_has_every_key_within_its_bounds) {
    using run::SectionValue;
    run::TaskConfig whole = with_grid("2x2");
    run::Section section = *whole.section(experts_section_name);
    section.fields.push_back({"width", SectionValue(std::uint64_t{8})});
    whole.set_section(section);
    const auto served = own_loop_experts(whole);
    ASSERT_TRUE(served) << served.error().message();
    EXPECT_EQ(served->factory(served->grid.all().at(1)).value()->bytes(), served->bytes_of_one);

    EXPECT_FALSE(own_loop_experts(with_grid("2x2"))) << "no width";
    EXPECT_FALSE(own_loop_experts(run::TaskConfig())) << "no section";
    const auto refused = [&](std::string_view key, SectionValue value) {
        run::Section changed = section;
        for (run::Section::Field& field : changed.fields)
            if (field.key == key) field.value = value;
        run::TaskConfig task = whole;
        task.set_section(changed);
        const auto experts = own_loop_experts(task);
        return !experts && experts.error().message().find(key) != std::string::npos;
    };
    EXPECT_TRUE(refused("hidden", std::uint64_t{1} << 40));
    EXPECT_TRUE(refused("width", std::uint64_t{0}));
    EXPECT_TRUE(refused("rate", std::uint64_t{1})) << "a whole number where a fraction belongs";
    EXPECT_TRUE(refused("rate", -1.0));
    EXPECT_TRUE(refused("grid", std::string("x")));
}

}  // namespace
}  // namespace dedloc::tasks
