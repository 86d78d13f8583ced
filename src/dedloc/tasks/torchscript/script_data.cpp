#include "dedloc/tasks/torchscript/script_data.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <zlib.h>

#include "dedloc/images/crops.h"
#include "dedloc/images/folder.h"
#include "dedloc/text/cache.h"

namespace dedloc::tasks {

namespace {

template <typename... Args>
Error bad_data(const std::string& name, fmt::format_string<Args...> text, Args&&... args) {
    return make_error(
        ErrorKind::bad_input, "{}: {}", name, fmt::format(text, std::forward<Args>(args)...));
}

struct SourceWords {
    std::string kind;
    std::vector<std::string> paths;
};

constexpr const char* kinds_known =
    "\"idx:IMAGES,LABELS\", \"npy:INPUTS,TARGETS\", \"pictures:FOLDER\" or \"text:FILE\"";

// The run file is somebody else's: it may name what lies below the folder that this user gave, and
// nothing that is hidden there.
bool lies_below(const std::string& path) {
    const std::filesystem::path parts = path;
    return !path.empty() && !parts.is_absolute() &&
           std::none_of(parts.begin(), parts.end(), [](const auto& part) {
               return part.native().starts_with('.') && part != ".";
           });
}

Result<SourceWords> split_source(const std::string& source) {
    SourceWords words;
    const std::size_t colon = source.find(':');
    words.kind = source.substr(0, colon);
    std::string rest = colon == std::string::npos ? "" : source.substr(colon + 1);
    for (std::size_t comma; (comma = rest.find(',')) != std::string::npos;) {
        words.paths.push_back(rest.substr(0, comma));
        rest.erase(0, comma + 1);
    }
    words.paths.push_back(rest);
    const bool is_pair = words.kind == "idx" || words.kind == "npy";
    const bool is_single = words.kind == "pictures" || words.kind == "text";
    if ((!is_pair || words.paths.size() != 2) && (!is_single || words.paths.size() != 1))
        return make_error(
            ErrorKind::bad_input, "task.data: '{}' is none of {}", source, kinds_known);
    for (const std::string& path : words.paths)
        if (!lies_below(path))
            return make_error(
                ErrorKind::bad_input, "task.data: '{}' is not below --data, or hidden there", path);
    return words;
}

// gzip or plain, as it is.
Result<Bytes> read_whole(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
        return make_error(ErrorKind::not_found, "there is no file {}", path);
    struct Close {
        void operator()(gzFile_s* file) const { gzclose(file); }
    };
    const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
    if (!file) return make_error(ErrorKind::local_fault, "{} cannot be opened", path);
    Bytes bytes;
    constexpr std::size_t piece = 1u << 20;
    for (;;) {
        const std::size_t before = bytes.size();
        bytes.resize(before + piece);
        const int got = gzread(file.get(), bytes.data() + before, piece);
        if (got < 0) return bad_data(path, "its compression is damaged");
        bytes.resize(before + static_cast<std::size_t>(got));
        if (got == 0) return bytes;
        if (bytes.size() > script_data_bytes_max)
            return bad_data(path, "more than {} bytes", script_data_bytes_max);
    }
}

// The first extent counts samples; `rest` are the values.
Result<ScriptArray> array_of(const std::vector<std::uint64_t>& extents,
                             ScriptElement element,
                             std::size_t file_element_bytes,
                             ByteView rest,
                             const std::string& name) {
    ScriptArray array;
    if (extents.empty() || extents[0] == 0 || extents[0] > script_samples_max)
        return bad_data(name, "its first extent must be 1 to {} samples", script_samples_max);
    std::uint64_t numbers = extents[0];
    for (std::size_t i = 1; i < extents.size(); ++i) {
        if (extents[i] == 0 || extents[i] > script_data_bytes_max / numbers)
            return bad_data(name, "an extent of {}", extents[i]);
        numbers *= extents[i];
        array.part.shape.push_back(static_cast<std::int64_t>(extents[i]));
    }
    if (rest.size() / file_element_bytes != numbers || rest.size() % file_element_bytes != 0)
        return bad_data(name,
                        "{} bytes follow its header, {} numbers of {} bytes should",
                        rest.size(),
                        numbers,
                        file_element_bytes);
    array.count = static_cast<std::uint32_t>(extents[0]);
    array.part.element = element;
    return array;
}

Bytes without_head(Bytes file, std::size_t count) {
    file.erase(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(count));
    return file;
}

template <typename From, typename To>
Bytes converted(ByteView from) {
    Bytes out(from.size() / sizeof(From) * sizeof(To));
    for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
        From value;
        std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
        const To number = static_cast<To>(value);
        std::memcpy(out.data() + i * sizeof(To), &number, sizeof(To));
    }
    return out;
}

// The header of an NPY file: a dictionary in Python's spelling.
class NpyHeader {
  public:
    explicit NpyHeader(std::string_view text) : text_(text) {}

