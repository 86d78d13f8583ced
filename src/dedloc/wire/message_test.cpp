#include "dedloc/wire/message.h"

#include <gtest/gtest.h>
#include <limits>

#include "dedloc/base/fields.h"

namespace dedloc::wire {
namespace {

enum class Colour : std::uint32_t { none = 0, red = 1, blue = 300 };

struct Inner {
    std::uint64_t number = 0;
    std::string text;
    friend bool operator==(const Inner&, const Inner&) = default;
    template <typename V, typename S>
    static void fields(V& visit, S& self) {
        visit(1, self.number);
        visit(2, self.text);
    }
};

struct Outer {
    bool flag = false;
    std::int64_t negative = 0;
    double real = 0;
    Bytes raw;
    Digest digest;
    Inner inner;
    std::vector<Inner> inners;
    std::vector<std::uint32_t> numbers;
    std::vector<bool> unused;
    std::optional<std::uint32_t> maybe;
    Colour colour = Colour::none;
    std::vector<std::string> names;
    template <typename V, typename S>
    static void fields(V& visit, S& self) {
        visit(1, self.flag);
        visit(2, self.negative);
        visit(3, self.real);
        visit(4, self.raw);
        visit(5, self.digest);
        visit(6, self.inner);
        visit(7, self.inners, 3);
        visit(8, self.numbers, 4);
        visit(9, self.maybe);
        visit(10, self.colour);
        visit(11, self.names);
    }
};

Outer example() {
    Outer outer;
    outer.flag = true;
    outer.negative = -5;
    outer.real = 1.5;
    outer.raw = {1, 2, 3};
    outer.digest.bytes[3] = 9;
    outer.inner = {7, "seven"};
    outer.inners = {{1, "a"}, {0, ""}, {3, "c"}};
    outer.numbers = {0, 1, 70000};
    outer.maybe = 0;
    outer.colour = Colour::blue;
    outer.names = {"x", "", "z"};
    return outer;
}

TEST(Message, decoding_returns_what_was_encoded) {
    const Outer before = example();
    const auto after = decode<Outer>(encode(before));
    ASSERT_TRUE(after) << after.error().message();
    EXPECT_EQ(encode(*after), encode(before));
    EXPECT_EQ(after->negative, -5);
    EXPECT_EQ(after->inners, before.inners);
    EXPECT_EQ(after->numbers, before.numbers);
    EXPECT_EQ(after->maybe, std::optional<std::uint32_t>(0));
    EXPECT_EQ(after->names, before.names);
    EXPECT_EQ(after->colour, Colour::blue);
}

TEST(Message, bytes_are_protobufs) {
    // As libprotobuf writes them: field 1 varint 150 is 08 96 01; field 2 "testing".
    Inner inner{150, "testing"};
    EXPECT_EQ(base::to_hex(encode(inner)),
              "0896011207"
              "74657374696e67");
    EXPECT_TRUE(encode(Outer{}).empty());
}

TEST(Message, unknown_fields_are_skipped) {
    Bytes bytes = *base::from_hex(
        "0896011207"
        "74657374696e67");
    base::append(bytes,
                 *base::from_hex("f80101"
                                 "fa0102ffff"
                                 "f5010a000000"));
    const auto inner = decode<Inner>(bytes);
    ASSERT_TRUE(inner);
    EXPECT_EQ(inner->number, 150u);
}

TEST(Message, more_elements_than_declared_are_refused) {
    Outer outer;
    outer.inners.resize(4, Inner{1, "x"});
    EXPECT_FALSE(decode<Outer>(encode(outer)));
    outer.inners.clear();
    outer.numbers.resize(5, 1);
    EXPECT_FALSE(decode<Outer>(encode(outer)));
}

TEST(Message, of_a_field_said_twice_the_last_one_holds_whole) {
    // inner {number 7}, then inner {text "x"}.
    const Bytes bytes = {0x32, 2, 0x08, 7, 0x32, 3, 0x12, 1, 'x'};
    const auto outer = decode<Outer>(bytes);
    ASSERT_TRUE(outer) << outer.error().message();
    EXPECT_EQ(outer->inner, (Inner{0, "x"}));
}

TEST(Message, an_error_within_an_inner_message_is_the_messages) {
    EXPECT_FALSE(decode<Outer>(Bytes{0x32, 2, 0x0a, 0}));           // number as bytes
    EXPECT_FALSE(decode<Outer>(Bytes{0x3a, 2, 0x12, 5}));           // a text that ends early
    EXPECT_FALSE(decode<Outer>(Bytes{0x42, 2, 0x01, 0x80}));        // a packed number that does
    EXPECT_FALSE(decode<Outer>(Bytes{0x2a, 3, 0x01, 0x02, 0x03}));  // a digest of three bytes
}

TEST(Message, every_truncation_is_an_error_or_a_valid_prefix_but_never_a_crash) {
    const Bytes whole = encode(example());
    for (std::size_t size = 0; size < whole.size(); ++size)
        (void)decode<Outer>(ByteView(whole).first(size));
}

TEST(Message, a_field_of_another_wire_type_is_refused) {
    EXPECT_FALSE(decode<Inner>(*base::from_hex("0a0101")));  // field 1 as bytes
    EXPECT_FALSE(decode<Inner>(*base::from_hex("0b")));      // group
    EXPECT_FALSE(decode<Inner>(*base::from_hex("00")));      // field 0
}

struct Body {
    std::uint32_t number = 0;
    ByteView bytes;
    DEDLOC_FIELDS(number, bytes)
};

TEST(Message, a_body_that_follows_is_the_same_message) {
    for (const std::size_t size : {0u, 1u, 127u, 128u, 70000u}) {
        const Bytes bytes(size, 7);
        const Bytes whole = encode(Body{5, bytes});
        Bytes in_pieces = encode_before_body(Body{5, {}}, 2, size);
        base::append(in_pieces, bytes);
        EXPECT_EQ(in_pieces, whole);
        const auto decoded = decode<Body>(whole);
        ASSERT_TRUE(decoded);
        EXPECT_TRUE(base::equal(decoded->bytes, bytes));
        if (size > 0) {
            EXPECT_EQ(decoded->bytes.data() + size, whole.data() + whole.size());
        }
    }
}

TEST(Varint, boundaries) {
    for (const std::uint64_t value : {std::uint64_t{0},
                                      std::uint64_t{127},
                                      std::uint64_t{128},
                                      std::numeric_limits<std::uint64_t>::max()}) {
        Bytes bytes;
        put_varint(bytes, value);
        EXPECT_EQ(bytes.size(), varint_size(value));
        base::ByteReader reader(bytes);
        EXPECT_EQ(*read_varint(reader), value);
    }
    base::ByteReader overlong(as_bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"));
    EXPECT_FALSE(read_varint(overlong));
}

}  // namespace
}  // namespace dedloc::wire
