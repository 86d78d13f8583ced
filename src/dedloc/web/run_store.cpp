#include "dedloc/web/run_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "dedloc/base/printable.h"
#include "dedloc/monitor/event_log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/web/run_state.h"
#include "dedloc/web/steady_seconds.h"

namespace dedloc::web {
namespace {

// The event as the log writes it, behind its number and tone.
std::string numbered_json(std::uint64_t number, const events::Event& event) {
    const auto tone = monitor::tone_of(event);
    const std::string begin = fmt::format(R"({{"number":{},"tone":"{}","routine":{},)",
                                          number,
                                          tone == monitor::Tone::bad    ? "bad"
                                          : tone == monitor::Tone::good ? "good"
                                                                        : "neutral",
                                          monitor::is_routine(event));
    std::string line = monitor::to_json_line(event);
    if (line.size() > event_bytes_max) {
        events::Event shorter{.time = event.time, .peer = event.peer, .step = event.step};
        shorter.text = base::printable(event.text, monitor::view_text_bytes_max);
        shorter.what = events::Unknown{.kind = std::string(event.kind()).substr(0, 64)};
        line = monitor::to_json_line(shorter);
    }
    return begin + line.substr(1);
}

template <typename Value>
void keep_newest(std::deque<Value>& values, std::size_t most) {
    while (values.size() > most) values.pop_front();
}

bool is_trouble(const events::Event& event) {
    using namespace events;
    return event.is<PeerLost,
                    OwnerFailed,
                    InputRefused,
                    MessageRefused,
                    LeaderSuspected,
                    StateDiffers,
                    AdmissionRefused,
                    WaitedInVain,
                    CheckDisputed,
                    TrainingFailed,
                    CheckpointFailed,
                    PublishFailed,
                    VotesFailed,
                    CannotFollow,
                    UnsentLost,
                    ReplayFailed>();
}

}  // namespace

// ---- events -------------------------------------------------------------------------------------

void RunStore::State::take_in() {
    std::deque<events::Event> taken;
    std::uint64_t lost = 0;
    {
        const std::lock_guard lock(inbox_mutex);
        taken.swap(inbox);
        lost = std::exchange(inbox_lost, 0);
    }
    events_count += lost;  // a gap in the numbers, which viewers are told of
    for (const events::Event& event : taken) add(event);
}

void RunStore::State::add(const events::Event& event) {
    number(event);
    note(event);
    why.add(event);
    limit.add(event);
    ++why_steps;
    if (kinds.size() < 256 || kinds.contains(std::string(event.kind())))
        ++kinds[std::string(event.kind())];
    if (const auto* made = event.as<events::PlanMade>()) plan = *made;
    if (const auto* made = event.as<events::StepMade>()) add_step(event, *made);
    if (const auto* made = event.as<events::Evaluated>()) {
        evaluated = *made;
        point("accuracy", event.time, made->step, made->accuracy);
        point("evaluation_loss", event.time, made->step, made->loss);
    }
    changed();
}

void RunStore::State::number(const events::Event& event) {
    events.push_back({.number = ++events_count,
                      .is_routine = monitor::is_routine(event),
                      .json = numbered_json(events_count, event)});
    if (events.size() <= kept_events_max) return;
    if (!events.front().is_routine) notable.push_back(std::move(events.front()));
    events.pop_front();
    keep_newest(notable, kept_notable_max);
}

void RunStore::State::point(const char* name, WallSeconds time, std::uint64_t step, double value) {
    if (std::isfinite(value)) series[name].add({.time = time, .step = step, .value = value});
}

void RunStore::State::add_step(const events::Event& event, const events::StepMade& step) {
    const auto add_point = [&](const char* name, double value) {
        point(name, event.time, step.step, value);
    };
    add_point("loss", step.loss);
    add_point("samples", step.samples);
    add_point("step_s", step.seconds);
    add_point("learning_rate", step.learning_rate);
    add_point("contributors", static_cast<double>(step.contributors));
    add_point("members", static_cast<double>(step.members));
    add_point("left_out", static_cast<double>(step.left_out));
    if (step.gradient_norm) add_point("gradient_norm", *step.gradient_norm);
    if (step.tau) add_point("tau", *step.tau);
    add_shares(event, step);
    last_step = step;
    ++steps_seen;
    samples_seen += step.samples;
    seconds_seen.computing_s += step.computing_s.value_or(0);
    seconds_seen.waiting_s += step.waiting_s.value_or(0);
    seconds_seen.averaging_s += step.averaging_s.value_or(0);
    seconds_seen.applying_s += step.applying_s.value_or(0);
    rounds.push_back({.time = event.time, .step = step, .plan = std::exchange(plan, std::nullopt)});
    keep_newest(rounds, kept_rounds_max);
}

void RunStore::State::add_shares(const events::Event& event, const events::StepMade& step) {
    if (!step.shares) return;
    if (!ledger_first) ledger_first = step.step;
    has_shares = true;
    monitor::CertifiedStep seen{.step = step.step, .time = event.time, .loss = {}, .shares = {}};
    for (const events::StepShare& share : *step.shares) {
        if (!(share.samples > 0)) continue;
        seen.shares.push_back({share.peer, share.samples});
        credit(share.peer, share.samples);
    }
    attendance.add(seen);
    ++steps_with_shares;
    certified.push_back(std::move(seen));
    keep_newest(certified, monitor::why_steps_max);
}

void RunStore::State::credit(const PeerId& peer, double samples) {
    if (ledger.size() < ledger_peers_max || ledger.contains(peer))
        ledger[peer] += samples;
    else
        ledger_others += samples;
}

// Sessions go on over the border, where the steps behind it are all kept.
void RunStore::State::attend_before(const std::vector<monitor::CertifiedStep>& earlier) {
    monitor::Attendance whole{ledger_peers_max};
    for (const monitor::CertifiedStep& step : earlier) whole.add(step);
    if (steps_with_shares > certified.size()) {
        earlier_attendance = std::move(whole);
        return;
    }
    for (const monitor::CertifiedStep& step : certified) whole.add(step);
    attendance = std::move(whole);
}

// Where there are too many notes, the peer that was not heard of for longest loses its own.
PeerNotes& RunStore::State::notes_of(const PeerId& peer) {
    const PeerId& about = peer.is_empty() ? facts.us : peer;
    if (notes.size() >= noted_peers_max && !notes.contains(about))
        notes.erase(std::ranges::min_element(
            notes, {}, [](const auto& entry) { return entry.second.number; }));
    PeerNotes& found = notes[about];
    found.number = events_count;
    return found;
}

void RunStore::State::note(const events::Event& event) {
    const auto own_name = [&](const std::optional<std::string>& id,
                              const std::optional<std::string>& name) {
        if (auto peer = PeerId::from_text(id.value_or(""))) {
            if (facts.us.is_empty() && facts.mode == Mode::replay) facts.us = *peer;
            notes_of(*peer).here = true;
            if (name) names.set_name(*peer, *name);
        }
    };
    if (const auto* began = event.as<events::RunStarted>()) own_name(began->id, began->name);
    if (const auto* came = event.as<events::Joined>()) own_name(came->id, came->name);
    if (const auto* joined = event.as<events::PeerJoined>()) {
        notes_of(event.peer).here = true;
        if (joined->name) names.set_name(event.peer, *joined->name);
    }
    if (event.is<events::PeerLeft, events::PeerLost, events::Left>())
        notes_of(event.peer).here = false;
    if (const auto* seen = event.as<events::PersonSeen>()) {
        notes_of(event.peer).person = seen->person;
        names.set_person(event.peer.is_empty() ? facts.us : event.peer, seen->person);
    }
    if (is_trouble(event)) notes_of(event.peer).error = event;
    if (const auto* order = event.as<events::OrderGiven>())
        notes_of(order->about_us == 1 ? facts.us : event.peer).order = event;
    if (event.is<events::OrderEnded>()) notes_of(event.peer).order.reset();
    if (event.is<events::CheckMade>()) ++notes_of(event.peer).made;
    if (event.is<events::CheckDisputed>()) ++notes_of(event.peer).disputed;
    if (const auto* right = event.as<events::NewcomerRight>()) {
        PeerNotes& peer = notes_of(right->about_us == 1 ? facts.us : event.peer);
        peer.right = right->right;
        peer.needed = right->needed;
    }
}

// ---- the store ----------------------------------------------------------------------------------

RunStore::RunStore(RunFacts facts) : state_(std::make_unique<State>(std::move(facts))) {}
RunStore::~RunStore() = default;

void RunStore::record(const events::Event& event) {
    const std::lock_guard lock(state_->inbox_mutex);
    state_->inbox.push_back(event);
    if (state_->inbox.size() <= inbox_events_max) return;
    state_->inbox.pop_front();
    ++state_->inbox_lost;
}

void RunStore::update(RunSnapshot snapshot) {
    State& s = *state_;
    {
        const std::lock_guard lock(s.mutex);
        s.take_in();
        ++s.tick;
        for (const membership::Status& status : snapshot.statuses) {
            s.names.set_name(status.peer, status.name);
            std::deque<Stretch>& stretches = s.timeline[status.peer];
            if (stretches.empty() || stretches.back().phase != status.phase) {
                if (!stretches.empty()) stretches.back().to = snapshot.now;
                if (!stretches.empty()) stretches.back().tick = s.tick;
                stretches.push_back(
                    {.from = snapshot.now, .to = snapshot.now, .phase = status.phase});
            }
            stretches.back().to = snapshot.now;
            stretches.back().tick = s.tick;
            keep_newest(stretches, stretches_max);
        }
        // A peer that is gone for longest gives way.
        while (s.timeline.size() > membership::peers_max)
            s.timeline.erase(std::ranges::min_element(
                s.timeline, {}, [](const auto& entry) { return entry.second.back().to; }));
        if (!snapshot.carried.empty()) s.traffic.add(snapshot.now, snapshot.carried);
        s.snapshot = std::move(snapshot);
        s.changed();
    }
    s.news.notify_all();
}

void RunStore::add_history(const monitor::RunHistory& history) {
    State& s = *state_;
    const std::lock_guard lock(s.mutex);
    std::vector<monitor::CertifiedStep> earlier;
    for (const monitor::CertifiedStep& step : history.steps) {
        if (s.ledger_first && step.step >= *s.ledger_first) continue;  // counted already
        s.has_shares = true;
        for (const auto& share : step.shares) s.credit(share.peer, share.samples);
        earlier.push_back(step);
    }
    s.attend_before(earlier);
    for (const auto& [peer, person] : history.persons) s.names.set_name(peer, person);
    s.changed();
}

void RunStore::reset() {
    State& s = *state_;
    {
        const std::lock_guard lock(s.mutex);
        s.take_in();
        s.snapshot = {};
        s.traffic = {};
        s.events_count = 0;
        s.events.clear();
        s.notable.clear();
        s.series.clear();
        s.rounds.clear();
        s.plan.reset();
        s.timeline.clear();
        s.notes.clear();
        s.certified.clear();
        s.last_step.reset();
        s.evaluated.reset();
        s.steps_seen = 0;
        s.samples_seen = 0;
        s.seconds_seen = {};
        s.kinds.clear();
        s.why = monitor::WhyEvents(s.facts.run);
        s.why_json = nullptr;
        ++s.generation;
        s.changed();
    }
    s.news.notify_all();
}

void RunStore::end(std::string reason) {
    {
        const std::lock_guard lock(state_->mutex);
        state_->take_in();
        state_->over = true;
        state_->end_reason = std::move(reason);
        state_->changed();
    }
    state_->news.notify_all();
}

void RunStore::set_vector_bytes(double bytes) {
    const std::lock_guard lock(state_->mutex);
    state_->facts.vector_bytes = bytes;
}

namespace {

// The text of that name as it was made since the last change, or made now.
template <typename Make>
std::string text_of(RunStore::State& state, std::string_view name, Make make) {
    RunStore::State::Text& text = state.texts[name];
    if (text.made_at != state.changes || text.json.empty()) {
        text.json = monitor::json_line(make());
        text.made_at = state.changes;
    }
    return text.json;
}

}  // namespace

std::string RunStore::run_json() {
    State& s = *state_;
    std::unique_lock lock(s.mutex);
    const bool due = s.last_step && steady_seconds() - s.why_at > why_again_s && s.why_steps > 0;
    if (due) {
        s.why_at = steady_seconds();
        s.why_steps = 0;
        const monitor::WhyEvents why = s.why;
        const std::vector<monitor::CertifiedStep> certified(s.certified.begin(), s.certified.end());
        // Planning takes a while; who trains is not kept waiting by it.
        lock.unlock();
        Json json = json_of(monitor::explain(why.facts(certified)));
        lock.lock();
        s.why_json = std::move(json);
        s.changed();
    }
    return text_of(s, "run", [&s] { return run_json_of(s); });
}

std::string RunStore::peers_json() {
    const std::lock_guard lock(state_->mutex);
    return text_of(*state_, "peers", [this] { return peers_json_of(*state_); });
}

std::string RunStore::series_json() {
    const std::lock_guard lock(state_->mutex);
    return text_of(*state_, "series", [this] { return series_json_of(*state_); });
}

std::string RunStore::rounds_json() {
    const std::lock_guard lock(state_->mutex);
    return text_of(*state_, "rounds", [this] { return rounds_json_of(*state_); });
}

std::string RunStore::flows_json() {
    const std::lock_guard lock(state_->mutex);
    return text_of(*state_, "flows", [this] { return flows_json_of(*state_); });
}

std::string RunStore::timeline_json(std::uint64_t& tick) {
    const std::lock_guard lock(state_->mutex);
    Json json = Json::object();
    for (const auto& [peer, stretches] : state_->timeline)
        if (Json changed = stretches_json(stretches, tick); !changed.empty())
            json[peer.text()] = std::move(changed);
    tick = state_->tick;
    return json.empty() ? std::string() : monitor::json_line(json);
}

RunStore::Events RunStore::events_after(std::uint64_t after, std::size_t limit) {
    const std::lock_guard lock(state_->mutex);
    State& s = *state_;
    Events found{.oldest = s.events.empty() ? s.events_count + 1 : s.events.front().number,
                 .newest = s.events_count};
    const auto is_later = [after](const NumberedEvent& event) { return event.number > after; };
    std::ranges::copy_if(s.notable, std::back_inserter(found.events), is_later);
    std::ranges::copy_if(s.events, std::back_inserter(found.events), is_later);
    if (found.events.size() > limit)
        found.events.erase(found.events.begin(),
                           found.events.end() - static_cast<std::ptrdiff_t>(limit));
    return found;
}

std::string RunStore::events_json(std::uint64_t after, std::size_t limit) {
    const Events found = events_after(after, limit);
    std::string text =
        fmt::format(R"({{"first":{},"last":{},"events":[)",
                    found.events.empty() ? found.oldest : found.events.front().number,
                    found.newest);
    for (std::size_t i = 0; i < found.events.size(); ++i) {
        if (i > 0) text += ',';
        text += found.events[i].json;
    }
    return text + "]}";
}

RunStore::Version RunStore::version() {
    const std::lock_guard lock(state_->mutex);
    return state_->version();
}

RunStore::Version RunStore::wait_for_news(std::uint64_t changes, double seconds) {
    std::unique_lock lock(state_->mutex);
    state_->news.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
        return state_->changes != changes || state_->over;
    });
    return state_->version();
}

std::string RunStore::end_reason() {
    const std::lock_guard lock(state_->mutex);
    return state_->end_reason;
}

RunStore::Sums RunStore::sums() {
    const std::lock_guard lock(state_->mutex);
    const State& s = *state_;
    Sums sums{.facts = s.facts,
              .view = s.snapshot.view,
              .last = s.last_step,
              .last_at = s.rounds.empty() ? 0 : s.rounds.back().time,
              .evaluated = s.evaluated,
              .steps = s.steps_seen,
              .samples = s.samples_seen,
              .seconds = s.seconds_seen,
              .up_mbit = s.snapshot.up_mbit,
              .down_mbit = s.snapshot.down_mbit,
              .paused = s.snapshot.paused,
              .events = s.kinds,
              .statuses = s.snapshot.statuses};
    sums.banned = static_cast<std::size_t>(std::ranges::count_if(
        s.notes, [](const auto& entry) { return entry.second.order.has_value(); }));
    return sums;
}

}  // namespace dedloc::web
