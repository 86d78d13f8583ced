#include "tests/sim/virtual_run.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "dedloc/allreduce/messages.h"
#include "dedloc/links/messages.h"
#include "dedloc/state/transfer.h"

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
        if (const auto seen = step_in(event); seen && seen->step == book_.newest())
            bytes_at_[seen->step] = world_.bytes_on_lines();
        if (hears_) hears_(event);
    }
    double round_bytes_most() const;
    void on_round(std::uint64_t step, double seconds) override { rounds_[step].push_back(seconds); }
    const StepBook& told() const { return book_; }
    std::vector<BookedStep> steps() const;

  private:
    const sim::World& world_;
    std::function<void(const events::Event&)> hears_;
    StepBook book_;
    std::map<std::uint64_t, std::vector<double>> rounds_;
    // On all lines, when the last peer had the step: of its round nothing is under way any more.
    std::map<std::uint64_t, double> bytes_at_;
};

double VirtualBook::round_bytes_most() const {
    double most = 0;
    for (auto step = bytes_at_.begin(); step != bytes_at_.end(); ++step) {
        const auto next = std::next(step);
        if (next != bytes_at_.end()) most = std::max(most, next->second - step->second);
    }
    return most;
}

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
        TimePoint next;            // joins or leaves
        bool counts = false;       // of those that train all the time
        bool leaves = false;       // at its until_step
        bool came = false;         // before
        bool away = false;         // or about to be: it does not count as present
        std::size_t absences = 0;  // that have begun
        double sent_before = 0;
        TimePoint here_since;
        std::uint64_t samples_before = 0;
    };
    static sim::WorldOptions world_options(const VirtualRunOptions& options) {
        sim::WorldOptions world;
        world.link.latency = options.latency;
        world.stream_window_bytes = options.stream_window_bytes;
        world.shrunk = options.shrunk;
        world.shrunk_methods = {allreduce::parts_method,
                                allreduce::fetch_method,
                                state::chunk_method,
                                links::probe_method};
        return world;
    }
    void add_machines();
    VirtualLine granted(std::size_t index) const;
    Ok start(std::size_t index);
    Ok come_and_go();
    void be_taken(std::size_t index);
    void has_gone(std::size_t index);
    TimePoint back_at(std::size_t index) const;
    void leave(std::size_t index);
    void is_away(std::size_t index);
    void sleep_or_wake(std::size_t index);
    Ok gather();
    Ok make_steps();
    void show_state();
    static double sent_by(const Seat& seat) {
        return static_cast<double>(seat.node->traffic().sent_bytes);
    }
    double computing_s() const;
    double present_s(std::size_t index) const;
    VirtualResult result() const;
    std::vector<sim::MethodTraffic> traffic_since_first() const;

    const VirtualRunOptions& options_;
    sim::World world_;
    VirtualBook book_;
    std::vector<Seat> seats_;
    bool going_ = false;
    TimePoint begun_;     // when all were there
    double first_s_ = 0;  // of the time that counts
    double computing_at_first_ = 0;
    double bytes_at_first_ = 0;
    double present_s_ = 0;  // of those who left
    std::vector<sim::MethodTraffic> traffic_at_first_;
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
                      machine.claims_s == 0 && machine.from_step == 0 && machine.until_step == 0 &&
                      machine.absences.empty();
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
    const bool comes_again = std::exchange(seat.came, true);
    const bool founds = index == 0 && !comes_again;
    for (std::size_t i = 0; i < seats_.size() && !founds; ++i)
        if (i != index && seats_[i].peer)
            bootstrap.push_back(seats_[i].node->address() + "/p2p/" + seats_[i].node->id().text());
    seat.peer = std::make_unique<VirtualPeer>(
        world_, *seat.node, options_, options_.machines[index], book_);
    DEDLOC_TRY_VOID(seat.peer->make(std::move(bootstrap), granted(index)));
    seat.peer->begin();
    seat.here_since = world_.now();
    seat.away = false;
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
        if (seat.peer && seat.peer->left()) has_gone(i);
        be_taken(i);
        const std::uint64_t newest = book_.told().newest();
        if (seat.peer && machine.until_step > 0 && newest >= machine.until_step &&
            !std::exchange(seat.leaves, true))
            leave(i);
        if (world_.now() < seat.next || newest < machine.from_step) continue;
        if (seat.peer && machine.sleeps) {
            sleep_or_wake(i);
            continue;
        }
        if (!seat.peer) {
            const bool first = !seat.came;
            DEDLOC_TRY_VOID(start(i));
            const bool other = first && machine.first_stay > Duration(0);
            seat.next = machine.stays > Duration(0)
                            ? world_.now() + (other ? machine.first_stay : machine.stays)
                            : TimePoint::never();
        } else if (machine.stays > Duration(0)) {
            leave(i);
            seat.next = TimePoint::never();
        }
    }
    return {};
}

