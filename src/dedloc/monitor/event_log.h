// The event log: what happened in a run, one JSON object a line (docs/events.md), and the sinks
// that stand between the engine and whoever wants to know.
//
// record() is called on the network thread and never waits: it queues, a thread of the log writes.
// A queue that is full (a disk that hangs) drops events and says afterwards how many.
//
// Errors: local_fault when the file cannot be opened; later failures (disk full) stop the log with
// one warning, because training must go on. Thread: record() any; the rest the owner's.

#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/collab/events.h"

namespace dedloc::monitor {

inline constexpr std::size_t queued_events_max = 4096;
inline constexpr std::size_t recent_events_max = 256;
inline constexpr std::size_t event_line_bytes_max = 64 * 1024;

// One line without its end: {"time":…,"kind":…,"peer":…,"step":…,"text":…,"fields":{…}}.
// Bytes that are not UTF-8 are replaced; numbers that JSON does not know become null.
std::string to_json_line(const collab::Event& event);
// The way back, for replay and tools. Errors: bad_input.
Result<collab::Event> event_from_json_line(std::string_view line);

class EventLog final : public collab::EventSink {
  public:
    // Appends to `path`.
    static Result<std::unique_ptr<EventLog>> open(const std::string& path);
    ~EventLog() override;  // writes what is queued
    EventLog(const EventLog&) = delete;
    EventLog& operator=(const EventLog&) = delete;

    void record(const collab::Event& event) override;
    void flush();  // returns when all that was recorded before is handed to the system

    struct State;

  private:
    explicit EventLog(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Keeps events until somebody on another thread takes them; the oldest give way.
class EventMailbox final : public collab::EventSink {
  public:
    void record(const collab::Event& event) override;
    std::vector<collab::Event> take();  // what came since the last take, oldest first

  private:
    std::mutex mutex_;
    std::deque<collab::Event> events_;
};

// Gives every event to all of its sinks, which must outlive it.
class EventFan final : public collab::EventSink {
  public:
    explicit EventFan(std::vector<collab::EventSink*> sinks) : sinks_(std::move(sinks)) {}
    void record(const collab::Event& event) override {
        for (collab::EventSink* sink : sinks_) sink->record(event);
    }

  private:
    std::vector<collab::EventSink*> sinks_;
};

}  // namespace dedloc::monitor
