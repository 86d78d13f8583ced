#include "dedloc/state/snapshot.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/security/hash.h"
#include "dedloc/state/manifest.h"
#include "dedloc/wire/message.h"

namespace dedloc::state {
namespace {

std::vector<Section> some_sections(std::size_t elements, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> weights(elements);
    for (float& value : weights) value = static_cast<float>(random.normal());
    if (elements > 0) weights[0] = std::nanf("7");
    return {{.name = "parameters", .values = weights},
            {.name = "empty", .values = {}},
            {.name = "buffers", .values = {1.0f, -0.0f, 3.0f}}};
}

std::shared_ptr<const Snapshot> some_snapshot(std::size_t elements, std::uint64_t seed = 1) {
    SnapshotInfo info;
    info.run = security::sha256(as_bytes("run"));
    info.step = 12;
    info.samples = 12345;
    info.extra = to_bytes("extra");
    auto made = Snapshot::make(info, some_sections(elements, seed));
    return *std::move(made);
}

Bytes all_bytes(const Snapshot& snapshot) {
    Bytes bytes(snapshot.bytes_size());
    snapshot.read(0, bytes);
    return bytes;
}

TEST(Snapshot, reads_the_same_bytes_in_any_pieces) {
    const auto snapshot = some_snapshot(1000);
    const Bytes whole = all_bytes(*snapshot);
    const std::uint64_t seed = 7;
    SCOPED_TRACE(seed);
    Random random(seed);
    for (int i = 0; i < 300; ++i) {
        const std::size_t from = random.below(whole.size());
        const std::size_t count = random.below(whole.size() - from + 1);
        Bytes piece(count);
        snapshot->read(from, piece);
        ASSERT_TRUE(base::equal(piece, ByteView(whole).subspan(from, count)))
            << from << " " << count;
    }
}

TEST(Snapshot, comes_back_from_chunks_in_any_order_bit_for_bit) {
    const auto snapshot = some_snapshot(900'000);
    const Manifest manifest = make_manifest(*snapshot);
    ASSERT_EQ(manifest.chunks_count(), 4u);
    const Bytes first = chunk(*snapshot, 0);
    auto builder = SnapshotBuilder::begin(first, manifest.bytes);
    ASSERT_TRUE(builder) << to_string(builder.error());
    for (const std::size_t i : {3u, 1u, 0u, 2u}) {
        const Bytes piece = chunk(*snapshot, i);
        ASSERT_TRUE(manifest.holds(i, piece));
        builder->write(manifest.chunk_offset(i), piece);
    }
    const auto back = (*std::move(builder)).finish();
    EXPECT_EQ(back->info(), snapshot->info());
    EXPECT_EQ(all_bytes(*back), all_bytes(*snapshot));
    EXPECT_EQ(make_manifest(*back), manifest);
    ASSERT_NE(back->find("buffers"), nullptr);
    EXPECT_EQ(back->find("buffers")->values, snapshot->find("buffers")->values);
    EXPECT_EQ(back->find("nothing"), nullptr);
}

TEST(Snapshot, has_bytes_that_never_change) {
    // The state hash is compared between versions of the program: these bytes are a promise.
    const auto made =
        Snapshot::make({.run = {}, .branch = {}, .step = 3, .samples = 9, .extra = {}},
                       {{.name = "w", .values = {1.0f, 2.0f}}});
    const Bytes bytes = all_bytes(**made);
    ASSERT_EQ(bytes.size(), 64u + 8u);
    // "dedloc-state-1\n\0", size 9, then step = 3, samples = 9, section {"w", 2}.
    EXPECT_EQ(base::to_hex(ByteView(bytes).first(33)),
              "6465646c6f632d73746174652d310a00"
              "0b000000"
              "18032009"
              "32050a01771002"
              "0000");
    EXPECT_EQ(base::to_hex(ByteView(bytes).subspan(64)), "0000803f00000040");
}

Section some_codes(std::size_t count) {
    Section section{.name = "exp_avg.codes", .values = {}, .dtype = Dtype::u8};
    for (std::size_t i = 0; i < count; ++i)
        section.codes.push_back(static_cast<std::uint8_t>(i * 7 % 251));
    return section;
}

TEST(Snapshot, with_sections_of_bytes_comes_back_from_chunks) {
    std::vector<Section> sections = some_sections(300'001, 2);
    sections.insert(sections.begin() + 1, some_codes(1'000'003));
    const auto snapshot = *Snapshot::make({}, std::move(sections));
    const Manifest manifest = make_manifest(*snapshot);
    auto builder = SnapshotBuilder::begin(chunk(*snapshot, 0), manifest.bytes);
    ASSERT_TRUE(builder) << to_string(builder.error());
    for (std::size_t i = manifest.chunks_count(); i-- > 0;) {
        const Bytes piece = chunk(*snapshot, i);
        builder->write(manifest.chunk_offset(i), piece);
    }
    const auto back = (*std::move(builder)).finish();
    EXPECT_EQ(all_bytes(*back), all_bytes(*snapshot));
    ASSERT_NE(back->find("exp_avg.codes"), nullptr);
    EXPECT_EQ(back->find("exp_avg.codes")->dtype, Dtype::u8);
    EXPECT_EQ(back->find("exp_avg.codes")->codes, some_codes(1'000'003).codes);
    EXPECT_EQ(back->find("buffers")->values, snapshot->find("buffers")->values);
}

TEST(Snapshot, has_one_byte_for_a_code_and_says_so_in_its_header) {
    const auto made = *Snapshot::make({}, {some_codes(5)});
    EXPECT_EQ(made->bytes_size() % 64, 5u);
    const auto floats = *Snapshot::make({}, {{.name = "exp_avg.codes", .values = {1, 2, 3, 4, 5}}});
    EXPECT_NE(all_bytes(*made), all_bytes(*floats));
}

TEST(Snapshot, refuses_what_is_beyond_its_limits) {
    EXPECT_FALSE(Snapshot::make({}, {{.name = "a", .values = {}}, {.name = "a", .values = {}}}));
    EXPECT_FALSE(Snapshot::make({}, {{.name = "", .values = {}}}));
    EXPECT_FALSE(Snapshot::make({}, {{.name = std::string(201, 'n'), .values = {}}}));
    SnapshotInfo info;
    info.extra = Bytes(extra_bytes_max + 1, 0);
    EXPECT_FALSE(Snapshot::make(info, {}));
    EXPECT_FALSE(Snapshot::make({}, std::vector<Section>(sections_max + 1)));
}

TEST(Snapshot, any_damaged_prefix_is_refused_or_harmless) {
    const auto snapshot = some_snapshot(100);
    const Bytes whole = all_bytes(*snapshot);
    for (std::size_t i = 0; i < whole.size() - 500; ++i) {
        Bytes damaged = whole;
        damaged[i] ^= 0x55;
        // Accepted bytes have the announced size, so no allocation is out of proportion.
        auto builder = SnapshotBuilder::begin(damaged, damaged.size());
        if (builder) {
            EXPECT_EQ(builder->bytes_total(), damaged.size());
        }
        EXPECT_FALSE(SnapshotBuilder::begin(ByteView(whole).first(i), whole.size())) << i;
    }
    EXPECT_FALSE(SnapshotBuilder::begin(whole, whole.size() + 4));
}

TEST(Manifest, tree_is_that_of_rfc_6962) {
    // RFC 6962 §2.1.3-style example by hand: three leaves make H(1, H(1, a, b), c).
    const Digest a = leaf_hash(as_bytes("a"));
    EXPECT_EQ(a, security::sha256(as_bytes(std::string_view("\0a", 2))));
    const Digest b = leaf_hash(as_bytes("b"));
    const Digest c = leaf_hash(as_bytes("c"));
    const auto node = [](const Digest& left, const Digest& right) {
        Bytes bytes{0x01};
        base::append(bytes, left.view());
        base::append(bytes, right.view());
        return security::sha256(bytes);
    };
    const std::vector<Digest> leaves{a, b, c};
    EXPECT_EQ(tree_hash(leaves), node(node(a, b), c));
}

TEST(Manifest, belongs_to_one_root_only) {
    const auto snapshot = some_snapshot(600'000);
    const Manifest good = make_manifest(*snapshot);
    EXPECT_TRUE(good.verify(good.root));
    EXPECT_FALSE(good.verify(security::sha256(as_bytes("other"))));
    Manifest bad = good;
    bad.bytes -= 1;  // a shorter last chunk
    EXPECT_FALSE(bad.verify(good.root));
    bad = good;
    std::swap(bad.chunks[0], bad.chunks[1]);
    EXPECT_FALSE(bad.verify(good.root));
    bad = good;
    bad.chunks.pop_back();
    EXPECT_FALSE(bad.verify(good.root));
    bad = good;
    bad.bytes = 0;
    bad.chunks.clear();
    EXPECT_FALSE(bad.verify(good.root));
    const auto decoded = wire::decode<Manifest>(wire::encode(good));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, good);
}

TEST(Manifest, one_bit_of_the_state_changes_the_root) {
    const Manifest a = make_manifest(*some_snapshot(1000, 1));
    const Manifest b = make_manifest(*some_snapshot(1000, 2));
    EXPECT_NE(a.root, b.root);
}

}  // namespace
}  // namespace dedloc::state
