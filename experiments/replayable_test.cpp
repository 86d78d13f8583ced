#include "experiments/replayable.h"

#include <gtest/gtest.h>
#include <string>

namespace dedloc::lab {
namespace {

// Says what speaks against a replay of this run; empty: nothing does.
std::string refusal(const std::string& keys) {
    const auto run = run::parse_run_file("name = \"again\"\n" + keys, "run.toml");
    EXPECT_TRUE(run) << (run ? "" : run.error().message());
    if (!run) return "no run file";
    const Ok checked = check_replayable(*run);
    return checked ? "" : checked.error().message();
}

TEST(Replayable, gradients_of_numbered_samples_are) {
    EXPECT_EQ(refusal(""), "");
    EXPECT_EQ(refusal("[averaging]\ncodec = \"blockwise8\"\n"), "");
}

TEST(Replayable, what_follows_from_a_peer_s_own_past_is_refused_with_a_reason) {
    const std::string start = "the run 'again' cannot be computed again from its certificates: ";
    EXPECT_EQ(refusal("[local]\nbatch = 64\nfragments = 4\n").find(start + "with local.fragments"),
              0u);
    EXPECT_EQ(refusal("[local]\nbatch = 64\n").find(start + "with [local]"), 0u);
    EXPECT_EQ(
        refusal("[averaging]\ncodec = \"sparse\"\n").find(start + "with this averaging.codec"), 0u);
    EXPECT_EQ(refusal("[averaging]\ndelayed = true\n").find(start + "with averaging.delayed"), 0u);
    EXPECT_EQ(refusal("[batch]\nmicro = \"auto\"\n").find(start + "with batch.micro"), 0u);
}

}  // namespace
}  // namespace dedloc::lab
