#include "dedloc/wire/msgpack.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dedloc::wire {
namespace {

TEST(Msgpack, integers_take_the_fewest_bytes_and_come_back) {
    const std::pair<std::int64_t, std::size_t> cases[] = {
        {0, 1},      {127, 1},         {128, 2},         {255, 2},         {256, 3},
        {65535, 3},  {65536, 5},       {0xffffffff, 5},  {0x100000000, 9}, {-1, 1},
        {-32, 1},    {-33, 2},         {-128, 2},        {-129, 3},        {-32768, 3},
        {-32769, 5}, {-2147483648, 5}, {-2147483649, 9}, {INT64_MIN, 9},   {INT64_MAX, 9}};
    for (const auto& [number, size] : cases) {
        const Bytes bytes = encode_msgpack(number);
        EXPECT_EQ(bytes.size(), size) << number;
        EXPECT_EQ(decode_msgpack(bytes).value(), MsgpackValue(number)) << number;
    }
    const MsgpackValue large(UINT64_MAX);
    EXPECT_EQ(decode_msgpack(encode_msgpack(large)).value(), large);
    // Wider than needed is read, too, and equal.
    EXPECT_EQ(decode_msgpack(*base::from_hex("cf0000000000000007")).value(), MsgpackValue(7));
    EXPECT_EQ(decode_msgpack(*base::from_hex("d3ffffffffffffffff")).value(), MsgpackValue(-1));
    EXPECT_EQ(decode_msgpack(*base::from_hex("d1ff7f")).value(), MsgpackValue(-129));
}

TEST(Msgpack, sizes_of_every_width_come_back) {
    for (const std::size_t size :
         {0u, 1u, 2u, 3u, 4u, 8u, 15u, 16u, 17u, 31u, 32u, 255u, 256u, 65535u, 65536u, 70000u}) {
        for (const MsgpackValue& value :
             {MsgpackValue(std::string(size, 'x')),
              MsgpackValue(Bytes(size, 7)),
              MsgpackValue(MsgpackValue::Ext{5, Bytes(size, 9)}),
              MsgpackValue(MsgpackValue::List(std::min<std::size_t>(size, 65000)))})
            EXPECT_EQ(decode_msgpack(encode_msgpack(value)).value(), value) << size;
        MsgpackValue::Map map;
        map.entries.resize(std::min<std::size_t>(size, 30000));
        const MsgpackValue value(std::move(map));
        EXPECT_EQ(decode_msgpack(encode_msgpack(value)).value(), value) << size;
    }
}

TEST(Msgpack, floats_are_float64_and_never_integers) {
    EXPECT_EQ(base::to_hex(encode_msgpack(1.0)), "cb3ff0000000000000");
    EXPECT_EQ(decode_msgpack(*base::from_hex("ca3fc00000")).value(), MsgpackValue(1.5));
    EXPECT_NE(MsgpackValue(1.0), MsgpackValue(1));
    EXPECT_EQ(MsgpackValue(1).get<double>(), nullptr);
    const auto nan = decode_msgpack(encode_msgpack(std::nan("")));
    EXPECT_TRUE(std::isnan(*nan->get<double>()));
}

TEST(Msgpack, truncated_and_trailing_bytes_are_refused) {
    MsgpackValue::Map map;
    map.entries.emplace_back("key", MsgpackValue::List{1, 2.5, "text", Bytes(20, 1)});
    map.entries.emplace_back(MsgpackValue::Tuple{{1, 2}}, MsgpackValue::Ext{3, Bytes(5)});
    Bytes whole = encode_msgpack(std::move(map));
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_FALSE(decode_msgpack(ByteView(whole).first(size))) << size;
    whole.push_back(0xc0);
    EXPECT_FALSE(decode_msgpack(whole));
    EXPECT_FALSE(decode_msgpack(*base::from_hex("c1")));
}

TEST(Msgpack, depth_and_number_of_values_are_bounded) {
    const auto nested = [](int levels) {
        Bytes bytes(static_cast<std::size_t>(levels), 0x91);
        bytes.push_back(0xc0);
        return bytes;
    };
    EXPECT_TRUE(decode_msgpack(nested(msgpack_depth_max - 1)));
    EXPECT_FALSE(decode_msgpack(nested(msgpack_depth_max)));
    EXPECT_FALSE(decode_msgpack(nested(1000000)));
    Bytes tuples = {0x90};
    for (int i = 0; i < 100; ++i) {
        Bytes outer = {0x91};
        base::append(outer, encode_msgpack(MsgpackValue::Ext{0x40, tuples}));
        tuples = outer;
    }
    EXPECT_FALSE(decode_msgpack(tuples));
    EXPECT_FALSE(decode_msgpack(
        encode_msgpack(MsgpackValue::List(static_cast<std::size_t>(msgpack_values_max)))));
    // Four thousand million elements are claimed, none are there.
    EXPECT_FALSE(decode_msgpack(*base::from_hex("ddffffffff")));
    EXPECT_FALSE(decode_msgpack(*base::from_hex("dfffffffff")));
    EXPECT_FALSE(decode_msgpack(*base::from_hex("c6ffffffff")));
}

TEST(Msgpack, a_tuple_holds_exactly_one_list) {
    EXPECT_TRUE(decode_msgpack(*base::from_hex("d44090")));
    EXPECT_FALSE(decode_msgpack(*base::from_hex("d44001")));
    EXPECT_FALSE(decode_msgpack(*base::from_hex("d5409090")));
    EXPECT_FALSE(decode_msgpack(*base::from_hex("c70040")));
}

TEST(DhtDictionary, bounded_ones_come_back_and_malformed_ones_are_refused) {
    DhtDictionary dictionary;
    dictionary.entries_limit = 3;
    dictionary.latest_expiration_time = 5;
    dictionary.entries = {{MsgpackValue::Tuple{{1, "a"}}, Bytes{1, 2}, 5.0}};
    const Bytes bytes = encode_dht_dictionary(dictionary);
    EXPECT_EQ(decode_dht_dictionary(bytes).value(), dictionary);
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_FALSE(decode_dht_dictionary(ByteView(bytes).first(size)));
    for (const MsgpackValue::List& parts :
         {MsgpackValue::List{},
          MsgpackValue::List{"3", 5.0, MsgpackValue::List{}},
          MsgpackValue::List{3, "5", MsgpackValue::List{}},
          MsgpackValue::List{3, 5.0, 1},
          MsgpackValue::List{2.0, 5.0, MsgpackValue::List{}},
          MsgpackValue::List{3, 5.0, MsgpackValue::List{MsgpackValue::List{"k", "v", 5.0}}}})
        EXPECT_FALSE(
            decode_dht_dictionary(encode_msgpack(MsgpackValue::Ext{0x50, encode_msgpack(parts)})));
    EXPECT_FALSE(decode_dht_dictionary(encode_msgpack("text")));
}

// Written by hivemind 1.1.12 with torch 1.13.
TEST(Msgpack, tensor_descriptors_are_hiveminds_byte_for_byte) {
    TensorDescriptor of_type;
    of_type.size = {16};
    EXPECT_EQ(base::to_hex(encode_msgpack(to_msgpack(of_type))),
              "c7785188a473697a65c7034092c010a56474797065ad746f7263682e666c6f61743332a66c61796f7574"
              "ad746f7263682e73747269646564ad72657175697265735f67726164c2aa70696e5f6d656d6f7279c2ab"
              "636f6d7072657373696f6e00ab6465766963655f74797065c0ac6465766963655f696e646578c0");
    TensorDescriptor of_tensor;
    of_tensor.size = {4, 5};
    of_tensor.requires_grad = true;
    of_tensor.device = "cpu";
    const Bytes bytes = encode_msgpack(to_msgpack(of_tensor));
    EXPECT_EQ(
        base::to_hex(bytes),
        "c77b5188a473697a65d64093c00405a56474797065ad746f7263682e666c6f61743332a66c61796f7574"
        "ad746f7263682e73747269646564ad72657175697265735f67726164c3aa70696e5f6d656d6f7279c2ab"
        "636f6d7072657373696f6e00ab6465766963655f74797065a3637075ac6465766963655f696e646578c0");
    EXPECT_EQ(tensor_descriptor_from(decode_msgpack(bytes).value()).value(), of_tensor);
}

TEST(Msgpack, tensor_descriptors_without_a_batch_axis_are_refused) {
    EXPECT_FALSE(tensor_descriptor_from(MsgpackValue(1)));
    EXPECT_FALSE(tensor_descriptor_from(MsgpackValue::Ext{0x51, Bytes{0x80}}));
    MsgpackValue::Map map;
    map.entries.emplace_back("size", MsgpackValue::Tuple{{MsgpackValue(3)}});
    EXPECT_FALSE(tensor_descriptor_from(MsgpackValue::Ext{0x51, encode_msgpack(std::move(map))}));
}

}  // namespace
}  // namespace dedloc::wire
