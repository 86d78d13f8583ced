// Tensors of experts' calls: shape and fp32 values, to and from hivemind's messages.
//
// Numbers in other formats (fp16, bf16, the 8-bit ones) are widened to fp32 when they are read.
// Nothing is allocated before the claimed shape has been compared with the bytes that are there.
//
// Errors: bad_input, unsupported (a dtype without fractions). Thread: any. Pure.

#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dedloc/codec/hivemind.h"
#include "dedloc/wire/expert_messages.h"

namespace dedloc::experts {

// One tensor of one call; more would not fit the queue of a server anyway.
inline constexpr std::uint64_t tensor_bytes_max = 128u << 20;
// Larger tensors go in streams of chunks (hivemind's MAX_UNARY_PAYLOAD_SIZE, DEFAULT_MAX_MSG_SIZE).
inline constexpr std::size_t unary_bytes_max = 2u << 20;
inline constexpr std::size_t chunk_bytes_max = 4u << 20;

struct Tensor {
    std::vector<std::int64_t> shape;  // the first axis is the batch
    std::vector<float> values;        // in C order, as many as the shape says

    std::size_t rows() const { return shape.empty() ? 0 : static_cast<std::size_t>(shape[0]); }
    std::size_t row_elements() const { return rows() == 0 ? 0 : values.size() / rows(); }
    std::span<const float> row(std::size_t index) const {
        return std::span(values).subspan(index * row_elements(), row_elements());
    }
    std::size_t bytes() const { return values.size() * sizeof(float); }

    friend bool operator==(const Tensor&, const Tensor&) = default;
};

// `sample`: shape of one row, without the batch.
Tensor zeros(std::size_t rows, std::span<const std::int64_t> sample);
// Rows of several tensors, one after the other; their samples have one shape.
Tensor join_rows(const std::vector<const Tensor*>& parts);
Tensor take_rows(const Tensor& tensor, std::size_t first, std::size_t count);
bool all_finite(const std::vector<Tensor>& tensors);
std::size_t bytes_of(const std::vector<Tensor>& tensors);

// Errors: bad_input: numbers that are not finite, where the compression cannot carry them.
Result<wire::RuntimeTensor> to_wire(const Tensor& tensor, codec::HivemindCompression compression);
Result<Tensor> from_wire(const wire::RuntimeTensor& message);
// Returns the shape that the message claims. bad_input: too large.
Result<std::vector<std::int64_t>> shape_of(const wire::RuntimeTensor& message);

// hivemind's cut: as many messages as chunks, at least one.
std::vector<wire::RuntimeTensor> split_for_stream(wire::RuntimeTensor tensor,
                                                  std::size_t chunk_bytes = chunk_bytes_max);

// Puts a stream's pieces together again. Bounds: expert_tensors_max tensors, bytes_max in all.
class TensorJoiner {
  public:
    explicit TensorJoiner(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

    Ok add(wire::RuntimeTensor piece);
    std::uint64_t bytes() const { return bytes_; }
    std::vector<wire::RuntimeTensor> finish() && { return std::move(tensors_); }

  private:
    std::uint64_t bytes_max_;
    std::uint64_t bytes_ = 0;
    std::vector<wire::RuntimeTensor> tensors_;
};

}  // namespace dedloc::experts
