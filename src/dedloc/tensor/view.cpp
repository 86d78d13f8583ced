#include "dedloc/tensor/view.h"

#include <array>

namespace dedloc::tensor {
namespace {

struct DtypeFacts {
    Dtype dtype;
    std::string_view name;
    std::size_t bytes;
};

constexpr std::array<DtypeFacts, 8> facts = {{
    {Dtype::float32, "float32", 4},
    {Dtype::float16, "float16", 2},
    {Dtype::bfloat16, "bfloat16", 2},
    {Dtype::float64, "float64", 8},
    {Dtype::int64, "int64", 8},
    {Dtype::int32, "int32", 4},
    {Dtype::uint8, "uint8", 1},
    {Dtype::boolean, "bool", 1},
}};

const DtypeFacts& facts_of(Dtype dtype) {
    const auto index = static_cast<std::size_t>(dtype);
    DEDLOC_CHECK(index < facts.size(), "dtype {}", index);
    return facts[index];
}

constexpr std::size_t elements_max = std::size_t{1} << 62;

}  // namespace

std::size_t bytes_per_element(Dtype dtype) { return facts_of(dtype).bytes; }

std::string_view to_string(Dtype dtype) { return facts_of(dtype).name; }

Result<Dtype> dtype_from_string(std::string_view text) {
    for (const DtypeFacts& fact : facts) {
        if (fact.name == text) return fact.dtype;
    }
    return make_error(ErrorKind::unsupported,
                      "dtype '{}' is not one of float32, float16, bfloat16, float64, int64, int32, "
                      "uint8, bool",
                      text.substr(0, 32));
}

Result<std::size_t> elements_of(std::span<const std::int64_t> shape) {
    std::size_t product = 1;
    bool too_many = false;
    for (const std::int64_t size : shape) {
        if (size < 0) return make_error(ErrorKind::bad_input, "a shape has the size {}", size);
        if (size == 0) return std::size_t{0};
        too_many = too_many || static_cast<std::size_t>(size) > elements_max / product;
        if (!too_many) product *= static_cast<std::size_t>(size);
    }
    if (too_many) {
        return make_error(ErrorKind::bad_input, "a shape has more than 2^62 elements");
    }
    return product;
}

Ok check(const TensorView& view) {
    DEDLOC_TRY(const std::size_t elements, elements_of(view.shape));
    const std::size_t wanted = elements * bytes_per_element(view.dtype);
    if (elements > elements_max / 8 || wanted != view.bytes.size()) {
        return make_error(ErrorKind::bad_input,
                          "a {} tensor of {} elements has {} bytes",
                          to_string(view.dtype),
                          elements,
                          view.bytes.size());
    }
    return {};
}

}  // namespace dedloc::tensor
