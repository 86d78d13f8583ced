#include "dedloc/codec/chooser.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace dedloc::codec
