#include "dedloc/tasks/torchscript/script_archive.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <zlib.h>

namespace dedloc::tasks {

namespace {

constexpr std::size_t local_header_bytes = 30;
constexpr std::size_t directory_entry_bytes = 46;
constexpr std::size_t end_bytes = 22;
constexpr std::size_t locator_bytes = 20;
constexpr std::size_t end64_bytes = 56;
constexpr std::uint32_t local_magic = 0x04034b50;
constexpr std::uint32_t directory_magic = 0x02014b50;
constexpr std::uint32_t end_magic = 0x06054b50;
constexpr std::uint32_t locator_magic = 0x07064b50;
constexpr std::uint32_t end64_magic = 0x06064b50;
constexpr std::uint16_t flags_known = 0x0808;  // sizes behind the data; names in UTF-8
constexpr std::uint16_t stored = 0;
constexpr std::uint16_t deflated = 8;

template <typename... Args>
Error no_script(fmt::format_string<Args...> text, Args&&... args) {
    return make_error(ErrorKind::bad_input,
                      "not a TorchScript file that can be used: {}",
                      fmt::format(text, std::forward<Args>(args)...));
}

// The caller has looked that there are so many bytes.
std::uint64_t number_at(ByteView bytes, std::size_t at, std::size_t count) {
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | bytes[at + i];
    return value;
}
std::uint16_t u16_at(ByteView bytes, std::size_t at) {
    return static_cast<std::uint16_t>(number_at(bytes, at, 2));
}
std::uint32_t u32_at(ByteView bytes, std::size_t at) {
    return static_cast<std::uint32_t>(number_at(bytes, at, 4));
}

struct Directory {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t count = 0;
};

// A small file says the same in the old record and in the new one.
bool agrees(std::uint64_t old_word, std::uint64_t word, std::uint64_t unknown) {
    return old_word == word || old_word == unknown;
}

Result<Directory> find_directory(ByteView file) {
    if (file.size() < end_bytes || u32_at(file, file.size() - end_bytes) != end_magic ||
        u16_at(file, file.size() - 2) != 0)
        return no_script("it does not end as a zip file does");
    const std::size_t end = file.size() - end_bytes;
    std::uint64_t count = u16_at(file, end + 10);
    std::uint64_t bytes = u32_at(file, end + 12);
    std::uint64_t begin = u32_at(file, end + 16);
    std::size_t directory_end = end;
    if (end >= locator_bytes + end64_bytes && u32_at(file, end - locator_bytes) == locator_magic) {
        const std::size_t record = end - locator_bytes - end64_bytes;
        if (number_at(file, end - locator_bytes + 8, 8) != record ||
            u32_at(file, record) != end64_magic)
            return no_script("its two ends differ");
        const std::uint64_t words[] = {number_at(file, record + 32, 8),
                                       number_at(file, record + 40, 8),
                                       number_at(file, record + 48, 8)};
        if (!agrees(count, words[0], 0xffff) || !agrees(bytes, words[1], 0xffffffff) ||
            !agrees(begin, words[2], 0xffffffff) || number_at(file, record + 24, 8) != words[0])
            return no_script("its two ends differ");
        count = words[0];
        bytes = words[1];
        begin = words[2];
        directory_end = record;
    } else if (u16_at(file, end + 8) != count) {
        return no_script("it has several parts");
    }
    if (count > script_entries_max) return no_script("{} entries", count);
    if (begin > directory_end || bytes != directory_end - begin)
        return no_script("its directory lies elsewhere than it says");
    return Directory{
        static_cast<std::size_t>(begin), directory_end, static_cast<std::size_t>(count)};
}

struct Found {
    ScriptEntry entry;
    std::string path;  // with the archive's folder
    std::size_t next = 0;
};

// Where the entry's bytes begin: behind a header of its own that repeats the name.
Result<ByteView> packed_bytes(ByteView file,
                              std::size_t directory_begin,
                              std::uint64_t at,
                              std::uint64_t count,
                              std::string_view path) {
    if (at > directory_begin || directory_begin - at < local_header_bytes ||
        u32_at(file, static_cast<std::size_t>(at)) != local_magic)
        return no_script("{} does not lie where it should", path);
    const auto header = static_cast<std::size_t>(at);
    const std::size_t name_bytes = u16_at(file, header + 26);
    const std::size_t skipped = local_header_bytes + name_bytes + u16_at(file, header + 28);
    if (skipped > directory_begin - header || count > directory_begin - header - skipped)
        return no_script("{} is cut off", path);
    if (base::as_text(file.subspan(header + local_header_bytes, name_bytes)) != path)
        return no_script("{} has two names", path);
    return file.subspan(header + skipped, static_cast<std::size_t>(count));
}

// By zlib, whose lengths are 32 bits: more is no file that we take.
bool has_checksum(ByteView bytes, std::uint32_t checksum) {
    return ::crc32(0, bytes.data(), static_cast<uInt>(bytes.size())) == checksum;
}

Result<Found> read_entry(ByteView file, const Directory& directory, std::size_t at) {
    if (directory.end - at < directory_entry_bytes || u32_at(file, at) != directory_magic)
        return no_script("its directory is damaged");
    const std::size_t name_bytes = u16_at(file, at + 28);
    const std::size_t whole =
        directory_entry_bytes + name_bytes + u16_at(file, at + 30) + u16_at(file, at + 32);
    if (name_bytes > script_name_bytes_max || whole > directory.end - at)
        return no_script("its directory is damaged");
    Found found;
    found.next = at + whole;
    found.path = base::as_text(file.subspan(at + directory_entry_bytes, name_bytes));
    const std::uint16_t method = u16_at(file, at + 10);
    const std::uint64_t packed = u32_at(file, at + 20);
    const std::uint64_t bytes = u32_at(file, at + 24);
    if ((u16_at(file, at + 8) & ~flags_known) != 0 || (method != stored && method != deflated) ||
        (method == stored && packed != bytes))
        return no_script("{} is packed in another way than libtorch packs", found.path);
    found.entry.bytes = static_cast<std::size_t>(bytes);
    found.entry.is_deflated = method == deflated;
    found.entry.checksum = u32_at(file, at + 16);
    DEDLOC_TRY(found.entry.packed,
               packed_bytes(file, directory.begin, u32_at(file, at + 42), packed, found.path));
    return found;
}

// No other bytes than a path of libtorch has.
bool is_plain_name(std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' ||
               c == '-' || c == ' ' || c == '+';
    });
}

