// RunStore: a run as the web page, /metrics and scripts see it (docs/spec/web.md), made from the
// events that the log has, and from what peers' statuses say. Bounded, however long a run goes on.
//
//   RunStore store(facts);
//   store.record(event);          // any thread; queued
//   store.update(look);           // the owner's, a few times a second: takes in what is queued
//   store.run_json();             // any thread
//
// Numbers are the events' own. Contributions, for how long who took part, and who gave what to whom
// are those of certificates, and what this peer's connections carried; never what a peer says of
// itself.
//
// Thread: any, but update() and end(), which are the owner's. Cost: an update O(peers), an event
// O(members); texts are made where somebody asks, once for all who ask until something changes.
// Limits: below.

#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dedloc/events/events.h"
#include "dedloc/events/peer_names.h"
#include "dedloc/experts/grid_view.h"
#include "dedloc/membership/status.h"
#include "dedloc/monitor/attendance.h"
#include "dedloc/monitor/run_history.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/monitor/why.h"
#include "dedloc/run/run_file.h"
#include "dedloc/web/measured_traffic.h"
#include "dedloc/web/series.h"
#include "dedloc/web/sheets.h"

namespace dedloc::web {

inline constexpr std::size_t kept_events_max = 1024;
inline constexpr std::size_t kept_notable_max = 512;  // beyond those: the newest not routine
inline constexpr std::size_t event_bytes_max = 4096;
inline constexpr std::size_t inbox_events_max = 4096;
inline constexpr std::size_t kept_rounds_max = 200;
inline constexpr std::size_t stretches_max = 256;  // of a peer's timeline
inline constexpr std::size_t noted_peers_max = 1024;
inline constexpr std::size_t ledger_peers_max = 4096;
inline constexpr std::size_t flow_members_max = 32;  // of a step: beyond them flows are a thicket
inline constexpr double why_again_s = 15;

enum class Mode { peer, watch, replay };

struct RunFacts {
    Mode mode = Mode::peer;
    std::string version;
    run::RunFile run;
    PeerId us{};  // empty: a watcher's
    WallSeconds started = 0;
    std::vector<std::string> may{};  // actions
    double vector_bytes = 0;         // of an average, encoded; 0: not known
};

struct ReplayAt {
    WallSeconds from = 0;
    WallSeconds to = 0;
    WallSeconds at = 0;
    double speed = 1;
    bool playing = true;
};

// The run at one moment, as its owner sees it.
struct RunSnapshot {
    monitor::RunView view{};
    std::vector<membership::Status> statuses{};
    WallSeconds now = 0;
    double up_mbit = 0;
    double down_mbit = 0;
    bool paused = false;
    std::optional<experts::GridSeen> grid{};
    Sheets sheets{};  // what became of prompts so far
    std::optional<ReplayAt> replay{};
    std::vector<Carried> carried{};  // by this peer's connections; an observer has none
};

class RunStore final : public events::EventSink {
  public:
    explicit RunStore(RunFacts facts);
    ~RunStore() override;

    void record(const events::Event& event) override;
    void update(RunSnapshot snapshot);
    // Contributions of steps before this process, from certificates on disk.
    void add_history(const monitor::RunHistory& history);
    // Forgets all but the facts: a replay begins anew.
    void reset();
    // The process ends in order; streams are told.
    void end(std::string reason);
    // A run is known later than a server is started for it.
    void set_vector_bytes(double bytes);

    std::string run_json();
    std::string peers_json();
    std::string series_json();
    std::string rounds_json();
    std::string flows_json();
    std::string events_json(std::uint64_t after, std::size_t limit);
    // Stretches that changed since `tick` (Version), which becomes the present one; empty: none.
    std::string timeline_json(std::uint64_t& tick);

    struct NumberedEvent {
        std::uint64_t number = 0;
        bool is_routine = false;
        std::string json;
    };
    // Later than `after`, at most `limit`; and the number of the oldest that is kept.
    struct Events {
        std::uint64_t oldest = 0;
        std::uint64_t newest = 0;
        std::vector<NumberedEvent> events{};
    };
    Events events_after(std::uint64_t after, std::size_t limit);

    // Grows with every change; what it was when a viewer looked tells whether there is news.
    struct Version {
        std::uint64_t changes = 0;
        std::uint64_t generation = 0;  // of reset()
        bool over = false;
        std::uint64_t tick = 0;  // of update()
    };
    Version version();
    // Returns when there is news since `changes`, or after `seconds`.
    Version wait_for_news(std::uint64_t changes, double seconds);
    std::string end_reason();

    // For /metrics.
    struct Sums {
        RunFacts facts;
        monitor::RunView view;
        std::optional<events::StepMade> last;
        WallSeconds last_at = 0;
        std::optional<events::Evaluated> evaluated;
        std::uint64_t steps = 0;  // events
        double samples = 0;
        monitor::StepParts seconds{};  // of those steps
        double up_mbit = 0;
        double down_mbit = 0;
        bool paused = false;
        std::map<std::string, std::uint64_t> events{};  // by kind
        std::size_t banned = 0;
        std::vector<membership::Status> statuses{};
    };
    Sums sums();

    struct State;

  private:
    std::unique_ptr<State> state_;
};

}  // namespace dedloc::web
