// RunView: a run as a person wants to see it, made from what peers say (statuses) and from what
// happened (events). The terminal view draws it; a page or a log could as well.
//
//   RunModel model(facts, started);
//   model.add(event);                   // as they come
//   model.update(statuses, now);        // a few times a second
//   draw(model.view());
//
// Everything that came from a peer is bounded and stripped of control characters here, so that no
// name can move somebody's cursor. Where the run stands is what the middle one of its trainers
// says: among three or more no single claim moves it. Thread: one. Cost: O(peers) an update.

#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/printable.h"
#include "dedloc/events/events.h"
#include "dedloc/events/peer_names.h"
#include "dedloc/membership/status.h"
#include "dedloc/monitor/protection_line.h"
#include "dedloc/monitor/round_limit.h"
#include "dedloc/run/run_file.h"

namespace dedloc::monitor {

inline constexpr std::size_t view_losses_max = 512;
inline constexpr std::size_t view_events_max = 64;
inline constexpr double one_failure_seconds = 10;  // what follows from it comes within so long
inline constexpr std::size_t view_speed_steps_max = 10;  // of which the run's speed is the mean
inline constexpr std::size_t view_text_bytes_max = 500;
inline constexpr double gone_peer_seconds = 20;  // how long a lost peer keeps its line

enum class HashMark {
    none,       // nothing to compare with: no state yet, or nobody else is at this step
    equal,      // same as most peers at the same branch and step
    different,  // promise 1 is broken, or the peer is about to repair itself
};

struct PeerView {
    PeerId id;
    std::string name;  // never empty; unique in the view
    bool is_us = false;
    membership::Role role = membership::Role::trainer;
    std::string doing;  // "computing 63 %", "averaging", "resting", "lost 3 s ago"
    bool is_gone = false;
    bool is_banned = false;
    double samples_per_s = 0;
    double upload_bytes_per_s = 0;  // measured in rounds; 0: not yet
    double download_bytes_per_s = 0;
    double round_trip_s = 0;  // to its neighbours, the middle one; 0: not known
    std::uint64_t step = 0;
    Digest state_hash;
    HashMark mark = HashMark::none;
};

enum class Tone { neutral, good, bad };
Tone tone_of(const events::Event& event);
// Does such an event happen in every round?
bool is_routine(const events::Event& event);

struct EventView {
    std::uint64_t number = 0;  // 1, 2, … in the order they came
    double seconds = 0;        // since the view's start
    PeerId peer;               // whom it is about; empty: us
    std::string text;
    Tone tone = Tone::neutral;
    // Such an event happens in every round: the picture shows it already, a list need not.
    bool is_routine = false;
};

struct RunView {
    std::string name;
    Digest run;
    double seconds = 0;         // since the view's start
    std::uint64_t step = 0;     // of the trainers, the middle one
    std::uint64_t steps = 0;    // stop condition, 0 = none
    double accuracy_goal = 0;   // stop condition, 0 = none
    std::uint64_t samples = 0;  // accumulated towards the next step by all
    std::uint64_t target = 0;
    double samples_total = 0;   // in all steps of the branch
    double samples_per_s = 0;   // in the last steps; before there are two: that all compute
    double computed_per_s = 0;  // that all compute, rounds and waiting not counted
    double our_share = 0;       // of what all compute, 0 to 1; 0: we compute nothing
    double seconds_left = 0;    // until the stop condition at this speed; 0: not known
    double loss = 0;            // of the last step, the mean that all told; 0 = unknown
    bool loss_is_ours = false;  // others compute, and only what this peer handed in is known
    double accuracy = 0;
    std::uint64_t accuracy_step = 0;  // 0 = not evaluated yet
    std::vector<double> losses;       // of the last steps, oldest first
    std::vector<PeerView> peers;      // us first, then by name, the gone last
    std::vector<EventView> events;    // oldest first
    std::vector<std::string> more;    // lines under the peers, of an experts' grid
    std::string protection;           // of a robust run (protection_line.h), in one line
    std::string protection_standing;  // the part of it that seldom changes
    std::vector<std::string> bans;    // each in words, the newest first
    std::string limit;  // whose line limits rounds, in words; empty: others planned the newest

    std::size_t live_peers() const;
    std::size_t state_hashes() const;  // different ones among live peers of the newest step
};

class RunModel {
  public:
    // `us` is empty for a watcher.
    RunModel(const run::RunFile& run, PeerId us, WallSeconds started);

    void add(const events::Event& event);
    // The same words came within one_failure_seconds: what refuses a peer does so on each of its
    // connections.
    bool was_just_told(const events::Event& event) const;
    // Something that is no event of the run.
    void add_note(WallSeconds time, std::string text, Tone tone);
    void update(std::vector<membership::Status> statuses, WallSeconds now);
    RunView view() const;

  private:
    struct Gone {
        membership::Status last;
        WallSeconds since = 0;
        bool left = false;  // in order
    };
    void add_line(EventView line);
    bool is_of_a_failure_that_was_told(const events::Event& event);
    struct Committed {
        WallSeconds at = 0;
        double samples = 0;
    };
    struct StepLoss {
        double mean = 0;
        bool is_ours = false;  // of what this peer handed in alone
    };
    void remember_gone(const std::vector<membership::Status>& statuses, WallSeconds now);
    void note_step();
    void note_samples(double samples);
    void note_loss();
    void note_our_loss(std::uint64_t step, double loss);
    void note_loss_of(std::uint64_t step);
    void put_losses(RunView& view) const;
    void note_accuracy();
    bool was_told_at(WallSeconds time, const std::string& text) const;
    std::string limit() const;
    double computed_per_s() const;
    double committed_per_s() const;
    double seconds_left(double samples_per_s) const;
    PeerView view_of(const membership::Status& status, double all_compute_per_s) const;
    PeerView view_of(const Gone& gone) const;

    std::string name_;
    Digest run_;
    std::uint64_t target_;
    run::StopConfig stop_;
    PeerId us_;
    WallSeconds started_;
    WallSeconds now_;
    std::uint64_t step_ = 0;
    std::optional<double> samples_total_;
    std::deque<Committed> speed_steps_;  // when the newest steps were seen, oldest first
    double running_loss_ = 0;            // mean of the step that was being made after running_step_
    std::uint64_t running_step_ = 0;
    bool running_is_ours_ = false;  // nobody else told one
    double accuracy_ = 0;
    std::uint64_t accuracy_step_ = 0;
    std::vector<membership::Status> statuses_;
    std::map<PeerId, Gone> gone_;
    std::map<std::uint64_t, StepLoss> losses_;  // by step
    events::PeerNames names_;                   // of all who were seen
    ProtectionLine protection_;
    RoundLimit limit_;
    std::deque<EventView> events_;
    std::uint64_t events_count_ = 0;
    std::map<PeerId, WallSeconds> failing_;  // of whom it was told a moment ago
};

// Cleans text for a table (base/printable.h).
inline std::string printable(std::string_view text, std::size_t bytes_max) {
    return base::printable_columns(text, bytes_max);
}

}  // namespace dedloc::monitor
