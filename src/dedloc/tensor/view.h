// Borrowed memory that holds a tensor: where, of which type, in which shape. C order, contiguous.
//
// Not a tensor library: the rooms below `train` move flat vectors; shape and dtype matter only
// where bytes are named to others (state manifests, hivemind's messages).
//
// Lifetime: whoever made the view keeps the bytes alive.

#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::tensor {

enum class Dtype : std::uint8_t {
    float32 = 0,
    float16 = 1,
    bfloat16 = 2,
    float64 = 3,
    int64 = 4,
    int32 = 5,
    uint8 = 6,
    boolean = 7,
};

std::size_t bytes_per_element(Dtype dtype);
std::string_view to_string(Dtype dtype);                 // PyTorch's word: "float32", "bool", ...
Result<Dtype> dtype_from_string(std::string_view text);  // unsupported: names the known ones

// Product of the sizes; the empty shape is a scalar. bad_input when a size is negative or the
// product does not fit 62 bits.
Result<std::size_t> elements_of(std::span<const std::int64_t> shape);

template <typename Byte>
struct BasicTensorView {
    Dtype dtype = Dtype::float32;
    std::span<const std::int64_t> shape;
    std::span<Byte> bytes;

    std::size_t elements_count() const { return bytes.size() / bytes_per_element(dtype); }
};
using TensorView = BasicTensorView<const std::uint8_t>;
using MutableTensorView = BasicTensorView<std::uint8_t>;

// bad_input when the bytes are not exactly what dtype and shape say.
Ok check(const TensorView& view);

}  // namespace dedloc::tensor
