#include "tests/sim/virtual_run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "tests/sim/virtual_peer.h"

namespace dedloc::lab {
namespace {

constexpr double gathering_bytes_per_s = 1.25e9;

class VirtualBook final : public VirtualListener {
  public:
    VirtualBook(const sim::World& world, std::function<void(const events::Event&)> hears)
        : world_(world), hears_(std::move(hears)) {}

    void on_event(const events::Event& event) override {
        book_.take(event, to_seconds(world_.now() - TimePoint{}));
        if (hears_) hears_(event);
    }
    void on_round(std::uint64_t step, double seconds) override { rounds_[step].push_back(seconds); }
    const StepBook& told() const { return book_; }
    std::vector<BookedStep> steps() const;

  private:
    const sim::World& world_;
    std::function<void(const events::Event&)> hears_;
    StepBook book_;
    std::map<std::uint64_t, std::vector<double>> rounds_;
};

std::vector<BookedStep> VirtualBook::steps() const {
    std::vector<BookedStep> all = book_.steps();
    for (BookedStep& step : all) {
        const auto rounds = rounds_.find(step.step);
        if (rounds == rounds_.end()) continue;
        step.round_s = std::accumulate(rounds->second.begin(), rounds->second.end(), 0.0) /
                       static_cast<double>(rounds->second.size());
    }
    return all;
}

// The machines, who is there, and when it is over.
class VirtualRun {
  public:
    explicit VirtualRun(const VirtualRunOptions& options)
        : options_(options),
          world_(options.seed, world_options(options)),
          book_(world_, options.on_event) {}
    ~VirtualRun() {
        for (Seat& seat : seats_)
            if (seat.peer) world_.run_task(seat.peer->end());
    }

    Result<VirtualResult> run();

  private:
    struct Seat {
        sim::SimNode* node = nullptr;
        std::unique_ptr<VirtualPeer> peer;
        TimePoint next;       // joins or leaves
        bool counts = false;  // of those that train all the time
        bool leaves = false;  // at its until_step
        std::uint64_t samples_before = 0;
    };
    static sim::WorldOptions world_options(const VirtualRunOptions& options) {
        sim::WorldOptions world;
        world.link.latency = options.latency;
        world.stream_window_bytes = options.stream_window_bytes;
        return world;
    }
    void add_machines();
    VirtualLine granted(std::size_t index) const;
    Ok start(std::size_t index);
    Ok come_and_go();
    Ok gather();
    Ok make_steps();
    void show_state();
    double computing_s() const;
    VirtualResult result() const;

    const VirtualRunOptions& options_;
    sim::World world_;
    VirtualBook book_;
    std::vector<Seat> seats_;
    bool going_ = false;
    double first_s_ = 0;  // of the time that counts
    double computing_at_first_ = 0;
    std::uint64_t bytes_at_first_ = 0;
    std::uint64_t step_shown_ = 0;
};

void VirtualRun::add_machines() {
    if (options_.prepare) options_.prepare(world_);
    for (const VirtualMachine& machine : options_.machines) {
        sim::NodeOptions node;
        node.upload_bytes_per_s = node.download_bytes_per_s = gathering_bytes_per_s;
        node.dialable = machine.dialable;
        Seat seat;
        seat.node = &world_.add_node(node);
        seat.next = world_.now() + machine.joins_at;
        seat.counts = !machine.aggregates && machine.stays == Duration(0) &&
                      machine.claims_s == 0 && machine.from_step == 0 && machine.until_step == 0;
        seats_.push_back(std::move(seat));
    }
}

VirtualLine VirtualRun::granted(std::size_t index) const {
    if (!options_.equal_parts) return options_.machines[index].line;
    std::vector<VirtualLine> lines;
    for (const VirtualMachine& machine : options_.machines) lines.push_back(machine.line);
    return equal_grant(lines);
}

Ok VirtualRun::start(std::size_t index) {
    Seat& seat = seats_[index];
    std::vector<std::string> bootstrap;
    for (std::size_t i = 0; i < seats_.size() && index > 0; ++i)
        if (i != index && seats_[i].peer)
            bootstrap.push_back(seats_[i].node->address() + "/p2p/" + seats_[i].node->id().text());
    seat.peer = std::make_unique<VirtualPeer>(
        world_, *seat.node, options_, options_.machines[index], book_);
    DEDLOC_TRY_VOID(seat.peer->make(std::move(bootstrap), granted(index)));
    seat.peer->begin();
    if (going_) seat.peer->go();
    return {};
}

// Part-time trainers: a process that leaves is a new one when it comes again.
Ok VirtualRun::come_and_go() {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
        Seat& seat = seats_[i];
        const VirtualMachine& machine = options_.machines[i];
        if (seat.peer && !seat.peer->failure().empty())
            return make_error(
                ErrorKind::local_fault, "machine {} failed: {}", i, seat.peer->failure());
        if (seat.peer && seat.peer->left()) {
            seat.samples_before += seat.peer->samples_computed();
            world_.run_task(seat.peer->end());
            seat.peer.reset();
            seat.node->kill();
            world_.run_task(seat.node->host().stop());
            seat.node->restart();
            seat.next = machine.until_step > 0 ? TimePoint::never() : world_.now() + machine.away;
        }
        const std::uint64_t newest = book_.told().newest();
        if (seat.peer && machine.until_step > 0 && newest >= machine.until_step &&
            !std::exchange(seat.leaves, true))
            seat.peer->leave();
        if (world_.now() < seat.next || newest < machine.from_step) continue;
        if (!seat.peer) {
            DEDLOC_TRY_VOID(start(i));
            seat.next =
                machine.stays > Duration(0) ? world_.now() + machine.stays : TimePoint::never();
        } else if (machine.stays > Duration(0)) {
            seat.peer->leave();
            seat.next = TimePoint::never();
        }
    }
    return {};
}

double VirtualRun::computing_s() const {
    double sum = 0;
    for (const Seat& seat : seats_)
        if (seat.counts && seat.peer) sum += seat.peer->computing_s();
    return sum;
}

// Downloading the first state is no part of the experiment: until all who are there from the start
// have it, lines are fast and nobody computes.
Ok VirtualRun::gather() {
    const TimePoint limit = world_.now() + options_.time_max;
    const auto waits = [](const Seat& seat) { return seat.peer && !seat.peer->ready(); };
    do {
        DEDLOC_TRY_VOID(come_and_go());
        world_.run_for(100ms);
        if (world_.now() > limit)
            return make_error(ErrorKind::timeout, "the machines did not come together");
    } while (std::ranges::any_of(seats_, waits));
    going_ = true;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
        sim::NodeOptions& node = seats_[i].node->options();
        node.upload_bytes_per_s = options_.machines[i].line.up_bytes_per_s;
        node.download_bytes_per_s = options_.machines[i].line.down_bytes_per_s;
        if (seats_[i].peer) seats_[i].peer->go();
    }
    return {};
}

