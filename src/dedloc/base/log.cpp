#include "dedloc/base/log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "dedloc/base/log_sink.h"
#include "dedloc/base/printable.h"

namespace dedloc::base {
namespace {

std::atomic<LogLevel> level_now{LogLevel::warning};

// Standard error opened once more, only for us: there a write that would wait is told so, and who
// else has the descriptor notices nothing. -1: it cannot be (a terminal of another user).
int open_standard_error() {
    return ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// Where that cannot be, a short piece does not wait if there is room at all.
ssize_t write_if_ready(std::string_view text) {
    constexpr std::size_t piece_bytes = 256;
    pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return 0;
    return ::write(STDERR_FILENO, text.data(), std::min(text.size(), piece_bytes));
}

// As write(); looks at what standard error is now each time, as others may redirect it.
ssize_t write_without_waiting(std::string_view text) {
    struct stat status {};
    if (::fstat(STDERR_FILENO, &status) != 0) return -1;
    if (S_ISSOCK(status.st_mode))
        return ::send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // Files take what they are given, and opened once more they would be written from their start.
    if (!S_ISFIFO(status.st_mode) && isatty(STDERR_FILENO) != 1)
        return ::write(STDERR_FILENO, text.data(), text.size());
    const int own = open_standard_error();
    if (own < 0) return errno == ENXIO ? 0 : write_if_ready(text);  // ENXIO: nobody reads
    const ssize_t written = ::write(own, text.data(), text.size());
    ::close(own);
    return written;
}

// Lines on standard error, for which nobody waits: who logs may be the network thread, and a
// terminal may take nothing for hours (ssh while the lid is closed). What it does not take is
// missing, and it is said how much as soon as it takes something again.
class StandardError {
  public:
    void say(std::string_view line) {
        if (missing_ > 0 &&
            put(fmt::format("log lines missing here: {} (standard error took nothing)\n",
                            missing_)))
            missing_ = 0;
        if (missing_ > 0 || !put(line)) ++missing_;
    }

  private:
    // False: nothing of it is written. What is begun is ended before anything else.
    bool put(std::string_view text) {
        rest_.erase(0, take(rest_));
        if (!rest_.empty()) return false;
        const std::size_t taken = take(text);
        if (taken > 0) rest_ = text.substr(taken);
        return taken > 0;
    }
    // How many bytes of it were written.
    static std::size_t take(std::string_view text) {
        std::size_t taken = 0;
        while (taken < text.size()) {
            const ssize_t written = write_without_waiting(text.substr(taken));
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) break;
            taken += static_cast<std::size_t>(written);
        }
        return taken;
    }

    std::string rest_;
    std::uint64_t missing_ = 0;
};

// Standard error, or who took the lines.
class LogOutput final : public spdlog::sinks::base_sink<std::mutex> {
  public:
    void give_to(LogTaker taker) {
        const std::lock_guard lock(mutex_);
        taker_ = std::move(taker);
    }

  private:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        if (taker_)
            taker_(std::string(line.data(), line.size() - 1));  // without its end
        else
            standard_error_.say({line.data(), line.size()});
    }
    void flush_() override {}

    LogTaker taker_;
    StandardError standard_error_;
};

const std::shared_ptr<LogOutput>& output() {
    static const auto instance = std::make_shared<LogOutput>();
    return instance;
}

spdlog::logger& logger() {
    static const std::shared_ptr<spdlog::logger> instance = [] {
        auto made = std::make_shared<spdlog::logger>("dedloc", output());
        made->set_level(spdlog::level::trace);
        made->set_pattern("%H:%M:%S.%e %L %v");
        return made;
    }();
    return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return spdlog::level::debug;
        case LogLevel::info:
            return spdlog::level::info;
        case LogLevel::warning:
            return spdlog::level::warn;
        default:
            return spdlog::level::err;
    }
}

}  // namespace

void set_log_level(LogLevel level) { level_now.store(level, std::memory_order_relaxed); }
LogLevel log_level() { return level_now.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view room, std::string_view text) {
    logger().log(to_spdlog(level), "{}: {}", room, printable_lines(text));
}

void give_log_lines_to(LogTaker taker) { output()->give_to(std::move(taker)); }

}  // namespace dedloc::base
