// One machine's peer in a run in virtual time (virtual_run.h): the real Collaboration, and a
// trainer that computes real gradients in the time it is told; or an aggregator.
//
// Thread: the world's. Lifetime: end() before destruction.

#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/collab/collaboration.h"
#include "dedloc/runtime/event.h"
#include "dedloc/sim/world.h"
#include "dedloc/train/accumulation.h"
#include "dedloc/train/step_driver.h"

#include "tests/sim/virtual_run.h"

namespace dedloc::lab {

// A listener learns what a peer does.
class VirtualListener {
  public:
    virtual ~VirtualListener() = default;
    virtual void on_event(const events::Event& event) = 0;
    virtual void on_round(std::uint64_t step, double seconds) = 0;  // hand-in to new state
};

class VirtualPeer final : public events::EventSink {
  public:
    VirtualPeer(sim::World& world,
                sim::SimNode& node,
                const VirtualRunOptions& options,
                const VirtualMachine& machine,
                VirtualListener& listener);

    // `granted`: to plans.
    Ok make(std::vector<std::string> bootstrap, const VirtualLine& granted);
    void begin();
    bool ready() const { return ready_; }  // has a state, or offers to reduce
    void go();                             // trainers wait for this when they are ready
    void leave() { scope_.spawn("leave", leave_task()); }
    Task<void> end();
    bool left() const { return left_; }
    const std::string& failure() const { return failure_; }
    double computing_s() const { return computing_s_; }
    std::uint64_t samples_computed() const { return samples_computed_; }
    const collab::Collaboration& collaboration() const { return *collaboration_; }
    void record(const events::Event& event) override { listener_.on_event(event); }

  private:
    Task<void> train();
    Task<void> assist();
    Task<void> compute();
    Task<void> check_another();
    Task<void> hand_in();
    Task<void> step_beside(collab::Contribution contribution);
    Task<void> leave_task();
    void take_outcome();
    void start_from(const state::Snapshot& state);

    sim::World& world_;
    sim::SimNode& node_;
    const VirtualRunOptions& options_;
    const VirtualMachine& machine_;
    VirtualListener& listener_;
    std::unique_ptr<collab::Collaboration> collaboration_;
    std::unique_ptr<train::SampledModel> learner_;
    std::unique_ptr<train::Accumulation> accumulation_;
    run::Layout layout_;
    std::optional<train::StepDriver> driver_;
    std::uint64_t step_ = 0;  // of the state that the learner has
    TimePoint handed_in_at_;
    std::optional<Result<collab::StepOutcome>> outcome_;
    double computing_s_ = 0;
    std::uint64_t samples_computed_ = 0;
    bool ready_ = false;
    bool going_ = false;
    bool left_ = false;
    bool kept_out_ = false;  // by an order
    std::string failure_;
    runtime::Event changed_;
    runtime::Scope scope_;
};

}  // namespace dedloc::lab
