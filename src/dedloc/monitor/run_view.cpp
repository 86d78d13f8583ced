#include "dedloc/monitor/run_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace dedloc::monitor {
namespace {

using membership::Phase;
using membership::Role;
using membership::Status;

// A peer may claim to have computed so much for a step, in targets.
constexpr std::uint64_t claimed_targets_max = 1000;

bool is_trainer(const Status& status) { return status.role == Role::trainer; }

// The middle one; the higher of two. Nothing: there is none.
template <typename Value>
std::optional<Value> upper_median(std::vector<Value> values) {
    if (values.empty()) return std::nullopt;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// 0 where it is no number.
int percent(double fraction) {
    return fraction > 0 ? static_cast<int>(std::min(fraction, 1.0) * 100) : 0;
}

// A trainer's own part of the target batch is what its speed lets expect.
std::string doing_of(const Status& status, double speed_sum, std::uint64_t target) {
    if (status.role == Role::observer) return "watching";
    if (status.role == Role::expert_server) return "serving";
    if (status.role == Role::aggregator && status.phase == Phase::averaging) return "reducing";
    switch (status.phase) {
        case Phase::starting:
            return "starting";
        case Phase::downloading:
            return fmt::format("downloading {} %", percent(status.progress));
        case Phase::computing: {
            const double share =
                speed_sum > 0 ? status.samples_per_s / speed_sum * static_cast<double>(target) : 0;
            if (!is_trainer(status) || share < 1) return "computing";
            const double part = static_cast<double>(status.samples) / share;
            return fmt::format("computing {} %", percent(part));
        }
        case Phase::averaging:
            return "averaging";
        case Phase::waiting:  // a trainer only while it is paused, or its line is too slow
            return is_trainer(status) ? "resting" : "waiting";
        case Phase::leaving:
            return "leaving";
    }
    return "unknown";
}

struct At {
    Digest branch;
    std::uint64_t step;
    auto operator<=>(const At&) const = default;
};

// The state hash that most peers have at each branch and step; only where there are two or more.
std::map<At, Digest> usual_hashes(const std::vector<Status>& statuses) {
    std::map<At, std::map<Digest, int>> counts;
    std::map<At, int> peers;
    for (const Status& status : statuses) {
        if (status.state_hash.is_zero()) continue;
        const At at{status.branch, status.step};
        ++counts[at][status.state_hash];
        ++peers[at];
    }
    std::map<At, Digest> usual;
    for (const auto& [at, hashes] : counts) {
        if (peers[at] < 2) continue;
        const auto most = std::max_element(
            hashes.begin(), hashes.end(), [](auto& a, auto& b) { return a.second < b.second; });
        usual[at] = most->first;
    }
    return usual;
}

double finite_or_zero(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace

Tone tone_of(const events::Event& event) {
    using namespace events;
    if (event.is<PeerLost,
                 OwnerFailed,
                 RoundFailed,
                 ReplayFailed,
                 CheckpointFailed,
                 VotesFailed,
                 PublishFailed,
                 JoinFileFailed,
                 TrainingFailed,
                 SamplesDropped,
                 EventsDropped,
                 CannotFollow,
                 InputRefused,
                 MessageRefused,
                 StateDiffers,
                 LeaderSuspected,
                 RoundFull,
                 OrderGiven,
                 CheckDisputed,
                 CheckUndecided>())
        return Tone::bad;
    return event.is<Joined, PeerJoined, CheckpointSaved, RunOver, OrderEnded>() ? Tone::good
                                                                                : Tone::neutral;
}

bool is_routine(const events::Event& event) {
    using namespace events;
    return event.is<StepMade, PlanMade, Evaluated, CheckpointSaved, CheckMade>();
}

std::size_t RunView::live_peers() const {
    return static_cast<std::size_t>(
        std::count_if(peers.begin(), peers.end(), [](auto& peer) { return !peer.is_gone; }));
}

std::size_t RunView::state_hashes() const {
    std::set<Digest> hashes;
    for (const PeerView& peer : peers)
        if (!peer.is_gone && peer.step == step && !peer.state_hash.is_zero())
            hashes.insert(peer.state_hash);
    return hashes.size();
}

RunModel::RunModel(const run::RunFile& run, PeerId us, WallSeconds started)
    : name_(printable(run.name, view_text_bytes_max)),
      run_(run::run_hash(run)),
      target_(run.batch.target),
      stop_(run.stop),
      us_(std::move(us)),
      started_(started),
      now_(started) {}

void RunModel::add(const events::Event& event) {
    using namespace events;
    if (const auto* step = event.as<StepMade>())
        if (std::isfinite(step->loss) && event.step > 0) note_our_loss(event.step, step->loss);
    limit_.add(event);
    if (const auto* person = event.as<PersonSeen>())
        names_.set_person(event.peer.is_empty() ? us_ : event.peer, person->person);
    if (const auto* joined = event.as<PeerJoined>(); joined && joined->name)
        names_.set_name(event.peer, *joined->name);
    protection_.add(event);
    if (event.is<PeerLeft>()) {
        if (const auto found = gone_.find(event.peer); found != gone_.end())
            found->second.left = true;
        else
            for (Status& status : statuses_)
                if (status.peer == event.peer) status.phase = Phase::leaving;
    }
    if (event.text.empty()) return;
    std::string text = printable(event.text, view_text_bytes_max);
    const bool routine =
        is_routine(event) || is_of_a_failure_that_was_told(event) || was_told_at(event.time, text);
    add_line({.seconds = std::max(0.0, event.time - started_),
              .peer = event.peer,
              .text = std::move(text),
              .tone = tone_of(event),
              .is_routine = routine});
}

bool RunModel::was_just_told(const events::Event& event) const {
    return was_told_at(event.time, printable(event.text, view_text_bytes_max));
}

bool RunModel::was_told_at(WallSeconds time, const std::string& text) const {
    return std::ranges::any_of(events_, [&](const EventView& told) {
        return !told.is_routine && told.text == text &&
               std::abs(time - started_ - told.seconds) <= one_failure_seconds;
    });
}

// A peer that is killed fails as an owner and as a leader, its parts are repaired, and then it is
// gone: people are told the first and the last. The event log has all.
bool RunModel::is_of_a_failure_that_was_told(const events::Event& event) {
    using namespace events;
    std::erase_if(failing_, [&](const auto& each) {
        return std::abs(event.time - each.second) > one_failure_seconds;
    });
    if (event.is<PartsRepaired>()) return !failing_.empty();
    if (event.peer.is_empty() || !event.is<OwnerFailed, LeaderSuspected, PeerLost>()) return false;
    const bool was_told = !failing_.try_emplace(event.peer, event.time).second;
    return was_told && !event.is<PeerLost>();
}

void RunModel::add_note(WallSeconds time, std::string text, Tone tone) {
    add_line({.seconds = std::max(0.0, time - started_),
              .peer = {},
              .text = printable(text, view_text_bytes_max),
              .tone = tone});
}

void RunModel::add_line(EventView line) {
    line.number = ++events_count_;
    events_.push_back(std::move(line));
    if (events_.size() > view_events_max) events_.pop_front();
}

void RunModel::remember_gone(const std::vector<Status>& statuses, WallSeconds now) {
    const auto is_here = [&](const PeerId& id) {
        return std::any_of(
            statuses.begin(), statuses.end(), [&](auto& status) { return status.peer == id; });
    };
    for (const Status& status : statuses_)
        if (!is_here(status.peer))
            gone_[status.peer] = {
                .last = status, .since = now, .left = status.phase == Phase::leaving};
    std::erase_if(gone_, [&](const auto& entry) {
        return is_here(entry.first) || now - entry.second.since > gone_peer_seconds;
    });
}

// A peer that has no state yet stands nowhere. When nobody is left, the run stays where it was.
void RunModel::note_step() {
    std::vector<std::uint64_t> steps;
    std::vector<double> totals;
    for (const Status& status : statuses_) {
        if (!is_trainer(status) || status.is_newcomer()) continue;
        steps.push_back(status.step);
        totals.push_back(finite_or_zero(status.branch_samples));
    }
    const std::uint64_t step = upper_median(std::move(steps)).value_or(step_);
    if (step > step_) note_loss_of(step);
    // Steps that somebody claimed who is alone no more, or of a branch that was lost.
    if (step < step_) losses_.erase(losses_.upper_bound(step), losses_.end());
    step_ = step;
    if (const auto total = upper_median(std::move(totals))) note_samples(*total);
}

// When it was first looked at, a step was being made already: its time is not known.
void RunModel::note_samples(double samples) {
    while (!speed_steps_.empty() &&
           (speed_steps_.back().samples > samples || speed_steps_.back().at > now_))
        speed_steps_.pop_back();
    if (samples_total_ && samples > *samples_total_)
        speed_steps_.push_back({.at = now_, .samples = samples});
    if (speed_steps_.size() > view_speed_steps_max + 1) speed_steps_.pop_front();
    samples_total_ = samples;
}

// Sums those who compute. What they lose in rounds and by waiting is not in it.
double RunModel::computed_per_s() const {
    double sum = 0;
    for (const Status& status : statuses_)
        if (status.is_training()) sum += finite_or_zero(status.samples_per_s);
    return sum;
}

// A step that takes longer than those before it tells before it ends.
double RunModel::committed_per_s() const {
    if (speed_steps_.size() < 2) return 0;
    const Committed& first = speed_steps_.front();
    const Committed& last = speed_steps_.back();
    const double seconds = last.at - first.at;
    const double step_seconds = seconds / static_cast<double>(speed_steps_.size() - 1);
    const double counted = std::max(seconds, now_ - first.at - step_seconds);
    return counted > 0 ? (last.samples - first.samples) / counted : 0;
}

// Steps or samples, whichever end the run first. No speed tells when an accuracy is reached.
double RunModel::seconds_left(double samples_per_s) const {
    const double total = samples_total_.value_or(0);
    double samples = std::numeric_limits<double>::infinity();
    if (stop_.steps > 0)
        samples = static_cast<double>(stop_.steps - std::min(stop_.steps, step_)) *
                  static_cast<double>(target_);
    if (stop_.samples > 0) samples = std::min(samples, static_cast<double>(stop_.samples) - total);
    const double seconds = samples_per_s > 0 ? samples / samples_per_s : 0;
    return std::isfinite(seconds) ? std::max(seconds, 0.0) : 0;
}

// The mean of all says more.
void RunModel::note_our_loss(std::uint64_t step, double loss) {
    const auto known = losses_.find(step);
    if (known == losses_.end() || known->second.is_ours)
        losses_[step] = {.mean = loss, .is_ours = true};
}

// A new step: what ran until now was the loss of the step that has just been made. Of steps beyond
// it what this peer handed in is known better.
void RunModel::note_loss_of(std::uint64_t step) {
    if (running_loss_ <= 0 || running_step_ != step_) return;
    const auto [loss, is_new] =
        losses_.try_emplace(step, StepLoss{.mean = running_loss_, .is_ours = running_is_ours_});
    if (!is_new && step == step_ + 1 && !running_is_ours_)
        loss->second = {.mean = running_loss_, .is_ours = false};
}

void RunModel::put_losses(RunView& view) const {
    const auto end = losses_.upper_bound(step_);  // a step may be here before most have made it
    for (auto loss = losses_.begin(); loss != end; ++loss) view.losses.push_back(loss->second.mean);
    view.loss = view.losses.empty() ? running_loss_ : view.losses.back();
    const bool is_ours = view.losses.empty() ? running_is_ours_ : std::prev(end)->second.is_ours;
    view.loss_is_ours =
        is_ours && std::ranges::any_of(statuses_, [this](const Status& status) {
            return status.peer != us_ && is_trainer(status) && !status.is_newcomer();
        });
}

void RunModel::note_loss() {
    double loss_sum = 0;
    bool is_ours = true;
    double weight = 0;
    for (const Status& status : statuses_) {
        const bool counts = status.step == step_ && status.samples > 0 &&
                            status.samples <= claimed_targets_max * target_;
        if (!counts || !(status.loss > 0 && status.loss <= membership::loss_told_max)) continue;
        is_ours = is_ours && status.peer == us_;
        loss_sum += status.loss * static_cast<double>(status.samples);
        weight += static_cast<double>(status.samples);
    }
    if (weight > 0) {
        running_loss_ = loss_sum / weight;
        running_step_ = step_;
        running_is_ours_ = is_ours;
    }
    while (losses_.size() > view_losses_max) losses_.erase(losses_.begin());
}

// The newest of those who are here has it. Where who measured a newer one has gone, what it said
// stays, if the run has come so far.
void RunModel::note_accuracy() {
    const Status* newest = nullptr;
    for (const Status& status : statuses_)
        if (status.accuracy_step > (newest ? newest->accuracy_step : 0) &&
            std::isfinite(status.accuracy))
            newest = &status;
    if (newest == nullptr) return;
    if (newest->accuracy_step < accuracy_step_ && accuracy_step_ <= step_) return;
    accuracy_ = newest->accuracy;
    accuracy_step_ = newest->accuracy_step;
}

void RunModel::update(std::vector<Status> statuses, WallSeconds now) {
    now_ = now;
    remember_gone(statuses, now);
    statuses_ = std::move(statuses);
    for (const Status& status : statuses_) names_.set_name(status.peer, status.name);
    note_step();
    note_loss();
    note_accuracy();
}

std::string RunModel::limit() const {
    const RoundLimit::Planned* const planned = limit_.newest();
    if (planned == nullptr) return {};
    const events::PlanMade& plan = planned->plan;
    const auto peer = PeerId::from_text(plan.bottleneck_peer.value_or(""));
    if (!peer) return {};
    const std::string what = plan.bottleneck.value_or("line");
    std::string text = fmt::format("limit: {}'s {}", names_.of(*peer), what);
    if (plan.bottleneck_mbit) text += fmt::format(", {:.3g} Mb/s", *plan.bottleneck_mbit);
    if (!is_limit_measured(plan, statuses_).value_or(true)) text += " (not measured yet)";
    return text + fmt::format("; the round of step {} was planned to take {:.3g} s",
                              planned->step,
                              plan.predicted_s);
}

PeerView RunModel::view_of(const Status& status, double all_compute_per_s) const {
    return {.id = status.peer,
            .name = names_.of(status.peer),
            .is_us = !us_.is_empty() && status.peer == us_,
            .role = status.role,
            .doing = protection_.has_banned(status.peer)
                         ? "banned"
                         : doing_of(status, all_compute_per_s, target_),
            .is_gone = false,
            .is_banned = protection_.has_banned(status.peer),
            .samples_per_s = finite_or_zero(status.samples_per_s),
            .upload_bytes_per_s = finite_or_zero(status.upload_bytes_per_s),
            .download_bytes_per_s = finite_or_zero(status.download_bytes_per_s),
            .round_trip_s = finite_or_zero(status.round_trip_s),
            .step = status.step,
            .state_hash = status.state_hash,
            .mark = HashMark::none};
}

PeerView RunModel::view_of(const Gone& gone) const {
    PeerView peer;
    peer.id = gone.last.peer;
    peer.name = names_.of(gone.last.peer);
    peer.role = gone.last.role;
    peer.doing = fmt::format(
        "{} {:.0f} s ago", gone.left ? "left" : "lost", std::max(0.0, now_ - gone.since));
    peer.is_gone = true;
    peer.step = gone.last.step;
    return peer;
}

RunView RunModel::view() const {
    RunView view;
    view.name = name_;
    view.run = run_;
    view.seconds = std::max(0.0, now_ - started_);
    view.step = step_;
    view.steps = stop_.steps;
    view.accuracy_goal = stop_.accuracy;
    view.accuracy = accuracy_;
    view.accuracy_step = accuracy_step_;
    view.target = target_;
    put_losses(view);
    view.events.assign(events_.begin(), events_.end());
    // The engine writes ids where it does not know a name yet.
    for (EventView& event : view.events) event.text = names_.in(event.text);
    view.protection = protection_.line(names_);
    view.protection_standing = protection_.standing(names_);
    view.bans = protection_.bans(names_);
    view.limit = limit();

    view.samples_total = samples_total_.value_or(0);
    const double all_compute_per_s = computed_per_s();
    view.computed_per_s = all_compute_per_s;
    view.samples_per_s = speed_steps_.size() < 2 ? all_compute_per_s : committed_per_s();
    view.seconds_left = seconds_left(committed_per_s());
    const auto usual = usual_hashes(statuses_);
    for (const Status& status : statuses_) {
        if (status.step == step_ && status.samples <= claimed_targets_max * target_)
            view.samples += status.samples;
        PeerView peer = view_of(status, all_compute_per_s);
        if (peer.is_us && status.is_training() && all_compute_per_s > 0)
            view.our_share = peer.samples_per_s / all_compute_per_s;
        const auto at = usual.find(At{status.branch, status.step});
        if (at != usual.end() && !status.state_hash.is_zero())
            peer.mark = at->second == status.state_hash ? HashMark::equal : HashMark::different;
        view.peers.push_back(std::move(peer));
    }
    for (const auto& [id, gone] : gone_) view.peers.push_back(view_of(gone));
    std::sort(view.peers.begin(), view.peers.end(), [](const PeerView& a, const PeerView& b) {
        return std::tuple(a.is_gone, !a.is_us, std::string_view(a.name)) <
               std::tuple(b.is_gone, !b.is_us, std::string_view(b.name));
    });
    return view;
}

}  // namespace dedloc::monitor
