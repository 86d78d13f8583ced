// FaultRun: one collaboration of four real processes, and the faults it is given (faults.h).
//
// Thread: one; it waits by sleeping. Errors: a sentence in problems(); after the first one the
// collaboration is no good for another repeat.

#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dedloc/base/random.h"

#include "lab/peer_process.h"
#include "lab/stolen_time.h"

namespace dedloc::lab {

enum class FaultKind { kill, stop };

struct FaultSeen {
    FaultKind kind = FaultKind::kill;
    std::string victim;
    std::uint64_t first_step = 0;  // the one that was being made
    std::uint64_t last_step = 0;   // that the fault could still delay
    bool mid_round = false;
    double normal_ms = 0;    // a step's time before
    double late_ms = 0;      // the latest step's lateness
    double recovery_ms = 0;  // stop: from SIGCONT until it takes part again; kill: from its restart
    double deadline_ms = 0;  // of the rounds of those steps, from their certificates
    double stolen_share = 0;  // of the machine's processors, during the latest step
    bool disturbed = false;   // later than the deadline, but it was the machine that stood still
};

class FaultRun {
  public:
    FaultRun(std::string program, std::string folder, std::uint64_t seed);

    void start();
    void stop_one(double seconds);
    void kill_one();
    // Ends all processes in order, and judges the faults by the certificates.
    void end();

    bool good() const { return problems_.empty(); }
    const std::vector<std::string>& problems() const { return problems_; }
    const std::vector<FaultSeen>& faults() const { return faults_; }
    std::uint64_t steps() const { return hashes_.size(); }
    double round_ms_median() const;

  private:
    using Peers = std::vector<PeerProcess*>;

    void fail(std::string sentence);
    void look();
    void take(PeerProcess& peer, const collab::Event& event);
    // Looks again and again until `done`, the time is over, or something failed; true: done.
    template <typename Done>
    bool wait_for(double seconds, const char* what, Done done);
    Peers others(const PeerProcess& victim) const;
    bool all_take_part(const Peers& peers, double since) const;
    void wait_for_a_steady_pace();
    double normal_step_ms(const Peers& peers) const;
    void judge_lateness(FaultSeen& fault, const Peers& peers, double from, double until) const;
    std::uint64_t newest_step(const Peers& peers) const;
    void check_certificates();

    std::string program_;
    std::string folder_;
    Random random_;
    std::vector<std::unique_ptr<PeerProcess>> peers_;
    std::set<std::string> killed_;  // folders of those who were, ever
    std::map<const PeerProcess*, int> stops_;
    std::set<const PeerProcess*> down_;  // killed, and not started again yet
    std::map<std::uint64_t, std::string> hashes_;
    std::map<const PeerProcess*, double> plan_at_;  // leaders whose plan is not a step yet
    StolenTime stolen_;
    double newest_plan_ = 0;
    std::uint64_t newest_plan_step_ = 0;
    std::vector<double> rounds_ms_;
    std::vector<FaultSeen> faults_;
    std::vector<std::string> problems_;
};

}  // namespace dedloc::lab
