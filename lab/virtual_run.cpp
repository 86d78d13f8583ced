#include "lab/virtual_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/model_state.h"
#include "dedloc/runtime/event.h"
#include "dedloc/sim/world.h"

namespace dedloc::lab {
namespace {

constexpr Duration join_patience = 600s;
constexpr Duration leave_patience = 30s;
constexpr Duration glance = 20ms;

// What the peers say about steps, put together.
class StepBook {
  public:
    void add(const collab::Event& event, double at_s) {
        std::uint64_t number = 0;
        std::string hash;
        double loss = 0;
        VirtualStep step;
        step.at_s = at_s;
        for (const auto& [name, value] : event.fields) {
            if (name == "step") number = static_cast<std::uint64_t>(std::get<std::int64_t>(value));
            if (name == "samples") step.samples = std::get<double>(value);
            if (name == "members")
                step.members = static_cast<std::size_t>(std::get<std::int64_t>(value));
            if (name == "loss") loss = std::get<double>(value);
            if (name == "state_hash") hash = std::get<std::string>(value);
        }
        step.step = number;
        steps_.emplace(number, step);
        losses_[number].push_back(loss);
        if (!hash.empty() && hashes_.emplace(number, hash).first->second != hash)
            identical_ = false;
    }
    void add_round(std::uint64_t step, double seconds) { rounds_[step].push_back(seconds); }
    bool identical() const { return identical_; }
    std::uint64_t newest() const { return steps_.empty() ? 0 : steps_.rbegin()->first; }

    std::vector<VirtualStep> steps() const {
        std::vector<VirtualStep> all;
        for (const auto& [number, step] : steps_) {
            all.push_back(step);
            all.back().loss = mean(losses_, number);
            all.back().round_s = mean(rounds_, number);
        }
        return all;
    }

  private:
    using Lists = std::map<std::uint64_t, std::vector<double>>;
    static double mean(const Lists& lists, std::uint64_t step) {
        const auto list = lists.find(step);
        if (list == lists.end() || list->second.empty()) return 0;
        double sum = 0;
        for (const double value : list->second) sum += value;
        return sum / static_cast<double>(list->second.size());
    }

    std::map<std::uint64_t, VirtualStep> steps_;
    Lists losses_;
    Lists rounds_;
    std::map<std::uint64_t, std::string> hashes_;
    bool identical_ = true;
};

class Trainer final : public collab::EventSink {
  public:
    Trainer(sim::World& world,
            sim::SimNode& node,
            const VirtualRunOptions& options,
            const VirtualTrainer& machine,
            StepBook& book)
        : world_(world),
          node_(node),
          options_(options),
          machine_(machine),
          book_(book),
          changed_(world.executor()),
          scope_(world.executor()) {}

    Ok make(std::vector<std::string> bootstrap);
    void begin() { scope_.spawn("train", train()); }
    void leave() { scope_.spawn("leave", leave_task()); }
    Task<void> end();
    bool left() const { return left_; }
    const std::string& failure() const { return failure_; }
    double computing_s() const { return computing_s_; }
    std::uint64_t samples_computed() const { return samples_computed_; }
    collab::Collaboration& collaboration() { return *collaboration_; }

    void record(const collab::Event& event) override {
        if (event.kind == "step") book_.add(event, to_seconds(world_.now() - TimePoint{}));
    }

  private:
    Task<void> train();
    Task<void> compute();
    Task<void> hand_in();
    Task<void> step_beside(collab::Contribution contribution);
    Task<void> leave_task();
    collab::Contribution take_sums();
    void take_outcome();
    void start_from(const state::Snapshot& state);

