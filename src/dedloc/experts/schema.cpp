#include "dedloc/experts/schema.h"

#include <algorithm>

#include "dedloc/wire/msgpack.h"

namespace dedloc::experts {
namespace {

using wire::MsgpackValue;

MsgpackValue describe(const TensorSpec& spec) {
    wire::TensorDescriptor descriptor;
    descriptor.size = spec.sample;
    descriptor.requires_grad = spec.requires_grad;
    descriptor.compression = static_cast<std::int64_t>(spec.compression);
    return wire::to_msgpack(descriptor);
}

Result<TensorSpec> spec_from(const MsgpackValue& value) {
    DEDLOC_TRY(const wire::TensorDescriptor descriptor, wire::tensor_descriptor_from(value));
    TensorSpec spec;
    spec.sample = descriptor.size;
    spec.requires_grad = descriptor.requires_grad;
    if (descriptor.compression < 0)
        return make_error(ErrorKind::bad_input, "a tensor's compression is negative");
    DEDLOC_TRY(spec.compression,
               codec::hivemind_compression_from_number(
                   static_cast<std::uint64_t>(descriptor.compression)));
    if (spec.sample.size() >= wire::tensor_dimensions_max ||
        spec.elements() > tensor_bytes_max / sizeof(float))
        return make_error(ErrorKind::bad_input, "an expert's tensor is too large");
    return spec;
}

// A descriptor, or any nesting of tuples, lists and maps of them, as hivemind flattens it.
Ok flatten(const MsgpackValue& value, std::vector<TensorSpec>& out, int depth = 0) {
    if (out.size() > wire::expert_tensors_max || depth > 4)
        return make_error(ErrorKind::bad_input, "an expert has too many tensors");
    const MsgpackValue::List* items = value.get<MsgpackValue::List>();
    if (const auto* tuple = value.get<MsgpackValue::Tuple>()) items = &tuple->items;
    if (items != nullptr) {
        for (const MsgpackValue& item : *items) DEDLOC_TRY_VOID(flatten(item, out, depth + 1));
        return {};
    }
    if (const auto* map = value.get<MsgpackValue::Map>()) {
        std::vector<std::pair<std::string, const MsgpackValue*>> named;
        for (const auto& [key, item] : map->entries) {
            const auto* name = key.get<std::string>();
            if (name == nullptr)
                return make_error(ErrorKind::bad_input, "an argument's name is no text");
            named.emplace_back(*name, &item);
        }
        std::sort(named.begin(), named.end());
        for (const auto& [name, item] : named) DEDLOC_TRY_VOID(flatten(*item, out, depth + 1));
        return {};
    }
    DEDLOC_TRY(TensorSpec spec, spec_from(value));
    out.push_back(std::move(spec));
    return {};
}

std::string shape_text(std::span<const std::int64_t> shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

std::size_t TensorSpec::elements() const {
    std::size_t elements = 1;
    for (const std::int64_t axis : sample) {
        const auto size = static_cast<std::size_t>(axis);
        if (size != 0 && elements > tensor_bytes_max / size) return tensor_bytes_max + 1;
        elements *= size;
    }
    return elements;
}

std::vector<TensorSpec> ExpertSchema::backward_inputs() const {
    std::vector<TensorSpec> specs = inputs;
    specs.insert(specs.end(), outputs.begin(), outputs.end());
    return specs;
}

Bytes encode_info(const ExpertSchema& schema) {
    MsgpackValue::Tuple arguments;
    for (const TensorSpec& spec : schema.inputs) arguments.items.push_back(describe(spec));
    MsgpackValue::Tuple forward;
    forward.items.emplace_back(std::move(arguments));
    forward.items.emplace_back(MsgpackValue::Map{});
    MsgpackValue outputs;
    if (schema.outputs.size() == 1) {
        outputs = describe(schema.outputs.front());
    } else {
        MsgpackValue::Tuple several;
        for (const TensorSpec& spec : schema.outputs) several.items.push_back(describe(spec));
        outputs = std::move(several);
    }
    MsgpackValue::Map info;
    info.entries.emplace_back("forward_schema", std::move(forward));
    info.entries.emplace_back("outputs_schema", std::move(outputs));
    info.entries.emplace_back("keyword_names", MsgpackValue::Tuple{});
    return wire::encode_msgpack(std::move(info));
}

Result<ExpertSchema> decode_info(ByteView info) {
    if (info.size() > info_bytes_max)
        return make_error(ErrorKind::bad_input, "an expert's description is too large");
    DEDLOC_TRY(const MsgpackValue map, wire::decode_msgpack(info));
    const MsgpackValue* inputs = map.find("forward_schema");
    const MsgpackValue* outputs = map.find("outputs_schema");
    if (inputs == nullptr || outputs == nullptr)
        return make_error(ErrorKind::bad_input, "an expert's description lacks its schema");
    ExpertSchema schema;
    DEDLOC_TRY_VOID(flatten(*inputs, schema.inputs));
    DEDLOC_TRY_VOID(flatten(*outputs, schema.outputs));
    const std::size_t tensors = schema.inputs.size() + schema.outputs.size();
    if (schema.inputs.empty() || schema.outputs.empty() || tensors > wire::expert_tensors_max)
        return make_error(ErrorKind::bad_input,
                          "an expert has {} inputs and {} outputs; together there may be {}",
                          schema.inputs.size(),
                          schema.outputs.size(),
                          wire::expert_tensors_max);
    return schema;
}

Result<std::size_t> check_shapes(const std::vector<TensorSpec>& specs,
                                 const std::vector<std::vector<std::int64_t>>& shapes,
                                 std::size_t rows_max) {
    if (shapes.size() != specs.size())
        return make_error(ErrorKind::bad_input,
                          "{} tensors came; the expert's schema has {}",
                          shapes.size(),
                          specs.size());
    std::int64_t rows = -1;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const auto& shape = shapes[i];
        const bool fits =
            shape.size() == specs[i].sample.size() + 1 &&
            std::equal(specs[i].sample.begin(), specs[i].sample.end(), shape.begin() + 1) &&
            (rows < 0 || shape.front() == rows);
        if (!fits)
            return make_error(ErrorKind::bad_input,
                              "tensor {} has the shape {}; the schema says [{}, {}]",
                              i,
                              shape_text(shape),
                              rows < 0 ? std::string("rows") : std::to_string(rows),
                              fmt::join(specs[i].sample, ", "));
        rows = shape.front();
    }
    if (rows < 1 || static_cast<std::uint64_t>(rows) > rows_max)
        return make_error(
            ErrorKind::bad_input, "a batch of {} rows; 1 to {} are taken", rows, rows_max);
    return static_cast<std::size_t>(rows);
}

Result<std::size_t> check_tensors(const std::vector<TensorSpec>& specs,
                                  const std::vector<Tensor>& tensors,
                                  std::size_t rows_max) {
    std::vector<std::vector<std::int64_t>> shapes;
    for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape);
    return check_shapes(specs, shapes, rows_max);
}

Result<std::vector<Tensor>> read_tensors(const std::vector<TensorSpec>& specs,
                                         const std::vector<wire::RuntimeTensor>& messages,
                                         std::size_t rows_max) {
    std::vector<std::vector<std::int64_t>> shapes;
    for (const wire::RuntimeTensor& message : messages) {
        DEDLOC_TRY(auto shape, shape_of(message));
        shapes.push_back(std::move(shape));
    }
    DEDLOC_TRY_VOID(check_shapes(specs, shapes, rows_max));
    std::vector<Tensor> tensors;
    for (const wire::RuntimeTensor& message : messages) {
        DEDLOC_TRY(Tensor tensor, from_wire(message));
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

Result<std::vector<wire::RuntimeTensor>> write_tensors(const std::vector<TensorSpec>& specs,
                                                       const std::vector<Tensor>& tensors) {
    DEDLOC_CHECK(specs.size() == tensors.size());
    std::vector<wire::RuntimeTensor> messages;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        DEDLOC_TRY(auto message, to_wire(tensors[i], specs[i].compression));
        messages.push_back(std::move(message));
    }
    return messages;
}

}  // namespace dedloc::experts
