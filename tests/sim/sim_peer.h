// SimPeer: one process of a simulated collaboration: the real Collaboration on a simulated host,
// and a trainer whose gradient is a pure function of (peer, counter, state).
//
// Counters are never used twice by one identity: each process begins a range of its own.
//
// Thread: the world's. Lifetime: end() before destruction.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/allreduce/centered_clip_reducer.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/consensus/planted_bugs.h"
#include "dedloc/sim/world.h"
#include "dedloc/train/step_driver.h"

#include "tests/sim/checkers.h"
#include "tests/sim/image_task.h"
#include "tests/sim/local_peer.h"

namespace dedloc::lab {

inline constexpr std::uint64_t sim_micro_batch = 4;  // of the run file

// This part is equal on all peers of a simulated run.
struct SimRun {
    run::RunFile run = image_run();
    run::Layout layout;
    Bytes secret;
    Duration status_interval{1'000'000'000};
    consensus::PlantedBugs bugs;

    // The rule of a robust run.
    allreduce::CenteredClipRule clip_rule() const;
};
SimRun make_sim_run(std::uint64_t elements,
                    consensus::PlantedBugs bugs,
                    bool delayed = false,
                    std::size_t group_max = 64,
                    codec::CodecId codec = codec::CodecId::fp32,
                    std::optional<run::RobustConfig> robust = std::nullopt);

// Steps of each peer's own between two rounds.
void make_local(run::RunFile& run);

// The sum of a micro-batch's gradients: weight × (parameters - goal) plus noise of these samples.
void add_gradient(std::size_t peer,
                  consensus::CounterRange samples,
                  std::span<const float> parameters,
                  std::span<float> sum);

// A trainer of a robust run may compute something else than it should.
struct LearnerLie {
    float factor = 1;             // of its own gradients …
    bool stops_when_told = true;  // … until an order says that they are wrong
    float factor_of_checks = 1;   // of those of others that it is to check
    float direction = 0;          // instead of its gradients, this in each element
    bool answers_checks = true;
    std::set<std::size_t> accomplices{};  // machines whose lies it finds right
    TimePoint from;
};

class SimPeer final : public events::EventSink {
  public:
    struct Setup {
        const SimRun& run;
        Checkers& checkers;
        double samples_per_s = 16;
        std::uint64_t micro_batch = 4;
        std::vector<std::string> bootstrap;  // empty: the host
        std::function<void(SimPeer&, const events::Event&)> on_event;
        bool aggregates = false;       // instead of training
        bool tells_on_nobody = false;  // of a liar: nor on itself
        bool orders_falsely = false;   // of a liar: as a leader, without evidence
        bool plans_alone = false;      // of a liar: as a leader, without all others
        LearnerLie lie{};              // of a robust run
        double upload_max = 0;  // that plans may count on, bytes per second; 0: what is measured
        double download_max = 0;
        std::function<void(collab::CollaborationOptions&)> adjust{};  // before it is made
    };
    SimPeer(sim::World& world, sim::SimNode& node, Setup setup);

    // Errors: local_fault (the disk is full): try again later, with a new process.
    Ok make();
    void begin();
    void leave(Duration grace_period);
    Task<void> end();
    void record(const events::Event& event) override;

    sim::SimNode& node() { return node_; }
    collab::Collaboration& collaboration() { return *collaboration_; }
    bool running() const { return running_; }  // has a state and trains, or offers to reduce
    bool trains() const { return !setup_.aggregates; }
    TimePoint running_since() const { return running_since_; }
    bool left() const { return left_; }
    bool leaving() const { return leaving_; }
    const std::string& failure() const { return failure_; }
    std::uint64_t step() const;
    // The share of what was handed in that was computed while the step before was made.
    std::uint64_t samples_ahead() const { return samples_ahead_; }
    // So often its learner lied, and first at this step.
    std::optional<std::uint64_t> lied_first_at() const { return lied_first_at_; }
    std::uint64_t lies_told() const { return lies_told_; }
    std::uint64_t checks_answered() const { return checks_answered_; }

  private:
    Task<void> train();
    Task<void> assist();
    Task<void> hand_in();
    Task<void> step_beside(collab::Contribution contribution);
    void take_outcome();
    Task<void> leave_task(Duration grace_period);
    void take_state(std::shared_ptr<const state::Snapshot> state);
    void add_spiked(std::size_t author,
                    consensus::CounterRange samples,
                    std::uint64_t step,
                    std::span<const float> parameters,
                    std::span<float> sum) const;
    void compute(double seconds);
    Task<void> check_another();
    validation::CheckResult computed_again(const validation::CheckJob& job);
    void change_finding(const PeerId& of,
                        const validation::CheckPiece& piece,
                        std::span<float> sum);
    void change_sum(consensus::CounterRange samples);
    bool lies_about_itself() const;
    void lie(std::uint64_t samples, std::span<float> sum) const;

    sim::World& world_;
    sim::SimNode& node_;
    Setup setup_;
    runtime::Scope scope_;
    std::unique_ptr<collab::Collaboration> collaboration_;
    std::shared_ptr<const state::Snapshot> state_;
    Digest root_;
    std::optional<train::StepDriver> driver_;
    std::vector<float> sum_;
    std::unique_ptr<LocalPeer> local_;  // of a run with [local], in place of sum_
    Digest ahead_;  // the state of the first samples, if they were computed ahead
    std::optional<Result<collab::StepOutcome>> outcome_;
    std::uint64_t samples_ahead_ = 0;
    std::uint64_t lies_told_ = 0;
    std::optional<std::uint64_t> lied_first_at_;
    std::uint64_t checks_answered_ = 0;
    bool told_ = false;  // that it errs
    bool running_ = false;
    bool leaving_ = false;
    bool left_ = false;
    TimePoint running_since_;
    std::string failure_;
};

}  // namespace dedloc::lab
