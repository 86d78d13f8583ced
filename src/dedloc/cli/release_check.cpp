#include "dedloc/cli/release_check.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "dedloc/security/hash.h"

namespace dedloc::cli {

namespace {

constexpr std::size_t hex_digits = 64;

Result<std::string> hash_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return make_error(ErrorKind::not_found, "{} cannot be read", path);
    security::Sha256 hash;
    std::vector<char> piece(1u << 20);
    while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
        hash.update(std::string_view(piece.data(), static_cast<std::size_t>(file.gcount())));
    if (file.bad()) return make_error(ErrorKind::local_fault, "{} cannot be read to its end", path);
    return hash.finish().hex();
}

// A line is "HASH  NAME", or "HASH *NAME".
bool is_line_of(std::string_view line, std::string_view name) {
    return line.size() == hex_digits + 2 + name.size() && line.ends_with(name) &&
           line[hex_digits] == ' ';
}

Result<std::string> expected_hash(const std::filesystem::path& sums, const std::string& name) {
    std::ifstream file(sums);
    if (!file)
        return make_error(ErrorKind::not_found,
                          "there is no {} that could be read: get it from the same release",
                          sums.string());
    std::string line;
    for (std::size_t bytes = 0; std::getline(file, line) && bytes < checksums_bytes_max;
         bytes += line.size())
        if (is_line_of(line, name)) return line.substr(0, hex_digits);
    return make_error(ErrorKind::not_found,
                      "{} says nothing of {}: they are of two releases, or the file has another "
                      "name now",
                      sums.string(),
                      name);
}

}  // namespace

Ok check_release_file(const std::string& path) {
    DEDLOC_TRY(const std::string found, hash_of(path));
    const std::filesystem::path file(path);
    DEDLOC_TRY(const std::string expected,
               expected_hash(file.parent_path() / checksums_file, file.filename().string()));
    if (found == expected) return {};
    return make_error(ErrorKind::conflict,
                      "{} is not the release's file: its SHA-256 is {}, and {} says {}; get it "
                      "again",
                      path,
                      found,
                      checksums_file,
                      expected);
}

}  // namespace dedloc::cli
