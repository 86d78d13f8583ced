#include "dedloc/codec/hivemind.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/base/random.h"
#include "dedloc/codec/hivemind_statistics.h"

namespace dedloc::codec {
namespace {

Bytes from_hex(const std::string& text) {
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return bytes;
}

std::vector<float> floats_of(const Bytes& bytes) {
    std::vector<float> floats(bytes.size() / 4);
    if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), 4 * floats.size());
    return floats;
}

// The buffer is field 1 of the message, and absent when empty.
Bytes buffer_of(const Bytes& message) {
    if (message.empty() || message[0] != 0x0a) return {};
    std::size_t length = 0;
    std::size_t at = 1;
    for (unsigned shift = 0;; shift += 7) {
        const std::uint8_t byte = message.at(at++);
        length |= static_cast<std::size_t>(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) break;
    }
    return Bytes(message.begin() + static_cast<std::ptrdiff_t>(at),
                 message.begin() + static_cast<std::ptrdiff_t>(at + length));
}

HivemindCompression by_name(const std::string& name) {
    for (const HivemindCompression compression : all_hivemind_compressions())
        if (to_string(compression) == name) return compression;
    ADD_FAILURE() << name;
    return HivemindCompression::none;
}

std::vector<float> gradient_like(std::size_t size, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(random.normal() * 0.01 + 0.002);
    return values;
}

TEST(Hivemind, buffers_are_those_of_hivemind_bit_for_bit) {
    std::ifstream file(DEDLOC_TEST_DATA "/vectors/hivemind_vectors.json");
    int compared = 0;
    const nlohmann::json vectors = nlohmann::json::parse(file);
    for (const auto& vector : vectors.at("tensors")) {
        const std::string dtype_name = vector["dtype"].get<std::string>().substr(6);
        const std::string name =
            vector["name"].get<std::string>() + " " + vector["compression"].get<std::string>();
        const HivemindCompression compression = by_name(vector["compression"]);
        const auto shape = vector["shape"].get<std::vector<std::size_t>>();
        std::size_t elements = 1;
        for (const std::size_t size : shape) elements *= size;
        const std::size_t columns = shape.empty() ? 1 : shape.back();
        const Bytes buffer = buffer_of(from_hex(vector["proto"]));
        const Bytes wanted = from_hex(vector["decoded_le"]);
        const tensor::Dtype dtype = *tensor::dtype_from_string(dtype_name);
        std::vector<float> decoded(elements);
        const auto outcome = decode_hivemind(compression, buffer, columns, decoded, dtype);
        if (dtype == tensor::Dtype::int64 || dtype == tensor::Dtype::boolean) {
            EXPECT_EQ(outcome.error().kind(), ErrorKind::unsupported);
            continue;
        }
        ASSERT_TRUE(outcome) << name;
        ++compared;
        if (dtype != tensor::Dtype::float32) {
            EXPECT_EQ(decoded, (std::vector<float>{1.0f, -2.0f + 4.0f * float(name[0] == 'h')}));
            continue;
        }
        EXPECT_EQ(std::memcmp(decoded.data(), wanted.data(), wanted.size()), 0) << name;
        const std::vector<float> input = floats_of(from_hex(vector["input_le"]));
        EXPECT_EQ(*encode_hivemind(compression, input, columns), buffer) << name;
    }
    EXPECT_EQ(compared, 14);
}

TEST(Hivemind, errors_are_those_that_hivemind_tests_for) {
    Random random(3);
    std::vector<float> values(256 * 1024);
    for (float& value : values) value = static_cast<float>(random.normal());
    for (const HivemindCompression compression : all_hivemind_compressions()) {
        const Bytes bytes = *encode_hivemind(compression, values, 64);
        std::vector<float> back(values.size());
        ASSERT_TRUE(decode_hivemind(compression, bytes, 64, back));
        double error = 0;
        for (std::size_t i = 0; i < values.size(); ++i)
            error += std::pow(static_cast<double>(back[i]) - values[i], 2);
        const bool eight_bits = bytes.size() < 2 * values.size();
        EXPECT_LT(error / static_cast<double>(values.size()), eight_bits ? 8e-4 : 5e-8)
            << to_string(compression);
    }
}

