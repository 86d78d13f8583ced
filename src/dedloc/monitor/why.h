// Why a run's steps take as long as they do, and what would make them shorter, with numbers.
//
//   WhyEvents seen(run);                 // a peer's events, oldest first
//   seen.add(event);
//   Why why = explain(seen.facts());
//
// A step is computing, waiting, averaging and applying (docs/events.md); waiting has a peer that
// handed in last, averaging a line that is full. What would help is predicted with the planner of
// rounds, from the lines that leaders planned with. Every advice is a length of the step as it
// would be; those that save next to nothing are left out.
//
// Thread: any; pure. Cost: linear in the events; a few plans.

#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/events/events.h"
#include "dedloc/events/peer_names.h"
#include "dedloc/monitor/participation.h"
#include "dedloc/run/run_file.h"

namespace dedloc::monitor {

inline constexpr std::size_t why_steps_max = 200;  // the newest, of which the means are

// Seconds of a step, as one peer sees it.
struct StepParts {
    double computing_s = 0;
    double waiting_s = 0;
    double averaging_s = 0;  // with what follows it, where the parts are not known one by one
    double applying_s = 0;

    double sum() const { return computing_s + waiting_s + averaging_s + applying_s; }
};

struct WhyPeer {
    std::string name;
    double samples_per_s = 0;  // of its samples that enter the model; 0: not known
    double upload_bytes_per_s = 0;
    double download_bytes_per_s = 0;
    double micro_batch_s = 0;  // of one gradient computation; 0: not known
    bool aggregator = false;
    bool may_own = true;
};

// A line that rounds wait for.
struct FullLine {
    std::string name;  // whose it is
    bool up = true;
    double bytes_per_s = 0;
    double share = 0;  // of the plans that were seen
};

// A peer that hands in last.
struct LateComer {
    std::string name;
    double seconds = 0;  // later than the one before it, mean
    double share = 0;    // of the rounds that were seen
};

struct WhyFacts {
    std::string seen_by;      // a peer's name; empty: an observer's
    std::uint64_t steps = 0;  // of which the means are
    StepParts parts{};
    bool parts_known = true;     // waiting, averaging and applying one by one
    double predicted_s = 0;      // of averaging: as long as the lines take
    double failed_attempts = 0;  // a step
    double left_out = 0;         // trainers a step
    double contributors = 0;     // a step
    double vector_bytes = 0;     // of the average, encoded; 0: not known
    std::vector<WhyPeer> peers{};
    std::optional<FullLine> line{};
    std::optional<LateComer> last{};
    run::RunFile run{};
};

struct Advice {
    std::string what;   // a word for programs: delayed, local, aggregator, codec, …
    std::string text;   // for people
    double step_s = 0;  // the step, or as many samples, would then take
};

struct Why {
    WhyFacts facts;
    std::vector<std::string> findings;  // what takes the time, most first
    std::vector<Advice> advice;         // what would help, most first
};

Why explain(WhyFacts facts);

// Bytes of an element of the average as the run's codec writes it, about.
double element_bytes(const run::RunFile& run);

// From the events of one peer.
class WhyEvents {
  public:
    explicit WhyEvents(run::RunFile run) : run_(std::move(run)) {}
    void add(const events::Event& event);
    // `certified`: for the speeds of peers; may be empty.
    WhyFacts facts(const std::vector<CertifiedStep>& certified) const;

  private:
    void note_name(const std::optional<std::string>& id, const std::optional<std::string>& name);
    std::string name_of(const std::string& id) const;
    void add_lines(WhyFacts& facts) const;
    void add_last(WhyFacts& facts) const;
    void add_peers(WhyFacts& facts, const std::vector<CertifiedStep>& certified) const;

    run::RunFile run_;
    events::PeerNames names_;
    PeerId us_;
    std::deque<events::StepMade> steps_;
    std::deque<events::PlanMade> plans_;
};

// A block of lines for a terminal, an object for programs.
std::string to_text(const Why& why);
std::string to_json(const Why& why);

}  // namespace dedloc::monitor
