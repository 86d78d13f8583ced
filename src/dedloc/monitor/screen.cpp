#include "dedloc/monitor/screen.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dedloc/base/log.h"
#include "dedloc/base/log_sink.h"
#include "dedloc/monitor/legend.h"

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

// Up to the first line of a picture.
std::string up_to_picture(const std::vector<Line>& picture) {
    return picture.empty() ? std::string() : fmt::format("\x1b[{}F", picture.size());
}

// The same terminal or pipe, opened once more: there a write that would wait is told so, and who
// else has the descriptor notices nothing. -1: it cannot be.
int open_without_waiting(int descriptor) {
    struct stat status {};
    const bool waits =
        isatty(descriptor) == 1 || (::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode));
    if (!waits) return -1;
    const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
    return ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool takes_bytes(int descriptor, std::chrono::milliseconds timeout) {
    pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
    return ::poll(&ready, 1, static_cast<int>(timeout.count())) == 1;
}

// Nobody reads what we write any more; all else may pass, as a full disk does.
bool is_for_good(int error) { return error == EPIPE || error == EIO || error == EBADF; }

winsize terminal_size(int descriptor) {
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
        return size;
    size.ws_col = 80;
    size.ws_row = 24;
    return size;
}

}  // namespace

ScreenOptions screen_options_for(int descriptor, bool plain) {
    ScreenOptions options;
    const bool dumb = !is_set("TERM") || std::string_view(std::getenv("TERM")) == "dumb";
    options.in_place = !plain && !dumb && isatty(descriptor) == 1;
    options.colored = options.in_place && !is_set("NO_COLOR");
    options.charset.unicode = locale_is_utf8();
    options.takes_log = options.in_place && isatty(STDERR_FILENO) == 1;
    options.keys = options.in_place ? STDIN_FILENO : -1;
    return options;
}

Screen::Screen(int descriptor, ScreenOptions options)
    : descriptor_(descriptor),
      own_descriptor_(open_without_waiting(descriptor)),
      options_(options),
      keys_(options.keys),
      broken_(descriptor < 0) {}

Screen::~Screen() {
    release();
    if (own_descriptor_ >= 0) ::close(own_descriptor_);
}

// A line that was begun stays torn: what comes next begins a line of its own.
void Screen::drop_unwritten(int why) {
    unwritten_.clear();
    torn_ = mid_line_;
    if (full_) return;
    full_ = true;
    log(LogLevel::warning,
        "monitor",
        "standard output cannot be written: {}; until it can, lines are missing in it",
        std::strerror(why));
}

// Bytes that were not taken before come first. True: nothing is left.
bool Screen::write(std::string_view bytes) {
    if (torn_ && !bytes.empty()) unwritten_ += '\n';
    if (!bytes.empty()) torn_ = false;
    unwritten_ += bytes;
    const int to = own_descriptor_ >= 0 ? own_descriptor_ : descriptor_;
    while (!unwritten_.empty() && !broken_) {
        if (!takes_bytes(to, {})) return false;
        const ssize_t written = ::write(to, unwritten_.data(), unwritten_.size());
        if (written > 0) {
            const auto size = static_cast<std::size_t>(written);
            mid_line_ = unwritten_[size - 1] != '\n';
            unwritten_.erase(0, size);
            // A part that fits does not mean that there is room again.
            full_ = full_ && !unwritten_.empty();
            continue;
        }
        const int error = errno;
        if (written == 0 || error == EINTR) continue;
        if (error == EAGAIN) return false;
        if (is_for_good(error))
            broken_ = true;
        else
            drop_unwritten(error);
    }
    unwritten_.clear();
    return true;
}

// With the lines that wait.
void Screen::write_last_words(Wait wait) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + last_words_timeout;
    const int to = own_descriptor_ >= 0 ? own_descriptor_ : descriptor_;
    while (!write() || !write(kept_lines(""))) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        if (wait == Wait::endless) left = last_words_timeout;
        if (left.count() <= 0) return;
        (void)takes_bytes(to, left);
    }
}

void Screen::keep_line(std::string line) {
    const std::lock_guard lock(lines_mutex_);
    if (lines_.size() >= waiting_lines_max) lines_.pop_front();
    lines_.push_back(std::move(line));
}

std::string Screen::kept_lines(std::string_view line_end) {
    const std::lock_guard lock(lines_mutex_);
    std::string out;
    for (const std::string& line : lines_) {
        for (const char letter : line) {  // what is said may itself have several lines
            if (letter == '\n') out += line_end;
            out += letter;
        }
        out.append(line_end).append(1, '\n');
    }
    lines_.clear();
    return out;
}

// The picture, and above it, where they stay, the lines that wait. `begin` brings the cursor there;
// what stood there is written over or cleared.
void Screen::draw(std::string_view begin) {
    std::string out(begin_picture);
    if (!cursor_hidden_) out += hide_cursor;
    cursor_hidden_ = true;
    out += begin;
    out += kept_lines(clear_to_line_end);
    for (const Line& line : picture_) {
        out += to_text(line, options_.colored);
        out += clear_to_line_end;
        out += '\n';
    }
    out += clear_below;
    out += end_picture;
    write(out);
}

void Screen::show(const RunView& view) {
    if (options_.silent || !write()) return;
    std::string plain;
    for (const std::string& line : plain_lines(view, progress_)) plain += line + '\n';
    const winsize size = terminal_size(descriptor_);
    const bool resized = !picture_.empty() && (size.ws_col != width_ || size.ws_row != height_);
    width_ = size.ws_col;
    height_ = size.ws_row;
    // The last column stays free: a full line would wrap on some terminals. So does the last line.
    const bool is_small = width_ <= view_width_min || height_ <= view_height_min;
    if (!options_.in_place || is_small) {
        if (!picture_.empty()) write(clear_all);
        leave_picture();
        write(kept_lines("") + plain);
        return;
    }
    if (options_.takes_log && !has_log_)
        base::give_log_lines_to([this](std::string line) { keep_line(std::move(line)); });
    has_log_ = options_.takes_log;
    const std::string begin = resized ? std::string(clear_all) : up_to_picture(picture_);
    look_at_keys();
    const std::string_view hint = keys_.are_there() ? "?: legend" : "";
    picture_ = shows_legend_ ? legend(width_ - 1, height_ - 1)
                             : render(view, width_ - 1, height_ - 1, options_.charset, hint);
    draw(begin);
}

// Any key ends the legend: who does not know the keys gets back, too.
void Screen::look_at_keys() {
    for (const char key : keys_.take())
        if (shows_legend_ || key == legend_key) shows_legend_ = !shows_legend_;
}

void Screen::say(std::string_view line) {
    if (options_.silent) return;
    progress_.said.emplace(line);
    keep_line(std::string(line));
    if (picture_.empty())
        write_last_words(Wait::brief);
    else if (write())
        draw(up_to_picture(picture_));
}

void Screen::leave_picture() {
    if (has_log_) base::give_log_lines_to({});
    has_log_ = false;
    if (cursor_hidden_) unwritten_ += show_cursor;
    cursor_hidden_ = false;
    keys_.close();
    picture_.clear();
}

void Screen::release() {
    if (options_.silent) return;
    leave_picture();
    const bool is_terminal = isatty(descriptor_) == 1;
    write_last_words(is_terminal ? Wait::brief : Wait::endless);
}

void Screen::print(std::string_view line) {
    leave_picture();
    keep_line(std::string(line));
    write_last_words(Wait::endless);
}

}  // namespace dedloc::monitor