    std::string_view word(std::string_view key) const {
        const std::size_t at = after(key);
        if (at == std::string_view::npos || at >= text_.size() || text_[at] != '\'') return {};
        const std::size_t end = text_.find('\'', at + 1);
        if (end == std::string_view::npos) return {};
        return text_.substr(at + 1, end - at - 1);
    }
    bool says_false(std::string_view key) const {
        const std::size_t at = after(key);
        return at != std::string_view::npos && text_.substr(at).starts_with("False");
    }
    std::vector<std::uint64_t> shape() const {
        std::vector<std::uint64_t> extents;
        std::size_t at = after("'shape'");
        if (at == std::string_view::npos || at >= text_.size() || text_[at] != '(') return extents;
        for (++at; at < text_.size() && text_[at] != ')' && extents.size() <= script_extents_max;) {
            std::uint64_t extent = 0;
            const auto read =
                std::from_chars(text_.data() + at, text_.data() + text_.size(), extent);
            if (read.ec != std::errc()) return {};
            extents.push_back(extent);
            at = static_cast<std::size_t>(read.ptr - text_.data());
            while (at < text_.size() && (text_[at] == ',' || text_[at] == ' ')) ++at;
        }
        return extents;
    }

  private:
    std::size_t after(std::string_view key) const {
        const std::size_t at = text_.find(key);
        if (at == std::string_view::npos) return at;
        return text_.find_first_not_of(": ", at + key.size());
    }
    std::string_view text_;
};

std::int64_t to_int64(const std::uint8_t* from, ScriptElement element) {
    if (element == ScriptElement::byte) return *from;
    std::int64_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

class ArrayData final : public ScriptData {
  public:
    ArrayData(ScriptArray inputs, ScriptArray targets)
        : inputs_(std::move(inputs)), targets_(std::move(targets)), targets_part_(targets_.part) {
        if (targets_part_.element == ScriptElement::byte)
            targets_part_.element = ScriptElement::int64;
    }
    std::uint32_t count() const override { return inputs_.count; }
    const ScriptPart& inputs() const override { return inputs_.part; }
    const ScriptPart& targets() const override { return targets_part_; }
    Ok read(std::uint32_t index,
            std::span<std::uint8_t> inputs,
            std::span<std::uint8_t> targets) const override {
        std::ranges::copy(of(inputs_, index), inputs.begin());
        const ByteView from = of(targets_, index);
        if (targets_.part.element != ScriptElement::byte) {
            std::ranges::copy(from, targets.begin());
            return {};
        }
        for (std::size_t i = 0; i < from.size(); ++i) {
            const std::int64_t value = to_int64(&from[i], ScriptElement::byte);
            std::memcpy(targets.data() + i * sizeof(value), &value, sizeof(value));
        }
        return {};
    }

  private:
    static ByteView of(const ScriptArray& array, std::uint32_t index) {
        const std::size_t bytes = array.part.bytes();
        return ByteView(array.bytes).subspan(index * bytes, bytes);
    }
    ScriptArray inputs_;
    ScriptArray targets_;
    ScriptPart targets_part_;
};

class PictureData final : public ScriptData {
  public:
    PictureData(images::ImageFolder folder, std::uint32_t side)
        : folder_(std::move(folder)),
          side_(side),
          inputs_{.shape = {3, side, side}, .element = ScriptElement::byte},
          targets_{.shape = {}, .element = ScriptElement::int64} {}
    std::uint32_t count() const override {
        return static_cast<std::uint32_t>(folder_.entries().size());
    }
    const ScriptPart& inputs() const override { return inputs_; }
    const ScriptPart& targets() const override { return targets_; }
    Ok read(std::uint32_t index,
            std::span<std::uint8_t> inputs,
            std::span<std::uint8_t> targets) const override {
        DEDLOC_TRY(const images::Picture whole, folder_.picture(index));
        const images::Picture middle = images::centre_crop(whole, side_, 1.0);
        const std::size_t pixels = std::size_t{side_} * side_;
        for (std::size_t i = 0; i < pixels; ++i)
            for (std::size_t colour = 0; colour < 3; ++colour)
                inputs[colour * pixels + i] = middle.rgb[3 * i + colour];
        const std::int64_t label = folder_.entries()[index].label;
        std::memcpy(targets.data(), &label, sizeof(label));
        return {};
    }

  private:
    images::ImageFolder folder_;
    std::uint32_t side_;
    ScriptPart inputs_;
    ScriptPart targets_;
};

class TextBytes final : public ScriptData {
  public:
    TextBytes(Bytes text, std::uint32_t length)
        : text_(std::move(text)),
          length_(length),
          part_{.shape = {length}, .element = ScriptElement::int64} {}
    std::uint32_t count() const override {
        return static_cast<std::uint32_t>(
            std::min<std::size_t>((text_.size() - 1) / length_, script_samples_max));
    }
    const ScriptPart& inputs() const override { return part_; }
    const ScriptPart& targets() const override { return part_; }
    Ok read(std::uint32_t index,
            std::span<std::uint8_t> inputs,
            std::span<std::uint8_t> targets) const override {
        const std::size_t at = std::size_t{index} * length_;
        for (std::size_t i = 0; i < length_; ++i) {
            const std::int64_t now = text_[at + i];
            const std::int64_t next = text_[at + i + 1];
            std::memcpy(inputs.data() + i * sizeof(now), &now, sizeof(now));
            std::memcpy(targets.data() + i * sizeof(next), &next, sizeof(next));
        }
        return {};
    }

  private:
    Bytes text_;
    std::uint32_t length_;
    ScriptPart part_;
};

Result<std::shared_ptr<const ScriptData>> open_arrays(const SourceWords& words,
                                                      const std::string& folder) {
    const auto parse = words.kind == "idx" ? parse_idx : parse_npy;
    std::vector<ScriptArray> arrays;
    for (const std::string& name : words.paths) {
        DEDLOC_TRY(Bytes file, read_whole(folder + "/" + name));
        DEDLOC_TRY(arrays.emplace_back(), parse(std::move(file), name));
    }
    if (arrays[0].count != arrays[1].count)
        return bad_data(
            words.paths[1], "{} targets for {} inputs", arrays[1].count, arrays[0].count);
    std::vector<std::int64_t>& shape = arrays[0].part.shape;
    if (words.kind == "idx" && shape.size() == 2) shape.insert(shape.begin(), 1);
    return std::shared_ptr<const ScriptData>(
        std::make_shared<ArrayData>(std::move(arrays[0]), std::move(arrays[1])));
}

}  // namespace

std::size_t bytes_of(ScriptElement element) {
    if (element == ScriptElement::byte) return 1;
    return element == ScriptElement::fp32 ? sizeof(float) : sizeof(std::int64_t);
}

std::uint64_t ScriptPart::count() const {
    std::uint64_t numbers = 1;
    for (const std::int64_t extent : shape) numbers *= static_cast<std::uint64_t>(extent);
    return numbers;
}

Result<ScriptArray> parse_idx(Bytes file, const std::string& name) {
    constexpr std::uint8_t bytes_type = 8;
    base::ByteReader reader(file);
    DEDLOC_TRY(const ByteView magic, reader.take(4));
    if (magic[0] != 0 || magic[1] != 0 || magic[2] != bytes_type || magic[3] == 0 ||
        magic[3] > script_extents_max)
        return bad_data(name, "no IDX file of bytes");
    std::vector<std::uint64_t> extents;
    for (std::uint8_t i = 0; i < magic[3]; ++i) {
        DEDLOC_TRY(extents.emplace_back(), reader.u32_be());
    }
    DEDLOC_TRY(ScriptArray array, array_of(extents, ScriptElement::byte, 1, reader.rest(), name));
    array.bytes = without_head(std::move(file), reader.position());
    return array;
}

Result<ScriptArray> parse_npy(Bytes file, const std::string& name) {
    base::ByteReader reader(file);
    DEDLOC_TRY(const ByteView magic, reader.take(8));
    if (base::as_text(magic.first(6)) != "\x93NUMPY" || magic[6] == 0 || magic[6] > 3)
        return bad_data(name, "no file of NumPy's");
    std::size_t header_bytes = 0;
    DEDLOC_TRY(const ByteView size, reader.take(magic[6] == 1 ? 2 : 4));
    for (std::size_t i = size.size(); i-- > 0;) header_bytes = header_bytes << 8 | size[i];
    DEDLOC_TRY(const ByteView header_text, reader.take(header_bytes));
    const NpyHeader header(base::as_text(header_text));
    const std::string_view type = header.word("'descr'");
    if (!header.says_false("'fortran_order'"))
        return bad_data(name, "its values lie in columns; write numpy.ascontiguousarray of it");
    const bool is_byte = type == "|u1";
    const bool is_float = type == "<f4" || type == "<f8";
    if (!is_byte && !is_float && type != "<i4" && type != "<i8")
        return bad_data(name, "numbers of type '{}'; it can be u1, i4, i8, f4 or f8", type);
    const auto element = is_byte    ? ScriptElement::byte
                         : is_float ? ScriptElement::fp32
                                    : ScriptElement::int64;
    const std::size_t element_bytes = is_byte ? 1 : static_cast<std::size_t>(type[2] - '0');
    const ByteView values = reader.rest();
    const std::vector<std::uint64_t> extents = header.shape();
    DEDLOC_TRY(ScriptArray array, array_of(extents, element, element_bytes, values, name));
    if (type == "<f8")
        array.bytes = converted<double, float>(values);
    else if (type == "<i4")
        array.bytes = converted<std::int32_t, std::int64_t>(values);
    else
        array.bytes = without_head(std::move(file), reader.position());
    return array;
}

Ok check_script_source(const std::string& source) {
    DEDLOC_TRY_VOID(split_source(source));
    return {};
}

Result<std::shared_ptr<const ScriptData>> open_script_data(const std::string& source,
                                                           const ScriptDataOptions& options) {
    DEDLOC_TRY(const SourceWords words, split_source(source));
    if (options.folder.empty())
        return make_error(ErrorKind::not_found,
                          "this run's data are {}: say with --data which folder has them",
                          source);
    if (words.kind == "idx" || words.kind == "npy") return open_arrays(words, options.folder);
    const std::string path = options.folder + "/" + words.paths[0];
    if (words.kind == "pictures") {
        DEDLOC_TRY(images::ImageFolder folder, images::ImageFolder::open(path));
        if (folder.entries().size() > script_samples_max)
            return bad_data(path, "more than {} pictures", script_samples_max);
        return std::shared_ptr<const ScriptData>(
            std::make_shared<PictureData>(std::move(folder), options.picture_side));
    }
    DEDLOC_TRY(Bytes text, read_whole(path));
    if (text.size() <= options.text_length)
        return bad_data(path, "shorter than one sample of {} bytes", options.text_length);
    return std::shared_ptr<const ScriptData>(
        std::make_shared<TextBytes>(std::move(text), options.text_length));
}

}  // namespace dedloc::tasks
