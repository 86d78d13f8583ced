#include "dedloc/cli/join_string_source.h"

#include <cerrno>
#include <cstring>

#include "dedloc/peer/peer_directory.h"
#include "dedloc/run/join_string.h"

namespace dedloc::cli {
namespace {

constexpr std::size_t text_bytes_max = 2 * run::join_string_bytes_max;  // with blanks

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

Result<std::string> join_string_from(const std::string& given, int standard_input) {
    if (given == "-") return line_of(standard_input);
    if (given.starts_with('@')) return peer::read_text_file(given.substr(1), text_bytes_max);
    return given;
}

}  // namespace dedloc::cli
