// When the table of codecs says that eight bits keep their promise.

#include "experiments/codecs_command.h"

#include <gtest/gtest.h>

namespace dedloc::lab {
namespace {

CodecRow row(const std::string& name, std::vector<double> averages) {
    CodecRow row;
    row.name = name;
    row.averages = std::move(averages);
    return row;
}

TEST(Codecs, eight_bits_are_within_their_bound_only_where_they_were_measured) {
    const CodecRow other = row("fp16", {0.5, 0.5, 0.5});
    EXPECT_TRUE(block8_within(std::vector{other, row("blockwise8", {0.011, 0.011, 0.0119})}));
    EXPECT_FALSE(block8_within(std::vector{other, row("blockwise8", {0.011, 0.0121, 0.011})}));
    EXPECT_FALSE(block8_within(std::vector{row("fp16", {0.001, 0.001, 0.001})}));
    EXPECT_FALSE(block8_within(std::vector{row("blockwise8", {})}));
}

}  // namespace
}  // namespace dedloc::lab
