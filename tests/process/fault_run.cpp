#include "tests/process/fault_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <signal.h>
#include <thread>

#include "dedloc/audit/audit.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/measure/median.h"
#include "dedloc/security/identity_file.h"
#include "dedloc/wire/message.h"

#include "tests/process/bowl_run.h"

namespace dedloc::lab {
namespace {

constexpr int peers_count = 4;              // at first, and at least
constexpr std::size_t living_max = 6;       // at the same time
constexpr std::size_t identities_max = 64;  // of one collaboration, from its start
constexpr double start_timeout_s = 180;
constexpr double pace_timeout_s = 60;
constexpr double repair_timeout_s = 60;
constexpr double end_timeout_s = 30;
constexpr std::size_t steady_steps = 8;        // undisturbed steps before a fault
constexpr std::uint64_t steps_after_kill = 6;  // that a kill could still delay
constexpr double tolerance = 1.1;              // of the deadline
// A lost connection is looked after at once: a kill does not cost the others a whole deadline.
constexpr double late_ms_kill_max = 500;
constexpr double deadline_min_ms = 1000;  // of the run below
constexpr double batch = 32;              // samples, of the run below
constexpr double stolen_share_max = 0.2;  // of the machine, while a step was late
constexpr auto fault_glance = std::chrono::milliseconds(2);

// A megabyte is averaged, so that a round takes long enough to be hit.
const BowlRun fault_bowl = {.name = "faults", .elements = 262144, .milliseconds = 30};

double wall_now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

void sleep_for(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

std::string_view to_string(FaultKind kind) {
    switch (kind) {
        case FaultKind::kill:
            return "SIGKILL";
        case FaultKind::stop:
            return "SIGSTOP";
        case FaultKind::rejoin:
            return "coming back";
        case FaultKind::join:
            return "joining";
        case FaultKind::leave:
            return "leaving";
    }
    return "";
}

double FaultSeen::late_ms_max() const {
    const double whole_round = latest_deadline_ms * tolerance;
    return kind == FaultKind::kill ? std::min(late_ms_kill_max, whole_round) : whole_round;
}

void FaultSeen::set_deadlines(const std::map<std::uint64_t, double>& by_step_ms) {
    const auto longest = [&](std::uint64_t from, std::uint64_t to) {
        double ms = 0;
        for (auto at = by_step_ms.lower_bound(from); at != by_step_ms.end() && at->first <= to;
             ++at)
            ms = std::max(ms, at->second);
        return ms;
    };
    deadline_ms = longest(first_step, last_step);
    latest_deadline_ms = latest_step > 0 ? longest(latest_step - 1, latest_step) : 0;
}

SamplesLost samples_lost(const PeerAccount& account, int stops, int kills, double batch) {
    SamplesLost lost;
    lost.lost = account.left_out + (kills > 0 ? 0 : account.skipped);
    lost.judged = account.in + lost.lost;
    lost.allowed = (stops + kills) * batch;
    return lost;
}

FaultRun::FaultRun(std::string program, std::string folder, std::uint64_t seed)
    : program_(std::move(program)), folder_(std::move(folder)), random_(seed) {}

double FaultRun::round_ms_median() const { return measure::median(rounds_ms_); }

void FaultRun::fail(std::string sentence) {
    problems_.push_back(fmt::format("{}: {}", folder_, std::move(sentence)));
}

// ---- watching -----------------------------------------------------------------------------------

void FaultRun::take(PeerProcess& peer, const events::Event& event) {
    if (event.is<events::PlanMade>()) {
        plan_at_[&peer] = event.time;
        newest_plan_ = event.time;
        newest_plan_step_ = event.step;
    } else if (event.is<events::StepMade>()) {
        const auto planned = plan_at_.find(&peer);
        if (planned != plan_at_.end()) {
            // An outage of who leads is no round: deadlines are judged by the longest of those.
            if (!was_away(peer, planned->second, event.time))
                rounds_ms_.push_back((event.time - planned->second) * 1000);
            plan_at_.erase(planned);
        }
    } else if (event.is<events::NewBranch>()) {
        fail(fmt::format("{} went on as a new branch, although a majority lived", peer.name()));
    }
}

bool FaultRun::was_away(const PeerProcess& peer, double from, double until) const {
    const auto outage = outages_.find(&peer);
    return outage != outages_.end() && from < outage->second.until && outage->second.from < until;
}

void FaultRun::poll() {
    stolen_.observe(wall_now());
    for (const auto& peer : peers_) {
        const std::size_t before = peer->steps().size();
        for (const events::Event& event : peer->poll()) take(*peer, event);
        for (const std::uint64_t step : peer->differing_steps(before, hashes_))
            fail(
                fmt::format("{} has another state than the others at step {}", peer->name(), step));
        if (down_.contains(peer.get()) || peer->process().running()) continue;
        down_.insert(peer.get());
        const runtime::ChildEnd end = peer->process().end().value_or(runtime::ChildEnd{});
        fail(fmt::format("{} ended by itself (exit code {}, signal {}): {}",
                         peer->name(),
                         end.exit_code,
                         end.signal,
                         peer->last_error()));
    }
}

template <typename Done>
bool FaultRun::wait_for(double seconds, const char* what, Done done) {
    const double until = wall_now() + seconds;
    for (;;) {
        poll();
        if (!good()) return false;
        if (done()) return true;
        if (wall_now() > until) {
            fail(fmt::format("{} within {:.0f} s", what, seconds));
            return false;
        }
        std::this_thread::sleep_for(fault_glance);
    }
}

FaultRun::Peers FaultRun::living() const {
    Peers living;
    for (const auto& peer : peers_)
        if (!down_.contains(peer.get())) living.push_back(peer.get());
    return living;
}

FaultRun::Peers FaultRun::others(const PeerProcess& victim) const {
    Peers others = living();
    std::erase(others, &victim);
    return others;
}

PeerProcess& FaultRun::anybody() {
    const Peers all = living();
    return *all[random_.below(all.size())];
}

std::uint64_t FaultRun::newest_step(const Peers& peers) const {
    std::uint64_t newest = 0;
    for (const PeerProcess* peer : peers) newest = std::max(newest, peer->step());
    return newest;
}

// Each of the living has made a step of all of them after `since`.
bool FaultRun::all_take_part(double since) const {
    const Peers all = living();
    const std::uint64_t count = all.size();
    return std::all_of(all.begin(), all.end(), [&](const PeerProcess* peer) {
        return !peer->steps().empty() && peer->steps().back().time > since &&
               peer->steps().back().members == count;
    });
}

void FaultRun::wait_for_a_steady_pace() {
    const Peers all = living();
    const std::uint64_t count = all.size();
    wait_for(pace_timeout_s, "no steady pace was found", [&] {
        return std::all_of(all.begin(), all.end(), [&](const PeerProcess* peer) {
            const std::vector<StepSeen>& steps = peer->steps();
            if (steps.size() <= steady_steps) return false;
            return std::all_of(steps.end() - steady_steps - 1, steps.end(), [&](const auto& step) {
                return step.members == count;
            });
        });
    });
}

double FaultRun::normal_step_ms(const Peers& peers) const {
    std::vector<double> intervals;
    for (const PeerProcess* peer : peers) {
        const std::vector<StepSeen>& steps = peer->steps();
        for (std::size_t i = steps.size() - steady_steps; i < steps.size(); ++i)
            intervals.push_back((steps[i].time - steps[i - 1].time) * 1000);
    }
    return measure::median(std::move(intervals));
}

// The worst, over steps of `peers` that ended after `from` and began before `until`.
void FaultRun::check_lateness(FaultSeen& fault,
                              const Peers& peers,
                              double from,
                              double until) const {
    for (const PeerProcess* peer : peers) {
        const std::vector<StepSeen>& steps = peer->steps();
        for (std::size_t i = 1; i < steps.size(); ++i) {
            if (steps[i].time <= from || steps[i - 1].time >= until) continue;
            const double late_ms = (steps[i].time - steps[i - 1].time) * 1000 - fault.normal_ms;
            if (late_ms <= fault.late_ms) continue;
            fault.late_ms = late_ms;
            fault.latest = fmt::format("step {} of {}", steps[i].step, peer->name());
            fault.latest_step = steps[i].step;
            fault.stolen_share = stolen_.share(steps[i - 1].time, steps[i].time);
        }
    }
}

// ---- the life of a collaboration ----------------------------------------------------------------

void FaultRun::start() {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    const std::string run_path = folder_ + "/run.toml";
    {
        std::ofstream run(run_path);
        run << bowl_run_text(fault_bowl);
        if (!run.flush()) return fail("cannot write " + run_path);
    }
    std::string join;
    for (int i = 1; i <= peers_count; ++i) {
        const std::vector<std::string> words = i == 1 ? std::vector<std::string>{"host", run_path}
                                                      : std::vector<std::string>{"join", join};
        auto peer = PeerProcess::start(program_, words, folder_, fmt::format("peer-{}", i));
        if (!peer) return fail(peer.error().message());
        peers_.push_back(*std::move(peer));
        if (i > 1) continue;
        const bool hosted = wait_for(start_timeout_s, "the host gave no join string", [&] {
            join = peers_.front()->join_string();
            return !join.empty();
        });
        if (!hosted) return;
    }
    wait_for(start_timeout_s, "not all four took part", [&] { return all_take_part(0); });
}

std::vector<FaultKind> FaultRun::draw(bool anybody_comes_and_goes) {
    if (anybody_comes_and_goes) {
        const FaultKind first = draw_one();
        return {first, draw_one()};
    }
    if (random_.chance(0.5)) return {FaultKind::stop, FaultKind::kill};
    return {FaultKind::kill, FaultKind::stop};
}

// A third is coming and going, as long as there is room and somebody to spare.
FaultKind FaultRun::draw_one() {
    const std::size_t count = living().size();
    const std::uint64_t drawn = random_.below(6);
    if (drawn == 0 && count < living_max && peers_.size() < identities_max) return FaultKind::join;
    if (drawn == 1 && count > peers_count) return FaultKind::leave;
    return drawn % 2 == 0 ? FaultKind::stop : FaultKind::kill;
}

// ---- what happens to it -------------------------------------------------------------------------

void FaultRun::let_happen(FaultKind kind, double stop_seconds) {
    wait_for_a_steady_pace();
    if (!good()) return;
    if (kind == FaultKind::stop) stop_one(stop_seconds);
    if (kind == FaultKind::kill) kill_one();
    if (kind == FaultKind::join) join_one();
    if (kind == FaultKind::leave) leave_one();
}

FaultSeen FaultRun::begun(FaultKind kind, const PeerProcess& victim, const Peers& rest) const {
    FaultSeen fault;
    fault.kind = kind;
    fault.victim = victim.name();
    fault.normal_ms = normal_step_ms(rest);
    return fault;
}

// Any moment of a step.
void FaultRun::wait_into_a_step(const FaultSeen& fault) {
    sleep_for(random_.uniform(0, fault.normal_ms / 1000));
    poll();
}

// All take part again.
void FaultRun::over(FaultSeen fault, const Peers& rest, double begun_at, double recovering_since) {
    const double now = wall_now();
    fault.recovery_ms = (now - recovering_since) * 1000;
    fault.last_step = newest_step(rest);
    check_lateness(fault, rest, begun_at, now);
    faults_.push_back(std::move(fault));
}

void FaultRun::stop_one(double seconds) {
    PeerProcess& victim = anybody();
    const Peers rest = others(victim);
    FaultSeen fault = begun(FaultKind::stop, victim, rest);
    wait_into_a_step(fault);
    fault.first_step = newest_step(rest) + 1;
    const double stopped_at = wall_now();
    outages_[&victim] = {stopped_at, std::numeric_limits<double>::infinity()};
    victim.process().send(SIGSTOP);
    ++stops_[&victim];
    const auto wakes_at = std::chrono::steady_clock::now() +
                          std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                              std::chrono::duration<double>(seconds));
    while (std::chrono::steady_clock::now() < wakes_at) {
        poll();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const double woken_at = wall_now();
    outages_[&victim].until = woken_at;
    victim.process().send(SIGCONT);
    poll();
    fault.mid_round = newest_plan_ > 0 && newest_plan_ < stopped_at;
    const std::uint64_t missed = newest_step(rest);
    if (missed < fault.first_step + 2)
        fail(fmt::format("the others made {} steps while {} was stopped for {:.0f} s",
                         missed + 1 - fault.first_step,
                         victim.name(),
                         seconds));
    wait_for(repair_timeout_s, "the sleeper did not take part again", [&] {
        return victim.step() > missed && all_take_part(woken_at);
    });
    over(std::move(fault), rest, stopped_at, woken_at);
}

void FaultRun::kill_one() {
    PeerProcess& victim = anybody();
    const Peers rest = others(victim);
    FaultSeen fault = begun(FaultKind::kill, victim, rest);
    // A plan was made now; the kill falls anywhere into its round.
    const double seen_plan = newest_plan_;
    wait_for(pace_timeout_s, "no round began", [&] { return newest_plan_ > seen_plan; });
    if (!good()) return;
    sleep_for(random_.uniform(0, round_ms_median() / 1000));
    const double killed_at = wall_now();
    down_.insert(&victim);
    ++kills_[&victim];
    outages_[&victim] = {killed_at, std::numeric_limits<double>::infinity()};
    victim.process().send(SIGKILL);
    poll();
    const std::uint64_t round_step = newest_plan_step_ + 1;  // that the round would make
    std::uint64_t made = 0;                                  // before the kill
    for (const PeerProcess* peer : rest)
        for (const StepSeen& seen : peer->steps())
            if (seen.time <= killed_at) made = std::max(made, seen.step);
    fault.mid_round = made < round_step;
    fault.first_step = made + 1;
    fault.last_step = made + steps_after_kill;
    wait_for(repair_timeout_s, "the others did not go on", [&] {
        return std::all_of(rest.begin(), rest.end(), [&](const PeerProcess* peer) {
            return peer->step() >= fault.last_step;
        });
    });
    check_lateness(fault, rest, killed_at, wall_now());
    if (!good()) return faults_.push_back(std::move(fault));
    victim.process().wait_for(5);
    FaultSeen again = begun(FaultKind::rejoin, victim, rest);
    start_again(victim, rest, again);
    fault.recovery_ms = again.recovery_ms;
    faults_.push_back(std::move(fault));
    if (good()) faults_.push_back(std::move(again));
}

// A peer that comes back may stall the others as well.
void FaultRun::start_again(PeerProcess& victim, const Peers& rest, FaultSeen& fault) {
    fault.first_step = newest_step(rest) + 1;
    const double restarted_at = wall_now();
    const Ok restarted = victim.restart({"join", rest[random_.below(rest.size())]->join_string()});
    if (!restarted) return fail(restarted.error().message());
    down_.erase(&victim);
    outages_[&victim].until = restarted_at;
    wait_for(repair_timeout_s, "the killed peer did not come back", [&] {
        return all_take_part(restarted_at);
    });
    const double now = wall_now();
    fault.recovery_ms = (now - restarted_at) * 1000;
    fault.last_step = newest_step(rest);
    check_lateness(fault, rest, restarted_at, now);
}

// A newcomer: a peer that nobody knows, in a new folder.
void FaultRun::join_one() {
    const Peers rest = living();
    const std::string join = anybody().join_string();
    const std::string name = fmt::format("peer-{}", peers_.size() + 1);
    const double started_at = wall_now();
    auto newcomer = PeerProcess::start(program_, {"join", join}, folder_, name);
    if (!newcomer) return fail(newcomer.error().message());
    peers_.push_back(*std::move(newcomer));
    FaultSeen fault = begun(FaultKind::join, *peers_.back(), rest);
    fault.first_step = newest_step(rest) + 1;
    wait_for(repair_timeout_s, "the newcomer did not take part", [&] {
        return all_take_part(started_at);
    });
    over(std::move(fault), rest, started_at, started_at);
}

// In order, and for good.
void FaultRun::leave_one() {
    PeerProcess& leaver = anybody();
    const Peers rest = others(leaver);
    FaultSeen fault = begun(FaultKind::leave, leaver, rest);
    wait_into_a_step(fault);
    fault.first_step = newest_step(rest) + 1;
    const double asked_at = wall_now();
    down_.insert(&leaver);
    leaver.process().send(SIGINT);
    wait_for(end_timeout_s, "the leaver did not end", [&] { return !leaver.process().running(); });
    if (!good() || !left_well(leaver)) return;
    const double gone_at = wall_now();
    wait_for(repair_timeout_s, "the others did not go on without who left", [&] {
        return all_take_part(gone_at);
    });
    over(std::move(fault), rest, asked_at, gone_at);
}

bool FaultRun::left_well(PeerProcess& peer) {
    const runtime::ChildEnd end = peer.process().end().value_or(runtime::ChildEnd{});
    if (end.exit_code == 0 && end.signal == 0) return true;
    fail(fmt::format("{} left with exit code {}, signal {}: {}",
                     peer.name(),
                     end.exit_code,
                     end.signal,
                     peer.last_error()));
    return false;
}

void FaultRun::end() {
    const Peers all = living();
    for (PeerProcess* peer : all) peer->process().send(SIGINT);
    for (PeerProcess* peer : all) {
        down_.insert(peer);
        if (peer->process().wait_for(end_timeout_s))
            left_well(*peer);
        else
            fail(peer->name() + " did not leave within 30 s of Ctrl-C");
    }
    poll();
    if (!peers_.empty()) check_certificates();
    peers_.clear();  // kills what still runs
}

// ---- judgement ----------------------------------------------------------------------------------

void FaultRun::check_certificates() {
    std::vector<std::string> folders;
    for (const auto& peer : peers_) folders.push_back(peer->directory());
    check_samples(folders);
    const auto logs = audit::read_logs(folders);
    if (!logs) return fail(logs.error().message());
    std::map<std::uint64_t, double> deadlines_ms;  // by the step that was made
    for (const audit::PeerLog& log : *logs)
        for (const Bytes& bytes : log.certificates) {
            const auto certificate = wire::decode<consensus::Certificate>(bytes);
            if (!certificate) continue;
            const auto decision = wire::decode<consensus::Decision>(certificate->decision);
            if (!decision || decision->kind != consensus::DecisionKind::commit) continue;
            const auto plan = wire::decode<consensus::RoundPlan>(decision->plan);
            if (plan) deadlines_ms[plan->instance.step + 1] = plan->round_ms;
        }
    for (FaultSeen& fault : faults_) judge(fault, deadlines_ms);
}

void FaultRun::check_samples(const std::vector<std::string>& folders) {
    std::map<PeerId, const PeerProcess*> by_id;
    audit::AuditOptions options;
    for (const auto& peer : peers_) {
        const auto identity = security::load_or_create_identity(peer->directory());
        if (!identity) return fail(identity.error().message());
        by_id[identity->identity().id()] = peer.get();
        if (kills_[peer.get()] > 0) options.killed.insert(identity->identity().id());
    }
    const auto report = audit::audit_folders(folders, options);
    if (!report) return fail(report.error().message());
    if (report->samples_twice != 0) fail("the audit found samples that were counted twice");
    for (const auto& [id, account] : report->peers) {
        const auto peer = by_id.find(id);
        if (peer == by_id.end()) continue;
        const int stops = stops_[peer->second];
        const int kills = kills_[peer->second];
        const SamplesLost lost = samples_lost(account, stops, kills, batch);
        ++peers_judged_;
        samples_judged_ += lost.judged;
        if (lost.too_many())
            fail(
                fmt::format("{} was stopped {} and killed {} times, and {:.1f} of its samples are "
                            "lost, {:.0f} may be",
                            peer->second->name(),
                            stops,
                            kills,
                            lost.lost,
                            lost.allowed));
    }
    for (const std::string& problem : report->problems) fail("the audit: " + problem);
}

void FaultRun::judge(FaultSeen& fault, const std::map<std::uint64_t, double>& deadlines_ms) {
    fault.set_deadlines(deadlines_ms);
    if (fault.late_ms > fault.late_ms_max()) {
        fault.disturbed = fault.stolen_share > stolen_share_max;
        if (!fault.disturbed)
            fail(
                fmt::format("{} of {} at step {}: {} was {:.0f} ms late, {:.0f} ms are allowed "
                            "(the deadline was {:.0f} ms)",
                            to_string(fault.kind),
                            fault.victim,
                            fault.first_step,
                            fault.latest,
                            fault.late_ms,
                            fault.late_ms_max(),
                            fault.latest_deadline_ms));
    }
    const double longest =
        rounds_ms_.empty() ? 0 : *std::max_element(rounds_ms_.begin(), rounds_ms_.end());
    if (fault.deadline_ms > std::max(deadline_min_ms, 3 * longest))
        fail(
            fmt::format("the deadline of step {} was {:.0f} ms, the longest round had taken "
                        "{:.0f} ms",
                        fault.first_step,
                        fault.deadline_ms,
                        longest));
}

}  // namespace dedloc::lab
