// Handle: what stands behind dedloc_loop, and what the functions of the C interface share.
//
// Thread: as dedloc.h says.

#pragma once
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "dedloc/c_api/dedloc.h"
#include "dedloc/c_api/loop_page.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/train/session.h"
#include "dedloc/train/span_model.h"

namespace dedloc::c_api {

// A notebook that is not looked at reads none.
inline constexpr std::size_t kept_events_max = 1024;

inline int report(const Error& error, dedloc_error* out) {
    if (out == nullptr) return 0;
    out->kind = static_cast<std::int32_t>(error.kind()) + 1;
    const std::string& message = error.message();
    const std::size_t count = std::min(message.size(), sizeof(out->message) - 1);
    std::memcpy(out->message, message.data(), count);
    out->message[count] = 0;
    return 0;
}

// Nothing is thrown across the C interface.
template <typename Work>
int guarded(dedloc_error* error, int failed, Work&& work) {
    try {
        return work();
    } catch (const std::exception& failure) {
        report(Error(ErrorKind::cannot_compute, failure.what()), error);
        return failed;
    }
}

inline std::size_t write_text(const std::string& text, char* out, std::size_t size) {
    if (size > 0) {
        const std::size_t count = std::min(text.size(), size - 1);
        std::memcpy(out, text.data(), count);
        out[count] = 0;
    }
    return text.size();
}

// The newest events, for whoever asks.
class EventQueue final : public events::EventSink {
  public:
    void record(const events::Event& event) override {
        std::string line = monitor::to_json_line(event);
        const std::lock_guard lock(mutex_);
        if (lines_.size() >= kept_events_max) lines_.pop_front();
        lines_.push_back(std::move(line));
    }
    std::size_t next(char* out, std::size_t size) {
        const std::lock_guard lock(mutex_);
        if (lines_.empty()) return 0;
        const std::size_t count = write_text(lines_.front(), out, size);
        if (count < size) lines_.pop_front();
        return count;
    }

  private:
    std::mutex mutex_;
    std::deque<std::string> lines_;
};

}  // namespace dedloc::c_api

struct dedloc_loop {
    // The sinks outlive the loop, which tells them.
    dedloc::c_api::EventQueue events;
    dedloc::c_api::PageEvents page_events;
    dedloc::monitor::EventFan told{{&events, &page_events}};
    std::string directory;
    dedloc::train::SpanModel* in_memory = nullptr;
    std::size_t tensors_count = 0;
    std::size_t trained_count = 0;
    std::unique_ptr<dedloc::train::LoopSession> session;
    std::unique_ptr<dedloc::c_api::LoopPage> page;  // null: nobody asked for it
};
