#include "dedloc/folders/sketch.h"

#include <algorithm>

namespace dedloc::folders {
namespace {

constexpr std::uint8_t format_version = 1;
constexpr std::size_t cell_bytes = 16;
constexpr int name_bits = 40;
constexpr std::uint64_t name_mask = (std::uint64_t{1} << name_bits) - 1;

// MurmurHash3's finalizer: every bit depends on every bit.
std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

std::uint64_t fnv1a(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char letter : text)
        hash = (hash ^ static_cast<std::uint8_t>(letter)) * 0x100000001b3u;
    return mixed(hash);
}

std::uint16_t check_of(const FileDifferences::File& file) {
    return static_cast<std::uint16_t>(mixed(file.path ^ mixed(file.content)) >> 48);
}

std::string_view folder_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

}  // namespace

std::uint64_t path_key(std::string_view path) {
    return fnv1a(folder_of(path)) << name_bits | (fnv1a(path) & name_mask);
}

std::uint32_t folder_of_key(std::uint64_t key) {
    return static_cast<std::uint32_t>(key >> name_bits);
}

std::array<std::size_t, FileSketch::tables> FileSketch::cells_of(
    const FileDifferences::File& file) {
    std::uint64_t hash = mixed(file.path + 0x9e3779b97f4a7c15u * file.content);
    std::array<std::size_t, tables> cells{};
    for (std::size_t i = 0; i < tables; ++i, hash >>= 16)
        cells[i] = i * table_cells + hash % table_cells;
    return cells;
}

void FileSketch::put(const FileDifferences::File& file, int count) {
    for (const std::size_t at : cells_of(file)) {
        Cell& cell = cells_[at];
        cell.count = static_cast<std::uint16_t>(cell.count + count);
        cell.check ^= check_of(file);
        cell.path ^= file.path;
        cell.content ^= file.content;
    }
}

void FileSketch::add(std::string_view path, const Digest& content) {
    base::ByteReader reader(content.view());
    put({.path = path_key(path), .content = reader.u32_le().value_or(0)}, 1);
    ++files_count_;
}

std::string FileSketch::text() const {
    Bytes bytes = {format_version};
    base::put_u32_le(bytes, files_count_);
    for (const Cell& cell : cells_) {
        base::put_u16_be(bytes, cell.count);
        base::put_u16_be(bytes, cell.check);
        base::put_u64_be(bytes, cell.path);
        base::put_u32_be(bytes, cell.content);
    }
    return base::to_base64url(bytes);
}

Result<FileSketch> FileSketch::parse(std::string_view text) {
    if (text.size() != text_bytes)
        return make_error(ErrorKind::bad_input, "a sketch of files has {} letters", text_bytes);
    DEDLOC_TRY(const Bytes bytes, base::from_base64url(text));
    base::ByteReader reader(bytes);
    DEDLOC_TRY(const std::uint8_t version, reader.u8());
    if (version != format_version)
        return make_error(ErrorKind::bad_input, "no such sketch of files: {}", version);
    FileSketch sketch;
    DEDLOC_TRY(sketch.files_count_, reader.u32_le());
    for (Cell& cell : sketch.cells_) {
        DEDLOC_TRY(cell.count, reader.u16_be());
        DEDLOC_TRY(cell.check, reader.u16_be());
        DEDLOC_TRY(cell.path, reader.u64_be());
        DEDLOC_TRY(cell.content, reader.u32_be());
    }
    return sketch;
}

FileDifferences differences(const FileSketch& here, const FileSketch& there) {
    FileSketch rest = here;
    for (std::size_t i = 0; i < rest.cells_.size(); ++i) {
        FileSketch::Cell& cell = rest.cells_[i];
        const FileSketch::Cell& other = there.cells_[i];
        cell.count = static_cast<std::uint16_t>(cell.count - other.count);
        cell.check ^= other.check;
        cell.path ^= other.path;
        cell.content ^= other.content;
    }
    FileDifferences found;
    // Each file that is read out empties at least the cell that it was found in; a forged sketch
    // may fill others, so the number of files ends it.
    for (std::size_t left = rest.cells_.size(); left > 0;) {
        const auto alone = [](const FileSketch::Cell& cell) {
            return (cell.count == 1 || cell.count == 0xffff) &&
                   cell.check == check_of({.path = cell.path, .content = cell.content});
        };
        const auto cell = std::ranges::find_if(rest.cells_, alone);
        if (cell == rest.cells_.end()) break;
        const FileDifferences::File file = {.path = cell->path, .content = cell->content};
        const bool is_here = cell->count == 1;
        rest.put(file, is_here ? -1 : 1);
        (is_here ? found.only_here : found.only_there).push_back(file);
        --left;
    }
    found.complete = std::ranges::all_of(rest.cells_, [](const FileSketch::Cell& cell) {
        return cell.count == 0 && cell.check == 0 && cell.path == 0 && cell.content == 0;
    });
    return found;
}

}  // namespace dedloc::folders