TEST(Hivemind, edge_cases_survive) {
    for (const HivemindCompression compression : all_hivemind_compressions()) {
        for (const std::size_t size : {0u, 1u, 2u, 4096u, 4097u, 250001u}) {
            for (const float scale : {0.0f, 1.0f, 1e-30f}) {
                std::vector<float> values = gradient_like(size, size);
                for (float& value : values) value *= scale;
                const auto bytes = encode_hivemind(compression, values, size);
                ASSERT_TRUE(bytes);
                std::vector<float> back(size, 7.0f);
                ASSERT_TRUE(decode_hivemind(compression, *bytes, size, back));
                for (std::size_t i = 0; i < size; ++i)
                    // MEANSTD divides by at least 1.2e-7, so tiny numbers become denormal halves.
                    ASSERT_NEAR(back[i], values[i], 0.02f * scale + 1e-14f)
                        << to_string(compression);
            }
        }
    }
}

TEST(Hivemind, statistics_refuse_what_is_not_finite) {
    std::vector<float> values = gradient_like(100, 5);
    values[17] = NAN;
    for (const HivemindCompression compression : all_hivemind_compressions()) {
        const bool plain =
            compression == HivemindCompression::none || compression == HivemindCompression::float16;
        const auto bytes = encode_hivemind(compression, values, 10);
        ASSERT_EQ(bytes.has_value(), plain) << to_string(compression);
        std::vector<float> back(100);
        if (plain) {
            ASSERT_TRUE(decode_hivemind(compression, *bytes, 10, back));
            EXPECT_TRUE(std::isnan(back[17]));
        }
    }
}

TEST(Hivemind, wrong_lengths_counts_and_codes_are_refused) {
    const std::vector<float> values = gradient_like(120, 6);
    for (const HivemindCompression compression : all_hivemind_compressions()) {
        const Bytes bytes = *encode_hivemind(compression, values, 12);
        std::vector<float> out(120);
        for (std::size_t size = 0; size < bytes.size(); ++size) {
            const ByteView cut = ByteView(bytes).first(size);
            ASSERT_FALSE(decode_hivemind(compression, cut, 12, out)) << to_string(compression);
        }
        Bytes longer = bytes;
        longer.push_back(0);
        EXPECT_FALSE(decode_hivemind(compression, longer, 12, out));
        EXPECT_FALSE(decode_hivemind(compression, bytes, 7, out)) << "columns do not divide";
        EXPECT_FALSE(decode_hivemind(compression, bytes, 0, out));
    }
    // A codebook of one entry and a code of 1.
    Bytes bytes(8 + 4 + 120, 0);
    bytes[0] = 1;
    std::vector<float> out(120);
    EXPECT_TRUE(decode_hivemind(HivemindCompression::uniform_8bit, bytes, 12, out));
    bytes.back() = 1;
    EXPECT_FALSE(decode_hivemind(HivemindCompression::uniform_8bit, bytes, 12, out));
    bytes[7] = 0x80;  // a negative count
    EXPECT_FALSE(decode_hivemind(HivemindCompression::uniform_8bit, bytes, 12, out));
}

TEST(HivemindStatistics, the_dynamic_map_is_bitsandbytes) {
    // Facts of create_dynamic_map(signed=True): 256 values, 127 negative, one zero, one exact 1.
    const auto& map = dynamic_map();
    EXPECT_TRUE(std::is_sorted(map.begin(), map.end()));
    EXPECT_EQ(map[127], 0.0f);
    EXPECT_EQ(map[255], 1.0f);
    EXPECT_FLOAT_EQ(map[0], -0.99296875f);
    EXPECT_FLOAT_EQ(map[254], 0.99296875f);
    EXPECT_FLOAT_EQ(map[128], 5.5e-7f);
    for (std::size_t i = 0; i < map.size(); ++i)
        EXPECT_EQ(nearest_in_dynamic_map(map[i]), i) << map[i];
    EXPECT_EQ(nearest_in_dynamic_map(-1.0f), 0);
    EXPECT_EQ(nearest_in_dynamic_map(0.9965f), 255);
    EXPECT_EQ(nearest_in_dynamic_map(0.9964f), 254);
}

TEST(HivemindStatistics, quantiles_of_many_chunks_are_near_the_true_ones) {
    Random random(9);
    std::vector<float> values(350000);
    for (float& value : values) value = static_cast<float>(random.uniform());
    const std::vector<float> quantiles = estimated_quantiles(values, 257);
    for (int i = 0; i < 257; ++i)
        EXPECT_NEAR(quantiles[static_cast<std::size_t>(i)], i / 256.0, 0.005);
}

}  // namespace
}  // namespace dedloc::codec
