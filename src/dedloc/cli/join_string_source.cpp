#include "dedloc/cli/join_string_source.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dedloc/peer/peer_directory.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {
namespace {

constexpr std::size_t text_bytes_max = 2 * run::join_string_bytes_max;  // with blanks
// Examples call a peer's folder so; no join string begins like that.
constexpr std::string_view peers_name = "dedloc-";

// Byte by byte: what comes after the line is somebody else's.
Result<std::string> line_of(int file) {
    std::string line;
    for (char next = 0;;) {
        const ssize_t count = ::read(file, &next, 1);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0)
            return make_error(
                ErrorKind::bad_input, "cannot read standard input: {}", std::strerror(errno));
        if (count == 0 || next == '\n') break;
        line += next;
        if (line.size() > text_bytes_max)
            return make_error(ErrorKind::bad_input,
                              "the first line of standard input is too long for a join string");
    }
    if (line.empty())
        return make_error(ErrorKind::bad_input,
                          "'-' takes the join string from standard input, and there is none");
    return line;
}

}  // namespace

Result<JoinArgument> join_argument_from(const std::string& given, int standard_input) {
    JoinArgument meant{.text = given, .directory = {}};
    std::error_code error;
    if (given == "-") {
        DEDLOC_TRY(meant.text, line_of(standard_input));
    } else if (given.starts_with('@')) {
        DEDLOC_TRY(meant.text, peer::read_text_file(given.substr(1), text_bytes_max));
    } else if (std::filesystem::is_directory(given, error)) {
        DEDLOC_TRY(meant.text, peer::way_back_of(given));
        meant.directory = given;
    } else if (std::filesystem::is_regular_file(given, error)) {
        return make_error(
            ErrorKind::bad_input, "{} is a file: write @{} for what stands in it", given, given);
    } else if (given.find('/') != std::string::npos || given.starts_with(peers_name)) {
        return make_error(
            ErrorKind::bad_input, "{}: there is no such folder, and it is no join string", given);
    }
    return meant;
}

}  // namespace dedloc::cli
