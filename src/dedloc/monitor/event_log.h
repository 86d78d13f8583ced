// The event log: what happened in a run, one JSON object a line (docs/events.md), and the sinks
// that stand between the engine and whoever wants to know.
//
// record() is called on the network thread and never waits: it queues, a thread of the log writes.
// A line that cannot be written (a full disk) or queued (a disk that hangs) is missing, and the log
// says where and how many, as soon as it can; every batch is tried. Lines in the file are whole: a
// torn one at its end is cut off before anything is appended.
//
// A run goes on for weeks: a file that is full is kept as events.1.jsonl, in place of the one
// before it, and the log goes on in a new one.
//
// Errors: local_fault when the file cannot be opened; later failures are a warning, because
// training must go on. Thread: record() any; the rest the owner's.

#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/events/events.h"

namespace dedloc::monitor {

inline constexpr std::size_t queued_events_max = 4096;
inline constexpr std::size_t recent_events_max = 256;
inline constexpr std::size_t event_line_bytes_max = 64 * 1024;
// Some 300,000 lines; there are two such files at most.
inline constexpr std::uint64_t event_file_bytes_max = std::uint64_t{64} << 20;

// One line without its end: {"time":…,"kind":…,"peer":…,"step":…,"text":…,"fields":{…}}.
// Bytes that are not UTF-8 are replaced; numbers that JSON does not know become null.
std::string to_json_line(const events::Event& event);
// The way back, for replay and tools. Errors: bad_input.
Result<events::Event> event_from_json_line(std::string_view line);

// Where the full file of the log `path` is kept: events.1.jsonl of events.jsonl.
std::string full_event_file(const std::string& path);

class EventLog final : public events::EventSink {
  public:
    // Appends to `path`.
    static Result<std::unique_ptr<EventLog>> open(const std::string& path,
                                                  std::uint64_t file_bytes = event_file_bytes_max);
    ~EventLog() override;  // writes what is queued
    EventLog(const EventLog&) = delete;
    EventLog& operator=(const EventLog&) = delete;

    void record(const events::Event& event) override;
    void flush();  // returns when all that was recorded before is handed to the system

    struct State;

  private:
    explicit EventLog(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// Keeps events until somebody on another thread takes them; the oldest give way.
class EventMailbox final : public events::EventSink {
  public:
    void record(const events::Event& event) override;
    std::vector<events::Event> take();  // what came since the last take, oldest first

  private:
    std::mutex mutex_;
    std::deque<events::Event> events_;
};

// Gives every event to all of its sinks, which must outlive it.
class EventFan final : public events::EventSink {
  public:
    explicit EventFan(std::vector<events::EventSink*> sinks) : sinks_(std::move(sinks)) {}
    void record(const events::Event& event) override {
        for (events::EventSink* sink : sinks_) sink->record(event);
    }

  private:
    std::vector<events::EventSink*> sinks_;
};

}  // namespace dedloc::monitor
