// The contents of a RunStore, behind its mutex, and the JSON of its parts: for the module's own
// files.
//
// Thread: whoever holds `mutex`, but for the inbox.

#pragma once
#include <nlohmann/json.hpp>

#include "dedloc/web/run_store.h"

namespace dedloc::web {

using Json = nlohmann::ordered_json;

struct Stretch {
    WallSeconds from = 0;
    WallSeconds to = 0;
    membership::Phase phase{};
    std::uint64_t tick = 0;  // when it changed last
};

struct RoundSeen {
    WallSeconds time = 0;
    events::StepMade step;
    std::optional<events::PlanMade> plan;  // where this peer led
};

struct PeerNotes {
    std::uint64_t number = 0;  // of the newest event about it
    std::string person;
    bool here = false;  // joined and not gone, by the events
    std::optional<events::Event> error;
    std::optional<events::Event> order;
    std::uint64_t made = 0;  // checks of it that this peer made
    std::uint64_t right = 0;
    std::uint64_t needed = 0;
    std::uint64_t disputed = 0;
};

struct RunStore::State {
    explicit State(RunFacts given) : facts(std::move(given)), why(facts.run) {}

    RunFacts facts;
    std::mutex mutex;
    std::condition_variable news;
    std::uint64_t changes = 0;
    std::uint64_t generation = 0;
    bool over = false;
    std::string end_reason;

    RunSnapshot snapshot;
    MeasuredTraffic traffic;
    std::uint64_t events_count = 0;
    std::deque<NumberedEvent> events;
    std::deque<NumberedEvent> notable;  // older than those in `events`
    std::map<std::string, Series> series;
    std::deque<RoundSeen> rounds;
    std::optional<events::PlanMade> plan;  // since the last step
    std::map<PeerId, std::deque<Stretch>> timeline;
    std::uint64_t tick = 0;
    std::map<PeerId, PeerNotes> notes;
    events::PeerNames names;
    // Samples by certificates: of steps up to `ledger_since` from disk, later ones from events.
    std::map<PeerId, double> ledger;
    double ledger_others = 0;                   // of peers beyond ledger_peers_max
    std::optional<std::uint64_t> ledger_first;  // the first step from events
    bool has_shares = false;
    monitor::Attendance attendance{ledger_peers_max};  // of the ledger's steps, but for those …
    monitor::Attendance earlier_attendance{ledger_peers_max};  // … that came too late to join them
    std::uint64_t steps_with_shares = 0;                       // from events
    std::deque<monitor::CertifiedStep> certified;              // the newest, for why
    monitor::RoundLimit limit;
    std::optional<events::StepMade> last_step;
    std::optional<events::Evaluated> evaluated;
    std::uint64_t steps_seen = 0;
    double samples_seen = 0;
    monitor::StepParts seconds_seen;
    std::map<std::string, std::uint64_t> kinds;

    monitor::WhyEvents why;
    Json why_json;      // of the newest explanation; null: there is none
    double why_at = 0;  // steady seconds
    std::uint64_t why_steps = 0;

    // The newest texts, until something changes.
    struct Text {
        std::uint64_t made_at = 0;
        std::string json;
    };
    std::map<std::string_view, Text> texts;

    std::mutex inbox_mutex;
    std::deque<events::Event> inbox;
    std::uint64_t inbox_lost = 0;

    // The callers of all of these hold `mutex`.
    void take_in();
    void add(const events::Event& event);
    // The ledger's entry of a peer grows.
    void credit(const PeerId& peer, double samples);
    // Steps before those from events.
    void attend_before(const std::vector<monitor::CertifiedStep>& earlier);
    double seconds_of(const PeerId& peer) const {
        return attendance.seconds_of(peer) + earlier_attendance.seconds_of(peer);
    }
    void changed() { ++changes; }
    Version version() const {
        return {.changes = changes, .generation = generation, .over = over, .tick = tick};
    }
    std::string name_of(const PeerId& peer) const { return names.of(peer); }

  private:
    void number(const events::Event& event);
    void add_step(const events::Event& event, const events::StepMade& step);
    void add_shares(const events::Event& event, const events::StepMade& step);
    void note(const events::Event& event);
    PeerNotes& notes_of(const PeerId& peer);
    void point(const char* name, WallSeconds time, std::uint64_t step, double value);
};

// Finite numbers alone; null else.
Json number_or_null(double value);
// The words of `dedloc why --json`, its seconds in an object of their own.
Json json_of(const monitor::Why& why);
Json json_of(const ReplayAt& at);
Json run_json_of(const RunStore::State& state);
Json peers_json_of(const RunStore::State& state);
Json series_json_of(const RunStore::State& state);
Json rounds_json_of(const RunStore::State& state);
Json flows_json_of(const RunStore::State& state);
Json stretches_json(const std::deque<Stretch>& stretches, std::uint64_t later_than);

}  // namespace dedloc::web
