#include "dedloc/tasks/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "dedloc/base/check.h"
#include "dedloc/tensor/half.h"

namespace dedloc::tasks {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t elements_max = std::uint64_t{1} << 40;
constexpr const char* metadata_key = "__metadata__";

struct TypeName {
    SafetensorsType type;
    const char* name;
    std::uint64_t bytes;
};
constexpr TypeName types[] = {{SafetensorsType::f32, "F32", 4},
                              {SafetensorsType::f16, "F16", 2},
                              {SafetensorsType::bf16, "BF16", 2},
                              {SafetensorsType::i64, "I64", 8}};

const TypeName& type_name(SafetensorsType type) {
    return *std::find_if(
        std::begin(types), std::end(types), [&](const TypeName& t) { return t.type == type; });
}

template <typename... Args>
Error broken(fmt::format_string<Args...> text, Args&&... args) {
    return make_error(ErrorKind::bad_input,
                      "not a safetensors file we can use: {}",
                      fmt::format(text, std::forward<Args>(args)...));
}

// Names that are there twice, and nesting, which nlohmann's tree would hide or follow.
class HeaderWatch {
  public:
    bool operator()(int depth, json::parse_event_t event, json& value) {
        if (event == json::parse_event_t::object_start) names_.emplace_back();
        if (event == json::parse_event_t::object_end && !names_.empty()) names_.pop_back();
        if (event == json::parse_event_t::key && !names_.empty() &&
            !names_.back().insert(value.get<std::string>()).second)
            problem_ = "a name is there twice";
        constexpr int depth_max = 3;
        if (depth > depth_max) problem_ = "the header is nested too deeply";
        return problem_.empty();
    }
    const std::string& problem() const { return problem_; }

  private:
    std::vector<std::set<std::string>> names_;
    std::string problem_;
};

Result<json> parse_header(std::string_view text) {
    HeaderWatch watch;
    const json header = json::parse(
        text.begin(),
        text.end(),
        [&](int d, json::parse_event_t e, json& v) { return watch(d, e, v); },
        false);
    if (!watch.problem().empty()) return broken("{}", watch.problem());
    if (header.is_discarded() || !header.is_object())
        return broken("its header is not a JSON object");
    if (header.size() > safetensors_tensors_max + 1)
        return broken("{} tensors are too many", header.size());
    return header;
}

std::optional<std::uint64_t> natural(const json& value) {
    if (!value.is_number_unsigned()) return std::nullopt;
    return value.get<std::uint64_t>();
}

struct Placed {
    Safetensor tensor;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

Result<Placed> read_entry(const std::string& name, const json& entry, ByteView data) {
    const std::string shown = name.substr(0, 80);
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
        !entry.contains("shape") || !entry.contains("data_offsets"))
        return broken("'{}' has other fields than dtype, shape and data_offsets", shown);
    const json& dtype = entry["dtype"];
    const auto* type = std::find_if(std::begin(types), std::end(types), [&](const TypeName& t) {
        return dtype.is_string() && dtype.get_ref<const std::string&>() == t.name;
    });
    if (type == std::end(types))
        return make_error(
            ErrorKind::unsupported,
            "'{}' has elements of a type that is not read; F32, F16, BF16 and I64 are",
            shown);
    const json& shape = entry["shape"];
    const json& offsets = entry["data_offsets"];
    if (!shape.is_array() || shape.size() > safetensors_rank_max)
        return broken("'{}' has no usable shape", shown);
    Placed placed;
    placed.tensor.type = type->type;
    std::uint64_t count = 1;
    for (const json& item : shape) {
        const auto size = natural(item);
        if (!size || *size > elements_max) return broken("'{}' has no usable shape", shown);
        if (*size != 0 && count > elements_max / *size) return broken("'{}' is too large", shown);
        count *= *size;
        placed.tensor.shape.push_back(static_cast<std::int64_t>(*size));
    }
    if (!offsets.is_array() || offsets.size() != 2)
        return broken("'{}' has no two data_offsets", shown);
    const auto begin = natural(offsets[0]);
    const auto end = natural(offsets[1]);
    if (!begin || !end || *begin > *end) return broken("'{}' has no two data_offsets", shown);
    if (*end > data.size())
        return broken(
            "it is cut short: '{}' ends at byte {} of the data, and {} are there; copy or "
            "download it again",
            shown,
            *end,
            data.size());
    if (*end - *begin != count * type->bytes)
        return broken("'{}' has {} bytes for {} elements", shown, *end - *begin, count);
    placed.begin = *begin;
    placed.end = *end;
    placed.tensor.data =
        data.subspan(static_cast<std::size_t>(*begin), static_cast<std::size_t>(*end - *begin));
    return placed;
}

Result<std::map<std::string, std::string>> read_metadata(const json& entry) {
    std::map<std::string, std::string> metadata;
    if (!entry.is_object()) return broken("its metadata is not an object");
    for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return broken("its metadata has something that is not text");
        metadata[key] = value.get<std::string>();
    }
    return metadata;
}