Ok VirtualRun::make_steps() {
    const TimePoint limit = world_.now() + options_.time_max;
    bool begun = false;
    while (book_.told().newest() < options_.steps) {
        DEDLOC_TRY_VOID(come_and_go());
        world_.run_for(100ms);
        if (!begun && book_.told().newest() >= 1) {
            begun = true;
            first_s_ = to_seconds(world_.now() - TimePoint{});
            computing_at_first_ = computing_s();
            bytes_at_first_ = world_.stats().bytes_delivered;
        }
        show_state();
        if (world_.now() > limit)
            return make_error(ErrorKind::timeout,
                              "{} of {} steps were made in {:.0f} virtual seconds",
                              book_.told().newest(),
                              options_.steps,
                              to_seconds(options_.time_max));
    }
    return {};
}

void VirtualRun::show_state() {
    if (!options_.on_state) return;
    const auto state = seats_.front().peer->collaboration().state();
    if (!state || state->step() == step_shown_) return;
    step_shown_ = state->step();
    options_.on_state(state, static_cast<double>(world_.stats().bytes_delivered - bytes_at_first_));
}

VirtualResult VirtualRun::result() const {
    VirtualResult result;
    result.steps = book_.steps();
    result.identical = book_.told().identical();
    result.bytes = static_cast<double>(world_.stats().bytes_delivered - bytes_at_first_);
    result.rounds_of_aggregators = book_.told().rounds_of_aggregators();
    const double wall = to_seconds(world_.now() - TimePoint{}) - first_s_;
    const auto full_time = std::ranges::count_if(seats_, [](const Seat& s) { return s.counts; });
    if (wall > 0 && full_time > 0)
        result.compute_share =
            (computing_s() - computing_at_first_) / (wall * static_cast<double>(full_time));
    for (const Seat& seat : seats_) {
        result.samples_computed += seat.samples_before;
        if (!seat.peer) continue;
        const collab::Collaboration::Accounts accounts = seat.peer->collaboration().accounts();
        result.samples_computed += seat.peer->samples_computed();
        result.samples_dropped += accounts.samples_dropped;
        result.samples_expired += accounts.samples_expired;
    }
    result.state = seats_.front().peer->collaboration().state();
    return result;
}

Result<VirtualResult> VirtualRun::run() {
    if (options_.machines.empty() || options_.machines.front().aggregates)
        return make_error(ErrorKind::bad_input, "the first machine of a run trains");
    if (options_.run.batch.micro == run::micro_auto)
        return make_error(ErrorKind::bad_input,
                          "in virtual time there is nothing to measure: batch.micro must be given");
    add_machines();
    DEDLOC_TRY_VOID(gather());
    DEDLOC_TRY_VOID(make_steps());
    return result();
}

}  // namespace

VirtualLine equal_grant(const std::vector<VirtualLine>& lines) {
    double slowest = std::numeric_limits<double>::infinity();
    for (const VirtualLine& line : lines)
        slowest = std::min({slowest, line.up_bytes_per_s, line.down_bytes_per_s});
    return VirtualLine::both_ways(slowest / 4);
}

Result<VirtualResult> run_virtually(const VirtualRunOptions& options) {
    VirtualRun run(options);
    return run.run();
}

}  // namespace dedloc::lab
