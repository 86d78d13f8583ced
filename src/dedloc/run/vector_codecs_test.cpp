#include "dedloc/run/vector_codecs.h"

#include <gtest/gtest.h>

#include "dedloc/allreduce/chunking.h"
#include "dedloc/allreduce/environment.h"

namespace dedloc::run {
namespace {

using codec::CodecId;

AveragingConfig adaptive() {
    AveragingConfig averaging;
    averaging.codec.reset();
    return averaging;
}

void add(Layout& layout, std::uint64_t count) {
    layout.parameters.push_back({"t" + std::to_string(layout.parameters.size()),
                                 static_cast<std::size_t>(layout.parameters_count),
                                 static_cast<std::size_t>(count)});
    layout.parameters_count += count;
}

// He et al. 1512.03385 with 50 layers, each convolution with its BatchNorm: 161 tensors.
Layout resnet_50() {
    Layout layout;
    const auto convolution = [&](std::uint64_t from, std::uint64_t to, std::uint64_t side) {
        add(layout, from * to * side * side);
        add(layout, to);
        add(layout, to);
        layout.buffers_count += 2 * to;
    };
    convolution(3, 64, 7);
    std::uint64_t in = 64;
    const std::vector<std::pair<std::uint64_t, int>> stages{{64, 3}, {128, 4}, {256, 6}, {512, 3}};
    for (const auto& [width, blocks] : stages) {
        for (int block = 0; block < blocks; ++block) {
            convolution(in, width, 1);
            convolution(width, width, 3);
            convolution(width, width * 4, 1);
            if (block == 0) convolution(in, width * 4, 1);
            in = width * 4;
        }
    }
    add(layout, in * 1000);
    add(layout, 1000);
    return layout;
}

// A transformer whose layers share nothing: large matrices with small vectors between them.
Layout transformer(int layers, std::uint64_t hidden) {
    Layout layout;
    add(layout, 30'000 * hidden);
    for (int layer = 0; layer < layers; ++layer) {
        for (int matrix = 0; matrix < 4; ++matrix) {
            add(layout, hidden * hidden);
            add(layout, hidden);
        }
        for (int matrix = 0; matrix < 2; ++matrix) {
            add(layout, 4 * hidden * hidden);
            add(layout, 4 * hidden);
        }
        add(layout, hidden);
        add(layout, hidden);
    }
    return layout;
}

// Expects of every element that its range is in the codec that its tensor should have, or a finer
// one.
void expect_no_coarser(const Layout& layout, const std::vector<codec::CodecRange>& ranges) {
    std::uint64_t position = 0;
    for (const codec::CodecRange& range : ranges) {
        EXPECT_EQ(range.offset, position);
        position = range.end();
    }
    EXPECT_EQ(position, layout.vector_count());
    for (const codec::CodecRange& range : ranges) {
        if (range.codec == CodecId::fp16) continue;
        if (range.offset == layout.parameters_count) {
            EXPECT_EQ(range.codec, CodecId::fp32) << "buffers";
            continue;
        }
        EXPECT_LE(range.end(), layout.parameters_count) << "buffers";
        for (const optim::ParameterGroup& tensor : layout.parameters)
            EXPECT_TRUE(tensor.count >= 1u << 16 || tensor.offset + tensor.count <= range.offset ||
                        tensor.offset >= range.end())
                << tensor.name;
    }
}

TEST(VectorCodecs, one_codec_is_one_range) {
    Layout layout;
    add(layout, 100'000);
    AveragingConfig averaging;
    averaging.codec = CodecId::bf16;
    const std::vector<codec::CodecRange> all{{0, 100'000, CodecId::bf16}};
    EXPECT_EQ(vector_codecs(averaging, layout), all);
    EXPECT_TRUE(vector_codecs(averaging, Layout{}).empty());
    EXPECT_TRUE(vector_codecs(adaptive(), Layout{}).empty());
}

// A variance of 1e8 does not fit fp16, a counter has to be exact, and one block's scale for both
// would make zeros of gradients beside BatchNorm's numbers.
TEST(VectorCodecs, buffers_are_a_range_of_fp32_beside_every_codec) {
    for (const CodecId codec : codec::all_codecs()) {
        Layout layout;
        add(layout, 1000);
        layout.buffers_count = 12;
        AveragingConfig averaging;
        averaging.codec = codec;
        const std::vector<codec::CodecRange> apart{{0, 1000, codec}, {1000, 12, CodecId::fp32}};
        EXPECT_EQ(vector_codecs(averaging, layout), apart) << codec::to_string(codec);
    }
}

TEST(VectorCodecs, buffers_never_share_8_bits_with_gradients) {
    Layout layout;
    add(layout, 105'962);
    AveragingConfig averaging;
    averaging.codec = CodecId::blockwise8;
    const std::vector<codec::CodecRange> all{{0, 105'962, CodecId::blockwise8}};
    EXPECT_EQ(vector_codecs(averaging, layout), all);
    EXPECT_EQ(describe_codecs(averaging, layout),
              "one for all: 0.106 M elements in blockwise8, 1 bytes an element");
    layout.buffers_count = 96;
    const std::vector<codec::CodecRange> apart{{0, 105'962, CodecId::blockwise8},
                                               {105'962, 96, CodecId::fp32}};
    EXPECT_EQ(vector_codecs(averaging, layout), apart);
    EXPECT_EQ(
        describe_codecs(averaging, layout),
        "one, but for buffers: 0.106 M elements in blockwise8, 9.6e-05 M in fp32, 1.01 bytes an "
        "element");
}

TEST(VectorCodecs, small_tensors_travel_in_fp16_and_buffers_in_fp32) {
    Layout layout;
    add(layout, 65'535);
    add(layout, 65'536);
    add(layout, 5'000);
    add(layout, 70'000);
    layout.buffers_count = 100'000;
    const std::vector<codec::CodecRange> wanted{{0, 65'535, CodecId::fp16},
                                                {65'535, 65'536, CodecId::blockwise8},
                                                {131'071, 5'000, CodecId::fp16},
                                                {136'071, 70'000, CodecId::blockwise8},
                                                {206'071, 100'000, CodecId::fp32}};
    EXPECT_EQ(vector_codecs(adaptive(), layout), wanted);
    AveragingConfig higher = adaptive();
    higher.codec_threshold = 70'001;
    EXPECT_EQ(vector_codecs(higher, layout).size(), 2u) << "parameters and buffers";
}

TEST(VectorCodecs, of_usual_models_are_few_and_cost_little_more_than_8_bit) {
    for (const Layout& layout : {resnet_50(), transformer(12, 768), transformer(48, 2048)}) {
        const auto ranges = vector_codecs(adaptive(), layout);
        expect_no_coarser(layout, ranges);
        fmt::print("{} tensors, {} ranges: {}\n",
                   layout.parameters.size(),
                   ranges.size(),
                   describe_codecs(adaptive(), layout));
        EXPECT_LE(ranges.size(), 2 * layout.parameters.size() + 1);
        EXPECT_LE(ranges.size(), 700u);
        EXPECT_LT(codec::element_bytes(ranges), 1.06);
    }
}

// However many tensors there are, plans have room for their parts: the most owners, each with as
// many parts as then are made.
TEST(VectorCodecs, of_very_many_tensors_are_bounded) {
    Layout layout;
    for (int i = 0; i < 4'000; ++i) add(layout, i % 2 == 1 ? 10 : i % 4 == 0 ? 66'000 : 200'000);
    allreduce::TransferOptions options;
    options.codec = codec_of_large_tensors;
    options.vector_count = layout.vector_count();
    options.codec_ranges = vector_codecs(adaptive(), layout);
    expect_no_coarser(layout, options.codec_ranges);
    EXPECT_GT(options.codec_ranges.size(), 1900u) << "the largest stay in 8 bit";
    EXPECT_LE(options.codec_ranges.size(), 2048u);
    consensus::RoundPlan plan;
    constexpr std::uint32_t owners = consensus::members_max;
    constexpr double long_enough = 1e6;
    const auto cuts = allreduce::cuts_for(consensus::parts_max / (2 * owners), long_enough);
    const std::uint64_t vector = layout.vector_count();
    for (std::uint32_t i = 0; i < owners; ++i)
        allreduce::cut_range(plan, vector * (i + 1) / owners - vector * i / owners, cuts, {i});
    const std::size_t before = plan.parts.size();
    allreduce::cut_by_codec(plan, options);
    fmt::print("{} parts, {} with codecs\n", before, plan.parts.size());
    EXPECT_LE(plan.parts.size(), consensus::parts_max);
}

TEST(VectorCodecs, are_described_for_people) {
    Layout layout;
    add(layout, 23'400'000);
    add(layout, 100'000 / 2);
    EXPECT_EQ(describe_codecs(adaptive(), layout),
              "adaptive: 23.4 M elements in blockwise8, 0.05 M in fp16, 1.01 bytes an element");
    EXPECT_EQ(describe_codecs(AveragingConfig{}, layout),
              "one for all: 23.4 M elements in fp16, 2 bytes an element");
}

}  // namespace
}  // namespace dedloc::run
