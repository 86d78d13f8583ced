#include "dedloc/experts/tensor.h"

#include <algorithm>

#include "dedloc/tensor/kernels.h"
#include "dedloc/tensor/view.h"

namespace dedloc::experts {

Tensor zeros(std::size_t rows, std::span<const std::int64_t> sample) {
    Tensor tensor;
    tensor.shape.push_back(static_cast<std::int64_t>(rows));
    std::size_t elements = rows;
    for (const std::int64_t axis : sample) {
        tensor.shape.push_back(axis);
        elements *= static_cast<std::size_t>(axis);
    }
    tensor.values.resize(elements);
    return tensor;
}

Tensor join_rows(const std::vector<const Tensor*>& parts) {
    DEDLOC_CHECK(!parts.empty());
    Tensor joined;
    joined.shape = parts.front()->shape;
    std::size_t elements = 0;
    std::int64_t rows = 0;
    for (const Tensor* part : parts) {
        elements += part->values.size();
        rows += part->shape.front();
    }
    joined.shape.front() = rows;
    joined.values.reserve(elements);
    for (const Tensor* part : parts)
        joined.values.insert(joined.values.end(), part->values.begin(), part->values.end());
    return joined;
}

Tensor take_rows(const Tensor& tensor, std::size_t first, std::size_t count) {
    DEDLOC_CHECK(first + count <= tensor.rows());
    Tensor taken;
    taken.shape = tensor.shape;
    taken.shape.front() = static_cast<std::int64_t>(count);
    const auto begin =
        tensor.values.begin() + static_cast<std::ptrdiff_t>(first * tensor.row_elements());
    taken.values.assign(begin, begin + static_cast<std::ptrdiff_t>(count * tensor.row_elements()));
    return taken;
}

bool all_finite(const std::vector<Tensor>& tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
        return tensor::all_finite(tensor.values);
    });
}

std::size_t bytes_of(const std::vector<Tensor>& tensors) {
    std::size_t bytes = 0;
    for (const Tensor& tensor : tensors) bytes += tensor.bytes();
    return bytes;
}

Result<wire::RuntimeTensor> to_wire(const Tensor& tensor, codec::HivemindCompression compression) {
    const std::size_t columns = tensor.shape.empty() || tensor.shape.back() == 0
                                    ? 1
                                    : static_cast<std::size_t>(tensor.shape.back());
    DEDLOC_TRY(Bytes buffer, codec::encode_hivemind(compression, tensor.values, columns));
    wire::RuntimeTensor message;
    message.buffer = std::move(buffer);
    for (const std::int64_t axis : tensor.shape)
        message.size.push_back(static_cast<std::uint32_t>(axis));
    message.dtype = "float32";
    message.compression = static_cast<std::uint32_t>(compression);
    return message;
}

Result<std::vector<std::int64_t>> shape_of(const wire::RuntimeTensor& message) {
    const std::vector<std::int64_t> shape(message.size.begin(), message.size.end());
    DEDLOC_TRY(const std::size_t elements, tensor::elements_of(shape));
    if (elements > tensor_bytes_max / sizeof(float))
        return make_error(ErrorKind::bad_input,
                          "a tensor of {} numbers; at most {} bytes are taken",
                          elements,
                          tensor_bytes_max);
    return shape;
}

Result<Tensor> from_wire(const wire::RuntimeTensor& message) {
    DEDLOC_TRY(const auto compression,
               codec::hivemind_compression_from_number(message.compression));
    DEDLOC_TRY(const tensor::Dtype dtype, tensor::dtype_from_string(message.dtype));
    Tensor tensor;
    DEDLOC_TRY(tensor.shape, shape_of(message));
    DEDLOC_TRY(const std::size_t elements, tensor::elements_of(tensor.shape));
    // No compression takes less than a byte a number.
    if (elements > message.buffer.size())
        return make_error(ErrorKind::bad_input,
                          "a tensor of {} numbers came with {} bytes",
                          elements,
                          message.buffer.size());
    tensor.values.resize(elements);
    const std::size_t columns = tensor.shape.empty() || tensor.shape.back() == 0
                                    ? 1
                                    : static_cast<std::size_t>(tensor.shape.back());
    DEDLOC_TRY_VOID(codec::decode_hivemind(
        compression, message.buffer, columns, std::span(tensor.values), dtype));
    return tensor;
}

std::vector<wire::RuntimeTensor> split_for_stream(wire::RuntimeTensor tensor,
                                                  std::size_t chunk_bytes) {
    const std::size_t size = tensor.buffer.size();
    tensor.chunks = static_cast<std::int32_t>((size + chunk_bytes - 1) / chunk_bytes);
    std::vector<wire::RuntimeTensor> pieces;
    if (size <= chunk_bytes) {
        pieces.push_back(std::move(tensor));
        return pieces;
    }
    const Bytes whole = std::move(tensor.buffer);
    for (std::size_t at = 0; at < size; at += chunk_bytes) {
        wire::RuntimeTensor& piece = pieces.emplace_back();
        if (at == 0) piece = std::move(tensor);
        const ByteView part = ByteView(whole).subspan(at, std::min(chunk_bytes, size - at));
        piece.buffer.assign(part.begin(), part.end());
    }
    return pieces;
}

Ok TensorJoiner::add(wire::RuntimeTensor piece) {
    bytes_ += piece.buffer.size();
    if (bytes_ > bytes_max_)
        return make_error(
            ErrorKind::overloaded, "the tensors of one call have more than {} bytes", bytes_max_);
    if (!piece.dtype.empty()) {
        if (tensors_.size() == wire::expert_tensors_max)
            return make_error(
                ErrorKind::bad_input, "a call has at most {} tensors", wire::expert_tensors_max);
        tensors_.push_back(std::move(piece));
        return {};
    }
    if (tensors_.empty())
        return make_error(ErrorKind::bad_input, "a stream of tensors begins in the middle of one");
    base::append(tensors_.back().buffer, piece.buffer);
    return {};
}

}  // namespace dedloc::experts
