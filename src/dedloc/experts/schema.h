// ExpertSchema: what an expert takes and gives, so that a call can be refused before anything is
// computed, and an answer before anything is done with it.
//
// On the wire it is hivemind's serialized_info: MessagePack {forward_schema: (args, kwargs),
// outputs_schema, keyword_names}. Arguments that have names come after the others, by name.
//
// Errors: bad_input. Thread: any. Pure.

#pragma once
#include <vector>

#include "dedloc/experts/tensor.h"

namespace dedloc::experts {

inline constexpr std::size_t info_bytes_max = 64u << 10;

struct TensorSpec {
    std::vector<std::int64_t> sample;  // shape without the batch
    codec::HivemindCompression compression = codec::HivemindCompression::none;
    bool requires_grad = true;

    std::size_t elements() const;
    friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

struct ExpertSchema {
    std::vector<TensorSpec> inputs;
    std::vector<TensorSpec> outputs;

    // A backward call takes these: inputs, then gradients of the outputs.
    std::vector<TensorSpec> backward_inputs() const;
    friend bool operator==(const ExpertSchema&, const ExpertSchema&) = default;
};

Bytes encode_info(const ExpertSchema& schema);
Result<ExpertSchema> decode_info(ByteView info);

// As many rows as all of them have. Errors: a count, shape or number of rows does not fit, or the
// batch is empty or has more than rows_max rows.
Result<std::size_t> check_shapes(const std::vector<TensorSpec>& specs,
                                 const std::vector<std::vector<std::int64_t>>& shapes,
                                 std::size_t rows_max);
Result<std::size_t> check_tensors(const std::vector<TensorSpec>& specs,
                                  const std::vector<Tensor>& tensors,
                                  std::size_t rows_max);
// The tensors of a call as they came: shapes are compared before any number is read.
Result<std::vector<Tensor>> read_tensors(const std::vector<TensorSpec>& specs,
                                         const std::vector<wire::RuntimeTensor>& messages,
                                         std::size_t rows_max);
Result<std::vector<wire::RuntimeTensor>> write_tensors(const std::vector<TensorSpec>& specs,
                                                       const std::vector<Tensor>& tensors);

}  // namespace dedloc::experts