template <typename Element>
std::vector<Element> elements_of(ByteView data) {
    std::vector<Element> values(data.size() / sizeof(Element));
    if (!values.empty()) std::memcpy(values.data(), data.data(), data.size());
    return values;
}

}  // namespace

std::int64_t Safetensor::elements_count() const {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return count;
}

Result<std::vector<float>> Safetensor::floats() const {
    if (type == SafetensorsType::f32) return elements_of<float>(data);
    if (type == SafetensorsType::i64)
        return make_error(ErrorKind::unsupported, "numbers are wanted, not indices (I64)");
    const std::vector<std::uint16_t> halves = elements_of<std::uint16_t>(data);
    std::vector<float> values(halves.size());
    std::transform(halves.begin(), halves.end(), values.begin(), [&](std::uint16_t bits) {
        return type == SafetensorsType::f16 ? tensor::float_from_half(bits)
                                            : tensor::float_from_bfloat16(bits);
    });
    return values;
}

Result<std::vector<std::int64_t>> Safetensor::integers() const {
    if (type == SafetensorsType::i64) return elements_of<std::int64_t>(data);
    return make_error(ErrorKind::unsupported, "indices (I64) are wanted");
}

Result<Safetensor> Safetensors::find(const std::string& name) const {
    const auto found = tensors.find(name);
    if (found != tensors.end()) return found->second;
    return make_error(ErrorKind::not_found, "there is no tensor '{}'", name);
}

Result<Safetensors> parse_safetensors(ByteView file) {
    constexpr std::size_t prefix = 8;
    if (file.size() < prefix) return broken("it has {} bytes", file.size());
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), prefix);
    if (header_bytes > safetensors_header_bytes_max || header_bytes > file.size() - prefix)
        return broken("a header of {} bytes", header_bytes);
    const auto size = static_cast<std::size_t>(header_bytes);
    const ByteView data = file.subspan(prefix + size);
    DEDLOC_TRY(const json header, parse_header(base::as_text(file.subspan(prefix, size))));
    Safetensors result;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const auto& [name, entry] : header.items()) {
        if (name == metadata_key) {
            DEDLOC_TRY(result.metadata, read_metadata(entry));
            continue;
        }
        DEDLOC_TRY(Placed placed, read_entry(name, entry, data));
        places.emplace_back(placed.begin, placed.end);
        result.tensors.emplace(name, std::move(placed.tensor));
    }
    std::sort(places.begin(), places.end());
    std::uint64_t covered = 0;
    for (const auto& [begin, end] : places) {
        if (begin != covered) return broken("a gap or an overlap at byte {} of the data", covered);
        covered = end;
    }
    if (covered != data.size())
        return broken("{} bytes belong to no tensor", data.size() - covered);
    return result;
}

Bytes encode_safetensors(const Safetensors& tensors) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!tensors.metadata.empty()) header[metadata_key] = tensors.metadata;
    std::uint64_t offset = 0;
    for (const auto& [name, tensor] : tensors.tensors) {
        const TypeName& type = type_name(tensor.type);
        DEDLOC_CHECK(
            tensor.data.size() == static_cast<std::uint64_t>(tensor.elements_count()) * type.bytes,
            "{}",
            name);
        header[name] = {{"dtype", type.name},
                        {"shape", tensor.shape},
                        {"data_offsets", {offset, offset + tensor.data.size()}}};
        offset += tensor.data.size();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    Bytes file;
    file.reserve(8 + text.size() + static_cast<std::size_t>(offset));
    base::put_u64_le(file, text.size());
    base::append(file, base::as_bytes(text));
    for (const auto& item : tensors.tensors) base::append(file, item.second.data);
    return file;
}

}  // namespace dedloc::tasks
