// SessionFiles: what a peer keeps in its folder for people and tools, as `dedloc join` does:
// events.jsonl (docs/events.md), and join.txt while it takes part.
//
// Thread: record() any; the rest the loop's. Errors: local_fault: events.jsonl cannot be opened. A
// join.txt that cannot be written is an event.

#pragma once
#include <memory>
#include <string>

#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/node.h"
#include "dedloc/events/events.h"
#include "dedloc/monitor/event_log.h"

namespace dedloc::train {

class SessionFiles final : public events::EventSink {
  public:
    // `next`: whom else events are told; may be null, outlives this.
    static Result<std::unique_ptr<SessionFiles>> open(const collab::Node& node,
                                                      const std::string& directory,
                                                      events::EventSink* next);
    ~SessionFiles() override { log_->flush(); }

    void record(const events::Event& event) override;
    // An event of the loop itself.
    void tell(events::Any what, std::uint64_t step, std::string text);
    // Every few seconds join.txt is written.
    void refresh_join_string(const collab::Collaboration& collaboration);
    void remove_join_string();

  private:
    SessionFiles(const collab::Node& node,
                 std::unique_ptr<monitor::EventLog> log,
                 events::EventSink* next);

    const collab::Node& node_;
    std::unique_ptr<monitor::EventLog> log_;
    events::EventSink* next_;
    TimePoint refresh_at_;
    bool is_written_ = false;
    bool failed_ = false;
};

}  // namespace dedloc::train
