#include "dedloc/text/king_james.h"

#include <filesystem>

#include "dedloc/base/file.h"
#include "dedloc/runtime/child_process.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/sentences.h"

namespace dedloc::text {

namespace {

constexpr std::size_t printed_bytes_max = 16u << 20;  // it prints 4.3 MB
constexpr double seconds_max = 60;                    // it takes 0.1 s

struct Counts {
    std::uint32_t chapters = 0;
    std::uint32_t verses = 0;
};

Counts count(std::string_view text) {
    Counts counts;
    bool inside = false;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const bool verse = end > 0;
        if (verse) ++counts.verses;
        if (verse && !inside) ++counts.chapters;
        inside = verse;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return counts;
}

bool whole(std::string_view text) {
    const Counts counts = count(text);
    return counts.chapters == king_james_chapters && counts.verses == king_james_verses;
}

Result<std::string> print(const std::string& program, const std::string& cache_directory) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(program, error))
        return make_error(ErrorKind::not_found,
                          "there is no {}; the King James Bible comes with a Debian package: sudo "
                          "apt-get install bible-kjv",
                          program);
    DEDLOC_TRY(const ScratchFolder scratch, ScratchFolder::make(cache_directory));
    DEDLOC_TRY(auto child,
               runtime::ChildProcess::start({.command = {program, "-l100000", "gen1:1-rev22:21"},
                                             .output_file = scratch.file("out"),
                                             .error_file = scratch.file("err")}));
    if (!child.wait_for(seconds_max))
        return make_error(
            ErrorKind::local_fault, "{} did not end within {:.0f} s", program, seconds_max);
    if (child.end()->exit_code != 0 || child.end()->signal != 0)
        return make_error(ErrorKind::local_fault,
                          "{} failed with exit code {}; install its text anew with: sudo apt-get "
                          "install --reinstall bible-kjv bible-kjv-text",
                          program,
                          child.end()->exit_code);
    return base::read_file(scratch.file("out"), printed_bytes_max);
}

}  // namespace

// Lines are blank, "Genesis 1", or a verse: two spaces, its number, a space, its words.
Result<std::string> king_james_text(std::string_view printed) {
    std::string text;
    text.reserve(printed.size());
    while (!printed.empty()) {
        const std::size_t end = std::min(printed.find('\n'), printed.size());
        std::string_view line = printed.substr(0, end);
        printed.remove_prefix(std::min(end + 1, printed.size()));
        if (line.empty()) continue;
        if (!line.starts_with("  ")) {  // a chapter begins
            if (!text.empty()) text += '\n';
            continue;
        }
        line = without_surrounding_space(line);
        line.remove_prefix(std::min(line.find_first_not_of("0123456789"), line.size()));
        line = without_surrounding_space(line);
        if (line.empty()) continue;
        text += line;
        text += '\n';
    }
    if (!whole(text)) {
        const Counts counts = count(text);
        return make_error(ErrorKind::local_fault,
                          "the King James Bible here has {} chapters and {} verses instead of {} "
                          "and {}; install it anew with: sudo apt-get install --reinstall "
                          "bible-kjv bible-kjv-text",
                          counts.chapters,
                          counts.verses,
                          king_james_chapters,
                          king_james_verses);
    }
    return text;
}

Result<std::string> king_james_bible(const std::string& cache_directory,
                                     const std::string& program) {
    const std::string path = cache_directory + "/king-james-bible.txt";
    const auto is_there = [&] {
        const auto text = base::read_file(path, printed_bytes_max);
        return text && whole(*text);
    };
    if (is_there()) return path;
    const auto make = [&]() -> Ok {
        if (is_there()) return {};  // another peer made it meanwhile
        DEDLOC_TRY(const std::string printed, print(program, cache_directory));
        DEDLOC_TRY(const std::string text, king_james_text(printed));
        return write_file(path, text);
    };
    DEDLOC_TRY_VOID(alone_with(path, make));
    return path;
}

}  // namespace dedloc::text
