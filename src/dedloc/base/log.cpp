#include "dedloc/base/log.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "dedloc/base/log_sink.h"
#include "dedloc/base/printable.h"

namespace dedloc::base {
namespace {

std::atomic<LogLevel> level_now{LogLevel::warning};

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
            std::fwrite(line.data(), 1, line.size(), stderr);
    }
    void flush_() override { std::fflush(stderr); }

    LogTaker taker_;
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
        made->flush_on(spdlog::level::trace);
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
