// Events: what happened in a run, for people and for the event log (docs/events.md).
//
// The engine records; monitor writes JSON lines, draws the terminal view, and replays. Recording
// must be quick: sinks queue.

#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::collab {

struct Event {
    using Value = std::variant<std::int64_t, double, std::string>;
    using Fields = std::vector<std::pair<std::string, Value>>;

    WallSeconds time = 0;
    std::string kind;  // "step", "peer_joined", "peer_lost", "peer_left", "round_failed", …
    PeerId peer;       // whom it is about; empty: us
    std::uint64_t step = 0;
    std::string text;  // one sentence for people
    Fields fields;
};

class EventSink {
  public:
    virtual ~EventSink() = default;
    virtual void record(const Event& event) = 0;  // network thread; must not block
};

}  // namespace dedloc::collab