// A process that comes again is a new one, with the same identity.
void VirtualRun::has_gone(std::size_t index) {
    Seat& seat = seats_[index];
    seat.samples_before += seat.peer->samples_computed();
    if (!seat.peer->left()) seat.node->kill();
    world_.run_task(seat.peer->end());
    seat.peer.reset();
    seat.node->kill();
    world_.run_task(seat.node->host().stop());
    seat.node->restart();
    seat.next = back_at(index);
}

TimePoint VirtualRun::back_at(std::size_t index) const {
    const VirtualMachine& machine = options_.machines[index];
    if (seats_[index].absences > 0)
        return begun_ + machine.absences[seats_[index].absences - 1].until;
    return machine.until_step > 0 ? TimePoint::never() : world_.now() + machine.away;
}

void VirtualRun::be_taken(std::size_t index) {
    Seat& seat = seats_[index];
    const std::vector<VirtualAbsence>& absences = options_.machines[index].absences;
    if (absences.empty() || !going_ || !seat.peer) return;
    if (seat.away) {
        const VirtualAbsence& absence = absences[seat.absences - 1];
        if (world_.now() >= begun_ + absence.from + absence.notice) has_gone(index);
        return;
    }
    if (seat.absences == absences.size() || world_.now() < begun_ + absences[seat.absences].from)
        return;
    const VirtualAbsence& absence = absences[seat.absences++];
    if (absence.notice > Duration(0)) return leave(index);
    is_away(index);
    has_gone(index);
}

void VirtualRun::leave(std::size_t index) {
    seats_[index].peer->leave();
    is_away(index);
}

void VirtualRun::is_away(std::size_t index) {
    seats_[index].away = true;
    present_s_ += present_s(index);
}

void VirtualRun::sleep_or_wake(std::size_t index) {
    Seat& seat = seats_[index];
    const VirtualMachine& machine = options_.machines[index];
    if (seat.away) {
        seat.node->thaw();
        seat.here_since = world_.now();
        seat.away = false;
        seat.next = world_.now() + machine.stays;
    } else {
        seat.node->freeze();
        is_away(index);
        seat.next = world_.now() + machine.away;
    }
}

// Until now, of the time that counts.
double VirtualRun::present_s(std::size_t index) const {
    if (options_.machines[index].aggregates || first_s_ == 0) return 0;
    const double since = to_seconds(seats_[index].here_since - TimePoint{});
    return to_seconds(world_.now() - TimePoint{}) - std::max(since, first_s_);
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
    begun_ = world_.now();
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
            bytes_at_first_ = world_.bytes_on_lines();
            traffic_at_first_ = world_.traffic();
            for (Seat& seat : seats_) seat.sent_before = sent_by(seat);
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
    if (!seats_.front().peer) return;
    const auto state = seats_.front().peer->collaboration().state();
    if (!state || state->step() == step_shown_) return;
    step_shown_ = state->step();
    options_.on_state(state, world_.bytes_on_lines() - bytes_at_first_);
}

VirtualResult VirtualRun::result() const {
    VirtualResult result;
    result.steps = book_.steps();
    result.identical = book_.told().identical();
    result.bytes = world_.bytes_on_lines() - bytes_at_first_;
    result.round_bytes_most = book_.round_bytes_most();
    result.traffic = traffic_since_first();
    for (const Seat& seat : seats_) result.sent.push_back(sent_by(seat) - seat.sent_before);
    result.present_s = present_s_;
    for (std::size_t i = 0; i < seats_.size(); ++i)
        if (seats_[i].peer && !seats_[i].away) result.present_s += present_s(i);
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
    for (auto seat = seats_.rbegin(); seat != seats_.rend(); ++seat)
        if (seat->peer && seat->peer->collaboration().state())
            result.state = seat->peer->collaboration().state();
    return result;
}

std::vector<sim::MethodTraffic> VirtualRun::traffic_since_first() const {
    std::vector<sim::MethodTraffic> since = world_.traffic();
    for (sim::MethodTraffic& one : since)
        for (const sim::MethodTraffic& before : traffic_at_first_) {
            if (before.method != one.method) continue;
            one.messages -= before.messages;
            one.bytes -= before.bytes;
        }
    std::ranges::sort(since, std::greater(), &sim::MethodTraffic::bytes);
    return since;
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
