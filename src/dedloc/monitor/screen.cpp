#include "dedloc/monitor/screen.h"

#include <cerrno>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dedloc::monitor {
namespace {

constexpr std::string_view begin_picture = "\x1b[?2026h";  // synchronized output, where known
constexpr std::string_view end_picture = "\x1b[?2026l";
constexpr std::string_view hide_cursor = "\x1b[?25l";
constexpr std::string_view show_cursor = "\x1b[?25h";
constexpr std::string_view clear_to_line_end = "\x1b[K";
constexpr std::string_view clear_below = "\x1b[J";
constexpr std::string_view clear_all = "\x1b[H\x1b[2J";

bool is_set(const char* name) {
    const char* value = std::getenv(name);
    return value && *value;
}

bool locale_is_utf8() {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        if (!is_set(name)) continue;
        const std::string_view value = std::getenv(name);
        return value.find("UTF-8") != std::string_view::npos ||
               value.find("utf8") != std::string_view::npos;
    }
    return false;
}

}  // namespace

ScreenOptions screen_options_for(int descriptor, bool plain) {
    ScreenOptions options;
    const bool dumb = !is_set("TERM") || std::string_view(std::getenv("TERM")) == "dumb";
    options.in_place = !plain && !dumb && isatty(descriptor) == 1;
    options.colored = options.in_place && !is_set("NO_COLOR");
    options.look.unicode = locale_is_utf8();
    return options;
}

Screen::Screen(int descriptor, ScreenOptions options)
    : descriptor_(descriptor), options_(options) {}

Screen::~Screen() { release(); }

void Screen::write(std::string_view bytes) {
    while (!bytes.empty() && !broken_) {
        const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (written < 0) broken_ = true;
        if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

// To the first line of the picture; the lines themselves are written over or cleared later.
std::string Screen::erase_picture() {
    if (picture_.empty()) return {};
    return fmt::format("\x1b[{}F", picture_.size());
}

void Screen::show(const RunView& view) {
    if (options_.silent) return;
    if (!options_.in_place) {
        std::string text;
        for (const std::string& line : plain_lines(view, progress_)) text += line + '\n';
        write(text);
        return;
    }
    std::size_t width = 80;
    std::size_t height = 24;
    winsize size{};
    if (ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        width = size.ws_col;
        height = size.ws_row;
    }
    std::string out(begin_picture);
    if (!cursor_hidden_) out += hide_cursor;
    cursor_hidden_ = true;
    const bool resized = !picture_.empty() && (width != width_ || height != height_);
    out += resized ? std::string(clear_all) : erase_picture();
    width_ = width;
    height_ = height;
    // The last column stays free: a full line would wrap on some terminals. So does the last line.
    picture_ = render(view, width - 1, height - 1, options_.look);
    for (const Line& line : picture_) {
        out += to_text(line, options_.colored);
        out += clear_to_line_end;
        out += '\n';
    }
    out += clear_below;
    out += end_picture;
    write(out);
}

void Screen::say(std::string_view line) {
    if (options_.silent) return;
    if (!options_.in_place) progress_.said.emplace(line);
    if (!options_.in_place || picture_.empty()) {
        write(std::string(line) + '\n');
        return;
    }
    std::string out = std::string(begin_picture) + erase_picture();
    out += line;
    out += clear_to_line_end;
    out += '\n';
    for (const Line& old : picture_) {
        out += to_text(old, options_.colored);
        out += clear_to_line_end;
        out += '\n';
    }
    out += clear_below;
    out += end_picture;
    write(out);
}

void Screen::release() {
    picture_.clear();
    if (cursor_hidden_) write(show_cursor);
    cursor_hidden_ = false;
}

}  // namespace dedloc::monitor