    sim::World& world_;
    sim::SimNode& node_;
    const VirtualRunOptions& options_;
    VirtualTrainer machine_;
    StepBook& book_;
    std::unique_ptr<collab::Collaboration> collaboration_;
    std::unique_ptr<collab::Learner> learner_;
    collab::Layout layout_;
    collab::CounterRange samples_;
    double loss_sum_ = 0;
    bool in_flight_ = false;
    TimePoint handed_in_at_;
    std::optional<Result<collab::StepOutcome>> outcome_;
    double computing_s_ = 0;
    std::uint64_t samples_computed_ = 0;
    bool left_ = false;
    std::string failure_;
    runtime::Event changed_;
    runtime::Scope scope_;
};

Ok Trainer::make(std::vector<std::string> bootstrap) {
    static const security::ToyVerifier verifier;  // has no state
    DEDLOC_TRY(learner_, options_.make_learner(node_.id()));
    layout_ = learner_->layout();
    const std::uint64_t first = std::uint64_t{node_.incarnation()} << 24;
    samples_ = {first, first};
    collab::Options options;
    options.run = options_.run;
    options.secret = Bytes(16, 7);
    options.layout = layout_;
    options.name = node_.name();
    options.bootstrap = std::move(bootstrap);
    options.kept_bytes_max = 64u << 20;
    options.kept_steps = 8;
    options.join_patience = join_patience;
    options.discover = false;
    if (options_.rates_known) {
        options.upload_bytes_per_s = machine_.upload_bytes_per_s;
        options.download_bytes_per_s = machine_.download_bytes_per_s;
    }
    if (options.bootstrap.empty()) {
        std::vector<float> parameters(layout_.parameters_count);
        std::vector<float> buffers(layout_.buffers_count);
        learner_->initial(parameters, buffers);
        DEDLOC_TRY(
            options.initial,
            collab::initial_state(options.run, layout_, std::move(parameters), std::move(buffers)));
    }
    DEDLOC_TRY(
        collaboration_,
        collab::Collaboration::make(
            node_.runtime(), node_.host(), node_.signer(), verifier, std::move(options), this));
    return {};
}

Task<void> Trainer::end() {
    co_await scope_.stop();
    if (collaboration_) co_await collaboration_->stop();
}

Task<void> Trainer::leave_task() {
    co_await collaboration_->leave(leave_patience);
    left_ = true;
}

void Trainer::start_from(const state::Snapshot& state) {
    samples_ = {samples_.end, samples_.end};
    loss_sum_ = 0;
    learner_->load(collab::parameters_of(state), collab::buffers_of(state));
}

Task<void> Trainer::compute() {
    const std::uint64_t micro = options_.run.batch.micro;
    const double seconds = static_cast<double>(micro) / machine_.samples_per_s;
    co_await node_.clock().sleep_for(from_seconds(seconds));
    const collab::CounterRange range{samples_.end, samples_.end + micro};
    const auto report = learner_->accumulate(range);
    if (!report) {
        failure_ = report.error().message();
        co_return;
    }
    samples_.end = range.end;
    loss_sum_ += report->loss_sum;
    computing_s_ += seconds;
    samples_computed_ += micro;
    collaboration_->report(micro, report->loss_sum, seconds);
}

collab::Contribution Trainer::take_sums() {
    collab::Contribution contribution;
    contribution.samples = samples_;
    contribution.loss_sum = loss_sum_;
    contribution.sum.resize(layout_.vector_count());
    const std::span<float> all(contribution.sum);
    learner_->take(all.first(layout_.parameters_count),
                   all.subspan(layout_.parameters_count),
                   samples_.size());
    samples_ = {samples_.end, samples_.end};
    loss_sum_ = 0;
    return contribution;
}

Task<void> Trainer::step_beside(collab::Contribution contribution) {
    auto outcome = co_await collaboration_->step(std::move(contribution));
    outcome_.emplace(std::move(outcome));
    changed_.pulse();
}

Task<void> Trainer::hand_in() {
    handed_in_at_ = world_.now();
    collab::Contribution contribution = take_sums();
    in_flight_ = true;
    if (options_.run.averaging.delayed) {
        collaboration_->compute_ahead();
        scope_.spawn("step", step_beside(std::move(contribution)));
        co_return;
    }
    co_await step_beside(std::move(contribution));
    take_outcome();
}

void Trainer::take_outcome() {
    in_flight_ = false;
    const Result<collab::StepOutcome> outcome = *std::exchange(outcome_, std::nullopt);
    if (!outcome) {
        failure_ = outcome.error().message();
        return;
    }
    const auto state = collaboration_->state();
    book_.add_round(state->step(), to_seconds(world_.now() - handed_in_at_));
    if (outcome->kind == collab::StepKind::stepped && samples_.size() > 0)
        learner_->move_to(collab::parameters_of(*state), collab::buffers_of(*state));
    else
        start_from(*state);
}

Task<void> Trainer::train() {
    const Result<void> started = co_await collaboration_->start();
    if (!started) {
        failure_ = started.error().message();
        co_return;
    }
    start_from(*collaboration_->state());
    while (!collaboration_->stopped() && failure_.empty()) {
        if (in_flight_ && outcome_) take_outcome();
        if (in_flight_) {
            if (collaboration_->may_compute_ahead()) {
                co_await compute();
            } else {
                const TimePoint next = node_.clock().now() + glance;
                (void)co_await changed_.wait_until(node_.clock(), next);
            }
            continue;
        }
        if (!collaboration_->step_due()) co_await compute();
        if (collaboration_->step_due()) co_await hand_in();
    }
    if (!in_flight_ && samples_.size() > 0) co_await hand_in();
}

// The machines, who is there, and when it is over.
class VirtualRun {
  public:
    explicit VirtualRun(const VirtualRunOptions& options)
        : options_(options), world_(options.seed, world_options(options)) {}
    ~VirtualRun() {
        for (Seat& seat : seats_)
            if (seat.trainer) world_.run_task(seat.trainer->end());
    }

    Result<VirtualResult> run();

