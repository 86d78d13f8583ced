#include "dedloc/peer/say.h"

#include <cerrno>

namespace dedloc::peer {
namespace {

int output_failed_with = 0;

void note_output_error(int error) {
    if (error != EPIPE) output_failed_with = error;
}

}  // namespace

void say_text(std::FILE* to, std::string_view text) {
    const bool is_written =
        std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
    if (!is_written && to == stdout) note_output_error(errno);
}

int output_error() {
    // Others print there, too: the help, the lab.
    if (std::fflush(stdout) != 0) note_output_error(errno);
    return output_failed_with;
}

}  // namespace dedloc::peer
