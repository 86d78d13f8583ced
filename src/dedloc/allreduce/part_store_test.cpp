#include "dedloc/allreduce/part_store.h"

#include <gtest/gtest.h>

namespace dedloc::allreduce {
namespace {

Digest digest_of(std::uint8_t number) {
    Digest digest;
    digest.bytes.fill(number);
    return digest;
}

consensus::FinishedPart finished(std::uint8_t plan, std::uint32_t part, std::uint8_t bytes) {
    consensus::FinishedPart header;
    header.plan = digest_of(plan);
    header.part = part;
    header.digest = digest_of(bytes);
    return header;
}

SharedBytes some(std::size_t count) { return SharedBytes(Bytes(count)); }

TEST(PartStore, finds_the_same_bytes_under_every_plan_that_made_them) {
    PartStore store(1u << 20);
    store.put(finished(1, 0, 7), some(1000));
    store.put(finished(2, 0, 7), some(1000));
    ASSERT_TRUE(store.header(digest_of(2), 0));
    EXPECT_EQ(store.header(digest_of(2), 0)->plan, digest_of(2));
    EXPECT_EQ(store.header(digest_of(1), 0)->plan, digest_of(1));
    EXPECT_FALSE(store.header(digest_of(1), 1));
    EXPECT_LT(store.bytes(), 2100u);
}

TEST(PartStore, holds_bytes_as_long_as_a_newer_plan_has_them) {
    PartStore store(3010 + 3 * part_header_bytes);
    store.put(finished(1, 0, 7), some(1000));
    store.put(finished(2, 0, 7), some(1000));
    store.put(finished(2, 1, 8), some(2000));
    store.put(finished(2, 2, 9), some(10));  // too much: the oldest goes, its bytes stay
    EXPECT_FALSE(store.header(digest_of(1), 0));
    EXPECT_TRUE(store.find(digest_of(7)));
    store.put(finished(2, 3, 10), some(1000));
    EXPECT_FALSE(store.find(digest_of(7)));
    EXPECT_TRUE(store.find(digest_of(8)));
}

TEST(PartStore, of_equal_parts_without_end_is_bounded) {
    PartStore store(100'000);
    for (std::uint32_t i = 0; i < 10'000; ++i) store.put(finished(1, i, 7), some(1000));
    EXPECT_LE(store.bytes(), 100'000u);
    EXPECT_FALSE(store.header(digest_of(1), 0));
    EXPECT_TRUE(store.header(digest_of(1), 9999));
}

}  // namespace
}  // namespace dedloc::allreduce
