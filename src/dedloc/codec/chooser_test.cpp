#include "dedloc/codec/chooser.h"

#include <gtest/gtest.h>

#include "dedloc/base/random.h"

namespace dedloc::codec {
namespace {

const std::vector<TensorFacts> model = {
    {"embedding.weight", 1000000, TensorRole::gradient},
    {"layer.norm.weight", 1024, TensorRole::gradient},
    {"layer.norm.bias", 1024, TensorRole::gradient},
    {"layer.empty", 0, TensorRole::gradient},
    {"layer.dense.weight", 65536, TensorRole::gradient},
    {"batch_norm.running_mean", 100000, TensorRole::buffer},
};

TEST(Chooser, without_rules_everything_is_the_same) {
    const CodecRules rules{{}, CodecId::bf16};
    const std::vector<CodecRange> wanted = {{0, 1167584, CodecId::bf16}};
    EXPECT_EQ(codec_ranges(rules, model), wanted);
    EXPECT_TRUE(codec_ranges(rules, {}).empty());
}

TEST(Chooser, size_role_and_name_decide_in_the_order_of_the_rules) {
    CodecRules rules;
    rules.otherwise = CodecId::blockwise8;
    CodecRule small;
    small.elements_below = 65536;
    small.codec = CodecId::fp16;
    CodecRule buffers;
    buffers.role = TensorRole::buffer;
    buffers.codec = CodecId::fp32;
    CodecRule embedding;
    embedding.name_part = "embedding";
    embedding.codec = CodecId::bf16;
    rules.rules = {small, buffers, embedding};
    const std::vector<CodecRange> wanted = {{0, 1000000, CodecId::bf16},
                                            {1000000, 2048, CodecId::fp16},
                                            {1002048, 65536, CodecId::blockwise8},
                                            {1067584, 100000, CodecId::fp32}};
    EXPECT_EQ(codec_ranges(rules, model), wanted);
    CodecRule first;
    first.elements_least = 1024;
    first.codec = CodecId::bf16;
    rules.rules.insert(rules.rules.begin(), first);
    EXPECT_EQ(codec_ranges(rules, model).size(), 1u) << "the first rule that fits decides";
}

TEST(Chooser, a_short_range_between_others_grows_into_what_has_fewer_bytes) {
    constexpr CodecId coarse = CodecId::blockwise8;
    constexpr CodecId fine = CodecId::fp16;
    const std::vector<CodecRange> ranges = {{0, 10000, coarse},
                                            {10000, 10, fine},
                                            {10010, 10000, coarse},
                                            {20010, 5000, fine},
                                            {25010, 4500, coarse},
                                            {29510, 1000, fine},
                                            {30510, 5000, coarse},
                                            {35510, 3, fine}};
    const std::vector<CodecRange> wanted = {
        {0, 10000, coarse},
        {10000, 4096, fine},
        {14096, 5914, coarse},
        {20010, 5000, fine},
        {25010, 4500, coarse},
        {29510, 6003, fine}};  // else too little of the next one would be left
    EXPECT_EQ(without_short_ranges(ranges, 4096), wanted);
    EXPECT_EQ(without_short_ranges(ranges, 1), ranges);
    EXPECT_EQ(without_short_ranges(ranges, 1u << 20).size(), 2u);
    EXPECT_TRUE(without_short_ranges({}, 4096).empty());
}

TEST(Chooser, no_element_loses_bits_to_ranges_that_are_long_enough) {
    Random random(3);
    for (int repeat = 0; repeat < 200; ++repeat) {
        std::vector<TensorFacts> tensors;
        for (int i = 0; i < 40; ++i)
            tensors.push_back(
                {"t", random.below(3) == 0 ? random.below(20000) : random.below(900)});
        CodecRule small;
        small.elements_below = 4096;
        small.codec = CodecId::fp16;
        const auto exact = codec_ranges({{small}, CodecId::blockwise8}, tensors);
        const auto ranges = without_short_ranges(exact, 4096);
        std::uint64_t position = 0;
        auto wanted = exact.begin();
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            EXPECT_EQ(ranges[i].offset, position);
            EXPECT_TRUE(i == 0 || ranges[i].codec != ranges[i - 1].codec);
            EXPECT_TRUE(i == 0 || i + 1 == ranges.size() || ranges[i].count >= 4096);
            position = ranges[i].end();
            for (; wanted != exact.end() && wanted->offset < position; ++wanted)
                EXPECT_TRUE(wanted->codec != CodecId::fp16 || ranges[i].codec == CodecId::fp16);
        }
        EXPECT_EQ(position, exact.empty() ? 0 : exact.back().end());
    }
}

TEST(Chooser, the_bytes_of_an_element_are_those_of_all_ranges_together) {
    EXPECT_EQ(element_bytes(std::vector<CodecRange>{}), 0);
    EXPECT_EQ(element_bytes({{0, 77, CodecId::fp16}}), 2);
    EXPECT_EQ(element_bytes({{0, 300, CodecId::fp32}, {300, 100, CodecId::fp16}}), 3.5);
}

}  // namespace
}  // namespace dedloc::codec
