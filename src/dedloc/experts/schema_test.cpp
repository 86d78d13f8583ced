#include "dedloc/experts/schema.h"

#include <gtest/gtest.h>

#include "dedloc/base/random.h"

namespace dedloc::experts {
namespace {

ExpertSchema one_to_one(std::int64_t width) {
    const TensorSpec spec{.sample = {width}};
    return {.inputs = {spec}, .outputs = {spec}};
}

wire::RuntimeTensor message_of(std::vector<std::uint32_t> size, std::size_t bytes) {
    wire::RuntimeTensor message;
    message.size = std::move(size);
    message.dtype = "float32";
    message.buffer.resize(bytes);
    return message;
}

// hivemind 1.1.12's rpc_info of a module with one input and one output of 4 x 5.
TEST(ExpertSchema, reads_what_hivemind_writes) {
    const Bytes info = *base::from_hex(
        "83ae666f72776172645f736368656d61c7844092c77f4091c77b5188a473697a65d64093c00405a56474797065"
        "ad746f7263682e666c6f61743332a66c61796f7574ad746f7263682e73747269646564ad7265717569726573"
        "5f67726164c3aa70696e5f6d656d6f7279c2ab636f6d7072657373696f6e00ab6465766963655f74797065a3"
        "637075ac6465766963655f696e646578c080ae6f7574707574735f736368656d61c77b5188a473697a65d640"
        "93c00405a56474797065ad746f7263682e666c6f61743332a66c61796f7574ad746f7263682e737472696465"
        "64ad72657175697265735f67726164c3aa70696e5f6d656d6f7279c2ab636f6d7072657373696f6e00ab6465"
        "766963655f74797065a3637075ac6465766963655f696e646578c0ad6b6579776f72645f6e616d6573d44090");
    const auto schema = decode_info(info);
    ASSERT_TRUE(schema) << schema.error().message();
    ASSERT_EQ(schema->inputs.size(), 1u);
    ASSERT_EQ(schema->outputs.size(), 1u);
    EXPECT_EQ(schema->inputs[0].sample, (std::vector<std::int64_t>{4, 5}));
    EXPECT_TRUE(schema->outputs[0].requires_grad);
}

TEST(ExpertSchema, comes_back_from_its_own_bytes) {
    ExpertSchema schema = one_to_one(16);
    schema.inputs.push_back({.sample = {3, 2},
                             .compression = codec::HivemindCompression::float16,
                             .requires_grad = false});
    schema.outputs.push_back({.sample = {}});
    EXPECT_EQ(decode_info(encode_info(schema)).value(), schema);
}

TEST(ExpertSchema, refuses_calls_whose_shapes_do_not_fit_before_reading_numbers) {
    const auto specs = one_to_one(4).inputs;
    EXPECT_TRUE(read_tensors(specs, {message_of({2, 4}, 32)}, 8));
    EXPECT_FALSE(read_tensors(specs, {}, 8));
    EXPECT_FALSE(read_tensors(specs, {message_of({2, 5}, 40)}, 8));
    EXPECT_FALSE(read_tensors(specs, {message_of({2}, 8)}, 8));
    EXPECT_FALSE(read_tensors(specs, {message_of({0, 4}, 0)}, 8));
    EXPECT_FALSE(read_tensors(specs, {message_of({9, 4}, 144)}, 8));
    EXPECT_FALSE(read_tensors(specs, {message_of({2, 4}, 31)}, 8));
    EXPECT_FALSE(read_tensors(specs, {message_of({0xffffffff, 4}, 32)}, 0xffffffff));
    auto unknown = message_of({2, 4}, 32);
    unknown.dtype = "complex64";
    EXPECT_FALSE(read_tensors(specs, {unknown}, 8));
    // All tensors of a call have one number of rows.
    const auto backward = one_to_one(4).backward_inputs();
    EXPECT_FALSE(read_tensors(backward, {message_of({2, 4}, 32), message_of({1, 4}, 16)}, 8));
}

TEST(Tensor, streams_are_cut_and_joined_as_hivemind_does) {
    Random random(3);
    Tensor tensor = zeros(5, std::vector<std::int64_t>{7});
    for (float& value : tensor.values) value = static_cast<float>(random.normal());
    const auto whole = to_wire(tensor, codec::HivemindCompression::none).value();
    const auto pieces = split_for_stream(whole, 64);
    ASSERT_EQ(pieces.size(), 3u);  // 140 bytes
    EXPECT_EQ(pieces[0].chunks, 3);
    EXPECT_EQ(pieces[0].dtype, "float32");
    EXPECT_TRUE(pieces[1].dtype.empty());
    TensorJoiner joiner(1000);
    for (const auto& piece : pieces) ASSERT_TRUE(joiner.add(piece));
    const auto joined = std::move(joiner).finish();
    ASSERT_EQ(joined.size(), 1u);
    EXPECT_EQ(from_wire(joined.front()).value(), tensor);
}

TEST(Tensor, a_stream_that_is_too_long_or_begins_in_the_middle_is_refused) {
    TensorJoiner small(100);
    EXPECT_TRUE(small.add(message_of({25}, 100)));
    EXPECT_FALSE(small.add(message_of({1}, 4)));
    TensorJoiner headless(100);
    wire::RuntimeTensor piece;
    piece.buffer.resize(4);
    EXPECT_FALSE(headless.add(piece));
    TensorJoiner many(1000);
    for (std::size_t i = 0; i < wire::expert_tensors_max; ++i)
        EXPECT_TRUE(many.add(message_of({1}, 4)));
    EXPECT_FALSE(many.add(message_of({1}, 4)));
}

}  // namespace
}  // namespace dedloc::experts
