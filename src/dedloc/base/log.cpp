#include "dedloc/base/log.h"

#include <atomic>
#include <memory>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace dedloc::base {
namespace {

std::atomic<LogLevel> level_now{LogLevel::warning};

spdlog::logger& logger() {
    static const std::shared_ptr<spdlog::logger> instance = [] {
        auto made = std::make_shared<spdlog::logger>(
            "dedloc", std::make_shared<spdlog::sinks::stderr_sink_mt>());
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
    logger().log(to_spdlog(level), "{}: {}", room, text);
}

}  // namespace dedloc::base
