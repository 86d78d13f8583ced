// FaultRun: one collaboration of real processes, four at first, and what happens to it (faults.h).
//
// Thread: one; it waits by sleeping. Errors: a sentence in problems(); after the first one the
// collaboration is no good for another repeat.

#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/audit/sample_accounts.h"
#include "dedloc/base/random.h"

#include "tests/process/peer_process.h"
#include "tests/process/stolen_time.h"

namespace dedloc::lab {

using audit::PeerAccount;

// rejoin: who was killed is back; join: a newcomer; leave: for good.
enum class FaultKind { kill, stop, rejoin, join, leave };
std::string_view to_string(FaultKind kind);

struct FaultSeen {
    FaultKind kind = FaultKind::kill;
    std::string victim;
    std::uint64_t first_step = 0;  // the one that was being made
    std::uint64_t last_step = 0;   // that the fault could still delay
    bool mid_round = false;
    double normal_ms = 0;  // a step's time before
    double late_ms = 0;    // the latest step's lateness
    std::string latest;    // that step, and whose
    std::uint64_t latest_step = 0;
    double recovery_ms = 0;  // from SIGCONT, its restart, its start or its end until all take part
    double deadline_ms = 0;  // of the rounds of those steps, from their certificates
    // The same of the latest step and the one before it: by those it is judged.
    double latest_deadline_ms = 0;
    double stolen_share = 0;  // of the machine's processors, during the latest step
    bool disturbed = false;   // later than allowed, but it was the machine that stood still

    double late_ms_max() const;  // that it may cost the others
    void set_deadlines(const std::map<std::uint64_t, double>& by_step_ms);
};

// The fate of one peer's samples: how many were lost that nothing excuses, and how many may be.
// With every stop and every kill what it had computed or handed in may become too old, a batch at
// most. Only a kill also excuses counters that its next process skips.
struct SamplesLost {
    double judged = 0;  // of which these are lost
    double lost = 0;
    double allowed = 0;
    bool too_many() const { return lost > allowed; }
};
SamplesLost samples_lost(const PeerAccount& account, int stops, int kills, double batch);

class FaultRun {
  public:
    FaultRun(std::string program, std::string folder, std::uint64_t seed);

    void start();
    // The next faults: a stop and a kill, in any order; or, `anybody_comes_and_goes`, two of all
    // kinds.
    std::vector<FaultKind> draw(bool anybody_comes_and_goes);
    void let_happen(FaultKind kind, double stop_seconds);
    // Ends all processes in order, and judges the faults by the certificates.
    void end();

    bool good() const { return problems_.empty(); }
    const std::vector<std::string>& problems() const { return problems_; }
    const std::vector<FaultSeen>& faults() const { return faults_; }
    std::uint64_t steps() const { return hashes_.size(); }
    // Peers whose certificates were looked through for lost samples, and how many samples.
    std::uint64_t peers_judged() const { return peers_judged_; }
    double samples_judged() const { return samples_judged_; }
    double round_ms_median() const;

  private:
    using Peers = std::vector<PeerProcess*>;
    struct Outage {
        double from = 0;
        double until = 0;
    };

    void fail(std::string sentence);
    void poll();
    void take(PeerProcess& peer, const events::Event& event);
    // Looks again and again until `done`, the time is over, or something failed; true: done.
    template <typename Done>
    bool wait_for(double seconds, const char* what, Done done);
    FaultKind draw_one();
    void stop_one(double seconds);
    void kill_one();
    void start_again(PeerProcess& victim, const Peers& rest, FaultSeen& fault);
    void join_one();
    void leave_one();
    Peers living() const;
    PeerProcess& anybody();
    Peers others(const PeerProcess& victim) const;
    FaultSeen begun(FaultKind kind, const PeerProcess& victim, const Peers& rest) const;
    void wait_into_a_step(const FaultSeen& fault);
    void over(FaultSeen fault, const Peers& rest, double begun_at, double recovering_since);
    bool was_away(const PeerProcess& peer, double from, double until) const;
    bool left_well(PeerProcess& peer);
    bool all_take_part(double since) const;
    void wait_for_a_steady_pace();
    double normal_step_ms(const Peers& peers) const;
    void check_lateness(FaultSeen& fault, const Peers& peers, double from, double until) const;
    std::uint64_t newest_step(const Peers& peers) const;
    void check_certificates();
    void check_samples(const std::vector<std::string>& folders);
    void judge(FaultSeen& fault, const std::map<std::uint64_t, double>& deadlines_ms);

    std::string program_;
    std::string folder_;
    Random random_;
    std::vector<std::unique_ptr<PeerProcess>> peers_;
    std::map<const PeerProcess*, int> kills_;
    std::map<const PeerProcess*, int> stops_;
    std::set<const PeerProcess*> down_;             // killed and not started again yet, or left
    std::map<const PeerProcess*, Outage> outages_;  // the newest of each: stopped, or dead
    std::map<std::uint64_t, std::string> hashes_;
    std::map<const PeerProcess*, double> plan_at_;  // leaders whose plan is not a step yet
    StolenTime stolen_;
    double newest_plan_ = 0;
    std::uint64_t newest_plan_step_ = 0;
    std::vector<double> rounds_ms_;
    std::uint64_t peers_judged_ = 0;
    double samples_judged_ = 0;
    std::vector<FaultSeen> faults_;
    std::vector<std::string> problems_;
};

}  // namespace dedloc::lab