bool is_number_of_tensor(std::string_view name) {
    for (const std::string_view folder : {"data/", "constants/"})
        if (name.starts_with(folder))
            return name.size() > folder.size() &&
                   std::ranges::all_of(name.substr(folder.size()),
                                       [](char c) { return c >= '0' && c <= '9'; });
    return false;
}

bool is_known(const ScriptEntry& entry) {
    return entry.is_source() || entry.is_pickle() || is_number_of_tensor(entry.name) ||
           entry.name == "version" || entry.name == "byteorder" ||
           entry.name.starts_with(".data/") || entry.name == ".format_version" ||
           entry.name == ".storage_alignment";
}

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

Ok check_entry(const ScriptEntry& entry) {
    if (!is_known(entry)) return no_script("what is {} for?", entry.name);
    const bool is_text = entry.is_source() || entry.is_pickle();
    if (is_text && entry.bytes > script_text_bytes_max)
        return no_script(
            "{} has {} bytes; {} are the most", entry.name, entry.bytes, script_text_bytes_max);
    if (!is_text && entry.is_deflated) return no_script("{} is packed", entry.name);
    if (!entry.is_deflated && !has_checksum(entry.packed, entry.checksum))
        return no_script("{} is damaged", entry.name);
    return {};
}

}  // namespace

bool ScriptEntry::is_source() const { return name.starts_with("code/") && name.ends_with(".py"); }

bool ScriptEntry::is_pickle() const {
    return name == "data.pkl" || name == "constants.pkl" ||
           (name.starts_with("code/") && name.ends_with(".debug_pkl"));
}

Result<ScriptArchive> ScriptArchive::parse(ByteView file) {
    if (file.size() > script_file_bytes_max)
        return no_script("{} bytes; {} are the most", file.size(), script_file_bytes_max);
    DEDLOC_TRY(const Directory directory, find_directory(file));
    ScriptArchive archive;
    std::set<std::string> names;
    std::string folder;
    std::size_t at = directory.begin;
    for (std::size_t i = 0; i < directory.count; ++i) {
        DEDLOC_TRY(Found found, read_entry(file, directory, at));
        at = found.next;
        if (!is_plain_name(found.path)) return no_script("an entry's name is no path");
        if (i == 0) folder = found.path.substr(0, found.path.find('/') + 1);
        if (folder.empty() || !found.path.starts_with(folder))
            return no_script("{} lies outside its folder", found.path);
        if (!names.insert(lower(found.path)).second)
            return no_script("{} is there twice", found.path);
        found.entry.name = found.path.substr(folder.size());
        DEDLOC_TRY_VOID(check_entry(found.entry));
        archive.entries_.push_back(std::move(found.entry));
    }
    if (at != directory.end) return no_script("its directory is longer than it says");
    if (!names.contains(lower(folder + "data.pkl")))
        return no_script("it has no data.pkl; write it with torch.jit.save");
    return archive;
}

Result<Bytes> ScriptArchive::unpack(const ScriptEntry& entry) {
    if (!entry.is_deflated) return base::to_bytes(entry.packed);
    Bytes out(entry.bytes);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return make_error(ErrorKind::local_fault, "zlib does not start");
    stream.next_in = const_cast<Bytef*>(entry.packed.data());
    stream.avail_in = static_cast<uInt>(entry.packed.size());
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    const int ended = inflate(&stream, Z_FINISH);
    const bool whole = ended == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
    inflateEnd(&stream);
    if (!whole) return no_script("{} does not unpack to the size that it says", entry.name);
    if (!has_checksum(out, entry.checksum)) return no_script("{} is damaged", entry.name);
    return out;
}

}  // namespace dedloc::tasks
