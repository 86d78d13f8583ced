#include "dedloc/base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace dedloc::base {

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
    std::error_code status;
    if (std::filesystem::is_directory(path, status))
        return make_error(ErrorKind::bad_input, "{} is a folder, not a file", path);
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return make_error(ErrorKind::not_found, "cannot read {}: {}", path, std::strerror(errno));
    std::string content;
    std::string piece(std::min<std::size_t>(bytes_max + 1, 1u << 20), '\0');
    while (file && content.size() <= bytes_max) {
        file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
        content.append(piece, 0, static_cast<std::size_t>(file.gcount()));
    }
    if (file.bad()) return make_error(ErrorKind::local_fault, "cannot read all of {}", path);
    if (content.size() > bytes_max)
        return make_error(ErrorKind::bad_input, "{} is larger than {} bytes", path, bytes_max);
    return content;
}

}  // namespace dedloc::base
