#include "dedloc/security/hash_list.h"

#include <gtest/gtest.h>
#include <thread>

#include "dedloc/security/hash.h"
#include "dedloc/security/pattern_testing.h"

namespace dedloc::security {
namespace {

// Where blocks end, and the lanes of eight and of sixteen.
constexpr std::size_t sizes[] = {
    0, 1, 63, 64, 4095, 4096, 4097, 8 * 4096, 8 * 4096 + 1, 16 * 4096 - 1, 17 * 4096, 1'000'000};

// Made with Python's hashlib.
TEST(HashList, is_the_hash_of_the_hashes_of_blocks) {
    EXPECT_EQ(hash_list({}), sha256({}));
    EXPECT_EQ(hash_list(as_bytes("abc")).hex(),
              "4f8b42c22dd3729b519ba6f68d2da7cc5b2d606d05daed5ad5128cc03e6c6358");
    EXPECT_EQ(hash_list(Bytes(10'000, 7)).hex(),
              "42e615d115d79d39d94e5b8035b82509fba438afafb8c18c383537f3c822555f");
}

TEST(HashList, vectors_and_openssl_hash_blocks_alike) {
    for (const std::size_t size : sizes) {
        const Bytes bytes = pattern(size);
        std::vector<Digest> by_openssl((size + hash_block_bytes - 1) / hash_block_bytes);
        std::vector<Digest> by_vectors(by_openssl.size());
        hash_blocks_by_openssl(bytes, by_openssl);
        if (!hash_blocks_by_vectors(bytes, by_vectors))
            GTEST_SKIP() << "OpenSSL is the best that this machine has";
        EXPECT_EQ(by_vectors, by_openssl) << size << " bytes";
    }
}

TEST(HashList, every_byte_and_the_length_count) {
    const Bytes bytes = pattern(20'000);
    const Digest digest = hash_list(bytes);
    for (std::size_t place = 0; place < bytes.size(); place += 777) {
        Bytes other = bytes;
        other[place] ^= 1;
        EXPECT_NE(hash_list(other), digest) << place;
    }
    Bytes longer = bytes;
    longer.push_back(0);
    EXPECT_NE(hash_list(longer), digest);
    EXPECT_NE(hash_list(ByteView(bytes).first(4096 * 4)), digest);
}

TEST(HashList, threads_hash_at_the_same_time) {
    const Bytes bytes = pattern(300'000);
    const Digest expected = hash_list(bytes);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int round = 0; round < 20; ++round) EXPECT_EQ(hash_list(bytes), expected);
        });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dedloc::security