  private:
    struct Seat {
        sim::SimNode* node = nullptr;
        std::unique_ptr<Trainer> trainer;
        TimePoint next;  // joins or leaves
        bool part_time = false;
        std::uint64_t samples_before = 0;
    };
    static sim::WorldOptions world_options(const VirtualRunOptions& options) {
        sim::WorldOptions world;
        world.link.latency = options.latency;
        return world;
    }
    Ok start(std::size_t index);
    Ok come_and_go();
    double computing_s() const;

    const VirtualRunOptions& options_;
    sim::World world_;
    StepBook book_;
    std::vector<Seat> seats_;
};

Ok VirtualRun::start(std::size_t index) {
    Seat& seat = seats_[index];
    std::vector<std::string> bootstrap;
    for (std::size_t i = 0; i < seats_.size() && index > 0; ++i)
        if (i != index && seats_[i].trainer)
            bootstrap.push_back(seats_[i].node->address() + "/p2p/" + seats_[i].node->id().text());
    seat.trainer =
        std::make_unique<Trainer>(world_, *seat.node, options_, options_.trainers[index], book_);
    DEDLOC_TRY_VOID(seat.trainer->make(std::move(bootstrap)));
    seat.trainer->begin();
    return {};
}

// Part-time trainers: a process that leaves is a new one when it comes again.
Ok VirtualRun::come_and_go() {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
        Seat& seat = seats_[i];
        const VirtualTrainer& machine = options_.trainers[i];
        if (seat.trainer && !seat.trainer->failure().empty())
            return make_error(
                ErrorKind::local_fault, "trainer {} failed: {}", i, seat.trainer->failure());
        if (seat.trainer && seat.trainer->left()) {
            seat.samples_before += seat.trainer->samples_computed();
            world_.run_task(seat.trainer->end());
            seat.trainer.reset();
            seat.node->kill();
            world_.run_task(seat.node->host().stop());
            seat.node->restart();
            seat.next = world_.now() + machine.away;
        }
        if (world_.now() < seat.next) continue;
        if (!seat.trainer) {
            DEDLOC_TRY_VOID(start(i));
            seat.next =
                machine.stays > Duration(0) ? world_.now() + machine.stays : TimePoint::never();
        } else if (machine.stays > Duration(0)) {
            seat.trainer->leave();
            seat.next = TimePoint::never();
        }
    }
    return {};
}

double VirtualRun::computing_s() const {
    double sum = 0;
    for (const Seat& seat : seats_)
        if (!seat.part_time && seat.trainer) sum += seat.trainer->computing_s();
    return sum;
}

Result<VirtualResult> VirtualRun::run() {
    if (options_.trainers.empty()) return make_error(ErrorKind::bad_input, "a run needs a trainer");
    std::size_t full_time = 0;
    for (const VirtualTrainer& machine : options_.trainers) {
        sim::NodeOptions node;
        node.upload_bytes_per_s = machine.upload_bytes_per_s;
        node.download_bytes_per_s = machine.download_bytes_per_s;
        Seat seat;
        seat.node = &world_.add_node(node);
        seat.next = world_.now() + machine.joins_at;
        seat.part_time = machine.stays > Duration(0);
        if (!seat.part_time) ++full_time;
        seats_.push_back(std::move(seat));
    }
    const TimePoint limit = world_.now() + options_.time_max;
    double first_s = 0;
    double computing_at_first = 0;
    bool begun = false;
    while (book_.newest() < options_.steps) {
        DEDLOC_TRY_VOID(come_and_go());
        world_.run_for(100ms);
        if (!begun && book_.newest() >= 1) {
            begun = true;
            first_s = to_seconds(world_.now() - TimePoint{});
            computing_at_first = computing_s();
        }
        if (world_.now() > limit)
            return make_error(ErrorKind::timeout,
                              "{} of {} steps were made in {:.0f} virtual seconds",
                              book_.newest(),
                              options_.steps,
                              to_seconds(options_.time_max));
    }
    VirtualResult result;
    result.steps = book_.steps();
    result.identical = book_.identical();
    const double wall = to_seconds(world_.now() - TimePoint{}) - first_s;
    if (wall > 0 && full_time > 0)
        result.compute_share =
            (computing_s() - computing_at_first) / (wall * static_cast<double>(full_time));
    for (const Seat& seat : seats_) {
        result.samples_computed += seat.samples_before;
        if (!seat.trainer) continue;
        result.samples_computed += seat.trainer->samples_computed();
        result.samples_dropped += seat.trainer->collaboration().accounts().samples_dropped;
    }
    result.state = seats_.front().trainer->collaboration().state();
    return result;
}

}  // namespace

Result<VirtualResult> run_virtually(const VirtualRunOptions& options) {
    VirtualRun run(options);
    return run.run();
}

}  // namespace dedloc::lab
