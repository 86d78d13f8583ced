#include "dedloc/run/run_hints.h"

#include <gtest/gtest.h>

namespace dedloc::run {
namespace {

std::vector<std::string> hints_of(const std::string& text) {
    const auto run = parse_run_file("name = \"a\"\n" + text, "run.toml");
    EXPECT_TRUE(run) << to_string(run.error());
    return run ? hints_about(*run) : std::vector<std::string>();
}

TEST(RunHints, name_what_does_nothing_with_the_optimizer) {
    using Hints = std::vector<std::string>;
    EXPECT_EQ(hints_of("[optimizer]\nkind = \"adamw\"\nmomentum = 0.8\n"),
              Hints{"optimizer.momentum does nothing with adamw, which has beta1 for it; take the "
                    "line out"});
    EXPECT_EQ(hints_of("[optimizer]\nkind = \"sgd\"\nbeta1 = 0.8\n"),
              Hints{"optimizer.beta1 does nothing with sgd, which has momentum for it; take the "
                    "line out"});
    EXPECT_EQ(hints_of("[local]\nbatch = 64\n[local.optimizer]\nkind = \"lamb\"\nlarc = true\n"),
              Hints{"local.optimizer.larc does nothing with lamb; take the line out"});
}

TEST(RunHints, are_none_where_everything_is_used) {
    EXPECT_TRUE(hints_of("").empty());
    EXPECT_TRUE(
        hints_of("[optimizer]\nkind = \"sgd\"\nmomentum = 0.8\nlarc = true\nlarc_trust = 0.1\n")
            .empty());
    EXPECT_TRUE(hints_of("[optimizer]\nkind = \"lamb\"\nbeta1 = 0.8\n").empty());
}

}  // namespace
}  // namespace dedloc::run
