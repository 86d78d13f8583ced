// EventStream: what one viewer is sent as server-sent events (docs/spec/web.md). It holds a place
// in the store's events and no queue: a viewer that is too slow for them is told of the gap.
//
//   EventStream stream(store, after);
//   std::string text = stream.take(now);    // empty: nothing is new, or not yet due
//
// Thread: one. Limits: an answer holds at most stream_events_max events.

#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dedloc/web/run_store.h"

namespace dedloc::web {

inline constexpr std::size_t stream_events_max = 256;
inline constexpr double stream_run_s = 0.5;
inline constexpr double stream_peers_s = 1;
inline constexpr double stream_flows_s = 2;
inline constexpr double stream_timeline_s = 1;
inline constexpr double stream_comment_s = 10;

class EventStream {
  public:
    // `after`: the number of the last event that the viewer has; nothing: those to come.
    EventStream(RunStore& store, std::optional<std::uint64_t> after);

    // `now`: steady seconds.
    std::string take(double now);
    // Has the stream said that the run is over?
    bool is_over() const { return over_; }
    std::uint64_t seen_changes() const { return changes_; }

  private:
    struct Told {
        double at = -1e9;
        std::string text;
    };
    void add_events(std::string& text);
    template <typename Make>
    void add_state(std::string& text, const char* name, Told& told, double every, Make make);

    RunStore& store_;
    std::uint64_t after_ = 0;
    std::uint64_t changes_ = 0;
    std::uint64_t generation_ = 0;
    std::uint64_t tick_ = 0;
    double now_ = 0;
    double said_at_ = -1e9;
    Told run_;
    Told peers_;
    Told flows_;
    double timeline_at_ = -1e9;
    bool over_ = false;
    bool owed_ = false;  // something changed, and its time to be told has not come
};

}  // namespace dedloc::web
