// Safetensors: named tensors in one file, as Hugging Face's tools read and write them.
//
//   u64 LE header size | header, JSON, padded with spaces to 8 bytes | data
//   header: {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [2, 3],
//            "data_offsets": [begin, end]}, …}
//
// Reading is strict: sizes fit shapes, the tensors cover the data without gaps or overlaps, names
// are there once, nothing else is in the header. A parsed file is a view into the caller's bytes.
//
// Source: https://github.com/huggingface/safetensors (format section of its README).
// Thread: any; parsing and encoding are pure. Errors: bad_input says what is wrong where;
// unsupported for element types we do not have; local_fault for the disk.

#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::tasks {

inline constexpr std::size_t safetensors_header_bytes_max = 8u << 20;
inline constexpr std::size_t safetensors_tensors_max = 65536;
inline constexpr std::size_t safetensors_rank_max = 8;

enum class SafetensorsType : std::uint8_t { f32, f16, bf16, i64 };

struct Safetensor {
    SafetensorsType type = SafetensorsType::f32;
    std::vector<std::int64_t> shape;
    ByteView data;  // little endian

    std::int64_t elements_count() const;
    Result<std::vector<float>> floats() const;           // unsupported for i64
    Result<std::vector<std::int64_t>> integers() const;  // unsupported for the others
};

struct Safetensors {
    std::map<std::string, Safetensor> tensors;
    std::map<std::string, std::string> metadata;

    Result<Safetensor> find(const std::string& name) const;  // not_found
};

Result<Safetensors> parse_safetensors(ByteView file);

// In the order of the map. Tensors view the caller's memory.
Bytes encode_safetensors(const Safetensors& tensors);

}  // namespace dedloc::tasks
