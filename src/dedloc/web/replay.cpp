#include "dedloc/web/replay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "dedloc/monitor/run_history.h"
#include "dedloc/web/run_state.h"

namespace dedloc::web {
namespace {

constexpr auto replay_frame = std::chrono::milliseconds(250);
constexpr std::size_t events_at_once = inbox_events_max / 2;

RunFacts facts_of_replay(const run::RunFile& run, const std::string& version, WallSeconds from) {
    RunFacts facts;
    facts.mode = Mode::replay;
    facts.version = version;
    facts.run = run;
    facts.started = from;
    facts.may = {"replay"};
    return facts;
}

}  // namespace

struct Replay::State {
    State(const run::RunFile& a_run, const std::string& version, std::vector<events::Event> all)
        : run(a_run),
          events(std::move(all)),
          store(facts_of_replay(a_run, version, events.front().time)),
          model(a_run, {}, events.front().time) {}

    // The callers of all of these hold `mutex`.
    void show_until(WallSeconds at);
    void jump_to(WallSeconds at);
    void tell();
    void play();
    Result<nlohmann::ordered_json> set(const nlohmann::ordered_json& body);

    run::RunFile run;
    std::vector<events::Event> events;  // by time
    RunStore store;
    monitor::RunModel model;
    std::size_t shown = 0;
    std::uint64_t step = 0;  // of the newest event that is shown
    Sheets sheets;
    std::mutex mutex;
    std::condition_variable wake;
    ReplayAt place;
    bool closing = false;
    std::thread thread;
};

void Replay::State::tell() {
    model.update({}, place.at);
    RunSnapshot snapshot;
    snapshot.view = model.view();
    snapshot.now = place.at;
    snapshot.replay = place;
    snapshot.sheets = sheets.until(step);
    store.update(std::move(snapshot));
}

void Replay::State::show_until(WallSeconds at) {
    std::size_t count = 0;
    for (; shown < events.size() && events[shown].time <= at; ++shown) {
        model.add(events[shown]);
        store.record(events[shown]);
        if (const auto* made = events[shown].as<events::StepMade>()) step = made->step;
        if (++count % events_at_once == 0) tell();
    }
    place.at = std::min(at, place.to);
    if (place.at >= place.to) place.playing = false;
    tell();
}

void Replay::State::jump_to(WallSeconds at) {
    if (at < place.at) {
        store.reset();
        step = 0;
        model = monitor::RunModel(run, {}, events.front().time);
        shown = 0;
    }
    show_until(at);
}

void Replay::State::play() {
    using Clock = std::chrono::steady_clock;
    std::unique_lock lock(mutex);
    Clock::time_point last = Clock::now();
    while (!closing) {
        wake.wait_for(lock, replay_frame);
        const Clock::time_point now = Clock::now();
        const double seconds = std::chrono::duration<double>(now - last).count();
        last = now;
        if (place.playing) show_until(place.at + seconds * place.speed);
    }
}

Result<nlohmann::ordered_json> Replay::State::set(const nlohmann::ordered_json& body) {
    const auto number = [&body](const char* name) -> std::optional<double> {
        const auto found = body.find(name);
        if (found == body.end() || !found->is_number()) return std::nullopt;
        return found->get<double>();
    };
    const std::lock_guard lock(mutex);
    bool understood = false;
    if (const auto speed = number("speed")) {
        if (!(*speed >= replay_speed_min && *speed <= replay_speed_max))
            return make_error(ErrorKind::bad_input,
                              "a speed is between {} and {:.0f}",
                              replay_speed_min,
                              replay_speed_max);
        place.speed = *speed;
        understood = true;
    }
    if (const auto playing = body.find("playing"); playing != body.end() && playing->is_boolean()) {
        place.playing = playing->get<bool>();
        if (place.playing && place.at >= place.to) jump_to(place.from);  // once more
        understood = true;
    }
    if (const auto at = number("at"); at && std::isfinite(*at)) {
        jump_to(std::clamp(*at, place.from, place.to));
        understood = true;
    }
    if (!understood)
        return make_error(ErrorKind::bad_input,
                          R"(say {{"speed":8}}, {{"playing":false}} or {{"at":T}})");
    tell();
    return json_of(place);
}

Replay::Replay(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Replay>> Replay::open(const std::string& folder,
                                             const run::RunFile& run,
                                             const std::string& version,
                                             double speed) {
    std::vector<events::Event> events;
    DEDLOC_TRY_VOID(monitor::read_events(
        folder, [&events](const events::Event& event) { events.push_back(event); }));
    if (events.empty())
        return make_error(ErrorKind::bad_input,
                          "{} has no events.jsonl with events: give the folder of a peer that took "
                          "part (`dedloc host` and `dedloc join` say it when they begin)",
                          folder);
    // The clock may have been set back during the run.
    std::ranges::stable_sort(events, {}, &events::Event::time);
    auto state = std::make_unique<State>(run, version, std::move(events));
    ReplayAt& place = state->place;
    place.from = state->events.front().time;
    place.to = state->events.back().time;
    place.at = place.from;
    place.speed = speed > 0 ? speed : std::max(1.0, (place.to - place.from) / replay_usual_s);
    state->sheets = sheets_in(sheets_folder_of(folder));
    // A folder without certificates has no ledger.
    if (const auto history = monitor::read_history(folder)) state->store.add_history(*history);
    state->show_until(place.from);
    state->thread = std::thread([playing = state.get()] { playing->play(); });
    return std::unique_ptr<Replay>(new Replay(std::move(state)));
}

Replay::~Replay() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->closing = true;
    }
    state_->wake.notify_all();
    state_->thread.join();
}

RunStore& Replay::store() { return state_->store; }

Action Replay::action() {
    return [state = state_.get()](
               const nlohmann::ordered_json& body) -> Result<nlohmann::ordered_json> {
        DEDLOC_TRY(auto place, state->set(body));
        return nlohmann::ordered_json{{"replay", std::move(place)}};
    };
}

void Replay::to_end() {
    const std::lock_guard lock(state_->mutex);
    state_->jump_to(state_->place.to);
}

}  // namespace dedloc::web
