// Samples for models that bring no data of their own: task.data says where they are.
//
//   idx:IMAGES,LABELS     IDX files, plain or gzip (MNIST's kind). A picture without channels gets
//                         one: [1, rows, columns]
//   npy:INPUTS,TARGETS    NumPy's files, the first extent counts samples; bytes, int32, int64,
//                         float32, float64 in C order
//   pictures:FOLDER       a folder a class (images/folder.h); [3, side, side], the middle of each
//   text:FILE             bytes: `length` of them and, as targets, those that come one later
//
// Bytes that are inputs of idx, npy and pictures become fp32, (byte / 255 - mean) / deviation, as
// the run file says; other inputs stay as they are. Targets that are whole numbers become int64.
// All but pictures is in memory; pictures are decoded when they are asked for.
//
// Paths lie below the peer's data folder (--data). The data are the peer's own: peers with unlike
// data train together.
//
// Source: yann.lecun.com/exdb/mnist (IDX), numpy.lib.format (NPY 1.0 to 3.0).
// Thread: any, after open. Blocks. Errors: not_found; bad_input with the file's name.

#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::tasks {

inline constexpr std::uint64_t script_data_bytes_max = 8ull << 30;  // of one file, in memory
inline constexpr std::uint32_t script_samples_max = 1u << 28;
inline constexpr std::size_t script_extents_max = 8;  // of a file's shape

enum class ScriptElement { byte, fp32, int64 };
std::size_t bytes_of(ScriptElement element);

// One sample's part: its shape without the batch.
struct ScriptPart {
    std::vector<std::int64_t> shape;
    ScriptElement element = ScriptElement::byte;
    std::uint64_t count() const;
    std::uint64_t bytes() const { return count() * bytes_of(element); }
};

struct ScriptDataOptions {
    std::string folder{};
    std::uint32_t picture_side = 32;
    std::uint32_t text_length = 128;
};

class ScriptData {
  public:
    virtual ~ScriptData() = default;
    virtual std::uint32_t count() const = 0;
    virtual const ScriptPart& inputs() const = 0;
    virtual const ScriptPart& targets() const = 0;
    // Reads the sample with this number; as many bytes as the parts say.
    virtual Ok read(std::uint32_t index,
                    std::span<std::uint8_t> inputs,
                    std::span<std::uint8_t> targets) const = 0;
};

// Is it one of the kinds above, below the data folder? What the run file alone can tell.
Ok check_script_source(const std::string& source);
Result<std::shared_ptr<const ScriptData>> open_script_data(const std::string& source,
                                                           const ScriptDataOptions& options);

// An array of a file: the first extent counts samples.
struct ScriptArray {
    std::uint32_t count = 0;
    ScriptPart part;
    Bytes bytes;
};
Result<ScriptArray> parse_idx(Bytes file, const std::string& name);
Result<ScriptArray> parse_npy(Bytes file, const std::string& name);

}  // namespace dedloc::tasks
