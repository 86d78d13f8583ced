#include "dedloc/tasks/safetensors.h"

#include <cstring>
#include <gtest/gtest.h>

namespace dedloc::tasks {
namespace {

Bytes file_of(const std::string& header, std::size_t data_bytes) {
    Bytes file;
    base::put_u64_le(file, header.size());
    base::append(file, base::as_bytes(header));
    for (std::size_t i = 0; i < data_bytes; ++i) file.push_back(static_cast<std::uint8_t>(i));
    return file;
}

std::string problem(const std::string& header, std::size_t data_bytes) {
    const Bytes file = file_of(header, data_bytes);
    const auto parsed = parse_safetensors(file);
    if (parsed) return "";
    EXPECT_NE(parsed.error().kind(), ErrorKind::local_fault);
    return parsed.error().message();
}

ByteView bytes_of(const std::vector<float>& values) {
    return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)};
}

TEST(Safetensors, gives_back_what_was_written) {
    const std::vector<float> first = {1, 2, 3, 4, 5, -0.5f};
    const std::vector<float> second = {7};
    Safetensors written;
    written.metadata["format"] = "pt";
    written.tensors["a.weight"] = {
        .type = SafetensorsType::f32, .shape = {2, 3}, .data = bytes_of(first)};
    written.tensors["b"] = {.type = SafetensorsType::f32, .shape = {}, .data = bytes_of(second)};
    written.tensors["empty"] = {.type = SafetensorsType::f32, .shape = {0, 4}, .data = {}};
    const Bytes file = encode_safetensors(written);
    EXPECT_EQ((file.size() - first.size() * 4 - 4) % 8, 0u);
    const auto read = parse_safetensors(file);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->metadata, written.metadata);
    ASSERT_EQ(read->tensors.size(), 3u);
    const auto tensor = read->find("a.weight");
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(*tensor->floats(), first);
    EXPECT_FALSE(tensor->integers());
    EXPECT_EQ(*read->find("b")->floats(), second);
    EXPECT_EQ(read->find("c").error().kind(), ErrorKind::not_found);
}

TEST(Safetensors, reads_halves_and_indices) {
    Bytes file = file_of(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                         R"("i":{"dtype":"I64","shape":[1],"data_offsets":[6,14]}})",
                         0);
    const std::uint16_t halves[] = {0x3c00, 0xc000, 0x3fc0};
    const std::int64_t index = -100;
    const auto* raw = reinterpret_cast<const std::uint8_t*>(halves);
    file.insert(file.end(), raw, raw + sizeof halves);
    raw = reinterpret_cast<const std::uint8_t*>(&index);
    file.insert(file.end(), raw, raw + sizeof index);
    const auto read = parse_safetensors(file);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(*read->find("h")->floats(), (std::vector<float>{1, -2}));
    EXPECT_EQ(*read->find("b")->floats(), (std::vector<float>{1.5f}));
    EXPECT_EQ(*read->find("i")->integers(), (std::vector<std::int64_t>{-100}));
    EXPECT_FALSE(read->find("i")->floats());
}

TEST(Safetensors, refuses_what_does_not_fit) {
    const std::string good = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    EXPECT_EQ(problem(good, 4), "");
    EXPECT_NE(problem(good, 5).find("belong to no tensor"), std::string::npos);
    EXPECT_NE(problem(good, 3).find("cut short"), std::string::npos);
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4).find("bytes"),
              std::string::npos);
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "");
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "");
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4), "");
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,4]}})",
                      4)
                  .find("large"),
              std::string::npos);
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                      4)
                  .find("overlap"),
              std::string::npos);
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                      4)
                  .find("twice"),
              std::string::npos);
    EXPECT_NE(problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4), "");
    EXPECT_NE(problem(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8).find("F16"),
              std::string::npos);
    EXPECT_NE(problem(std::string(100'000, '['), 0), "");
    EXPECT_NE(problem(R"({"a":{"b":{"c":{"d":{"e":1}}}}})", 0).find("deep"), std::string::npos);
    EXPECT_NE(problem("[]", 0), "");
    EXPECT_NE(problem("{", 0), "");
    Bytes huge = file_of(good, 4);
    huge[7] = 0xff;
    EXPECT_FALSE(parse_safetensors(huge));
    for (std::size_t size = 0; size < 8; ++size)
        EXPECT_FALSE(parse_safetensors(ByteView(huge).first(size)));
}

}  // namespace
}  // namespace dedloc::tasks
