#include <algorithm>
#include <cmath>
#include <set>

#include "dedloc/base/printable.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/web/run_state.h"

namespace dedloc::web {
namespace {

constexpr double speed_rounds = 10;

Json text_or_null(const std::string& text) {
    if (text.empty()) return nullptr;
    return base::printable(text, monitor::view_text_bytes_max);
}

Json id_or_null(const PeerId& peer) {
    if (peer.is_empty()) return nullptr;
    return peer.text();
}

// 0: not known.
Json known_or_null(double value) { return value > 0 ? number_or_null(value) : Json(nullptr); }

std::string_view to_string(Mode mode) {
    switch (mode) {
        case Mode::peer:
            return "peer";
        case Mode::watch:
            return "watch";
        case Mode::replay:
            return "replay";
    }
    return "peer";
}

std::string_view to_string(monitor::HashMark mark) {
    switch (mark) {
        case monitor::HashMark::equal:
            return "equal";
        case monitor::HashMark::different:
            return "different";
        case monitor::HashMark::none:
            break;
    }
    return "none";
}

// The run's speed in the newest rounds of the log; 0: there is none.
double logged_samples_per_s(const RunStore::State& state) {
    double samples = 0;
    double seconds = 0;
    double counted = 0;
    for (auto round = state.rounds.rbegin(); round != state.rounds.rend() && counted < speed_rounds;
         ++round, ++counted) {
        samples += round->step.samples;
        seconds += round->step.seconds;
    }
    return seconds > 0 ? samples / seconds : 0;
}

std::size_t present_by_events(const RunStore::State& state) {
    return static_cast<std::size_t>(
        std::ranges::count_if(state.notes, [](const auto& entry) { return entry.second.here; }));
}

Json progress_of(const RunStore::State& state) {
    const monitor::RunView& view = state.snapshot.view;
    const auto& step = state.last_step;
    const bool replayed = state.facts.mode == Mode::replay;
    const auto& loss = state.series.find("loss");
    const bool has_loss = loss != state.series.end();
    const double accuracy = state.evaluated ? state.evaluated->accuracy : view.accuracy;
    const std::uint64_t accuracy_step =
        state.evaluated ? state.evaluated->step : view.accuracy_step;
    return {
        {"step", step ? step->step : view.step},
        {"samples", view.samples},
        {"samples_total", number_or_null(step ? step->samples_total : view.samples_total)},
        {"samples_per_s",
         number_or_null(replayed ? logged_samples_per_s(state) : view.samples_per_s)},
        {"computed_per_s", number_or_null(view.computed_per_s)},
        {"our_share", number_or_null(view.our_share)},
        {"seconds_left", known_or_null(view.seconds_left)},
        {"loss", has_loss ? number_or_null(loss->second.last().value) : known_or_null(view.loss)},
        {"accuracy", accuracy_step > 0 ? number_or_null(accuracy) : Json(nullptr)},
        {"accuracy_step", accuracy_step},
        {"live_peers", replayed ? present_by_events(state) : view.live_peers()},
        {"state_hashes", view.state_hashes()}};
}

Json optional_number(const std::optional<double>& value) {
    return value ? number_or_null(*value) : Json(nullptr);
}

// The newest plan says whose line its round waits for; null: other peers plan, or nothing travels.
Json limit_of(const RunStore::State& state) {
    const monitor::RoundLimit::Planned* const planned = state.limit.newest();
    if (planned == nullptr || !planned->plan.bottleneck_peer) return nullptr;
    const events::PlanMade& plan = planned->plan;
    const auto measured = monitor::is_limit_measured(plan, state.snapshot.statuses);
    return {{"step", planned->step},
            {"peer", *plan.bottleneck_peer},
            {"what", plan.bottleneck.value_or("link")},
            {"mbit", optional_number(plan.bottleneck_mbit)},
            {"measured", measured ? Json(*measured) : Json(nullptr)},
            {"predicted_s", number_or_null(plan.predicted_s)}};
}

Json facts_of(const RunFacts& facts) {
    const run::RunFile& run = facts.run;
    return {{"name", base::printable(run.name, monitor::view_text_bytes_max)},
            {"hash", run::run_hash(run).hex()},
            {"task", run.task.kind},
            {"target", run.batch.target},
            {"steps_goal", run.stop.steps},
            {"samples_goal", run.stop.samples},
            {"accuracy_goal", run.stop.accuracy},
            {"robust", run.robust.has_value()},
            {"experts", run.task.section("experts") != nullptr},
            {"by_invitation", run.access.has_value()}};
}

Json event_note(const std::optional<events::Event>& event) {
    if (!event) return nullptr;
    return {{"time", event->time},
            {"kind", std::string(event->kind())},
            {"text", base::printable(event->text, monitor::view_text_bytes_max)}};
}

Json order_note(const std::optional<events::Event>& event) {
    if (!event) return nullptr;
    const auto* order = event->as<events::OrderGiven>();
    if (order == nullptr) return nullptr;
    return {{"time", event->time},
            {"step", event->step},
            {"order", order->order},
            {"offence", base::printable(order->offence, monitor::view_text_bytes_max)},
            {"evidence", order->evidence}};
}

void add_notes(Json& json, const PeerNotes& notes) {
    json["person"] = text_or_null(notes.person);
    json["last_error"] = event_note(notes.error);
    json["order"] = order_note(notes.order);
    json["checks"] = nullptr;
    if (notes.made + notes.needed + notes.disputed > 0)
        json["checks"] = {{"made", notes.made},
                          {"right", notes.right},
                          {"needed", notes.needed},
                          {"disputed", notes.disputed}};
}

double certified_of(const RunStore::State& state, const PeerId& peer) {
    const auto found = state.ledger.find(peer);
    return found == state.ledger.end() ? 0 : found->second;
}

Json peer_of(const RunStore::State& state,
             const monitor::PeerView& peer,
             const membership::Status* status) {
    const monitor::RunView& view = state.snapshot.view;
    Json json{
        {"id", peer.id.text()},
        {"name", peer.name},
        {"is_us", peer.is_us},
        {"role", std::string(membership::to_string(peer.role))},
        {"phase", status ? Json(std::string(membership::to_string(status->phase))) : Json(nullptr)},
        {"doing", peer.doing},
        {"gone", peer.is_gone},
        {"step", peer.step},
        {"samples_per_s", number_or_null(peer.samples_per_s)}};
    const bool computes = status && status->is_training() && view.computed_per_s > 0;
    json["share"] = computes ? number_or_null(peer.samples_per_s / view.computed_per_s) : Json(0.0);
    json["committed_samples"] = certified_of(state, peer.id);
    json["attended_s"] = state.seconds_of(peer.id);
    json["round_trip_s"] = number_or_null(peer.round_trip_s);
    json["upload_bytes_per_s"] = number_or_null(peer.upload_bytes_per_s);
    json["download_bytes_per_s"] = number_or_null(peer.download_bytes_per_s);
    json["version"] = status ? text_or_null(status->version) : Json(nullptr);
    json["dialable"] = status ? Json(status->dialable) : Json(nullptr);
    json["state_hash"] = peer.state_hash.is_zero() ? Json(nullptr) : Json(peer.state_hash.hex());
    json["mark"] = std::string(to_string(peer.mark));
    static const PeerNotes nothing{};
    const auto notes = state.notes.find(peer.id);
    add_notes(json, notes == state.notes.end() ? nothing : notes->second);
    return json;
}

// A peer that is known by events alone: of a replay, or banned and not there.
Json noted_peer_of(const RunStore::State& state, const PeerId& peer, const PeerNotes& notes) {
    Json json{{"id", peer.text()},
              {"name", state.name_of(peer)},
              {"is_us", peer == state.facts.us},
              {"role", "trainer"},
              {"phase", nullptr},
              {"doing", notes.here ? "" : "gone"},
              {"gone", !notes.here},
              {"step", nullptr},
              {"samples_per_s", nullptr},
              {"share", 0.0},
              {"committed_samples", certified_of(state, peer)},
              {"attended_s", state.seconds_of(peer)},
              {"round_trip_s", nullptr},
              {"upload_bytes_per_s", 0.0},
              {"download_bytes_per_s", 0.0},
              {"version", nullptr},
              {"dialable", nullptr},
              {"state_hash", nullptr},
              {"mark", "none"}};
    add_notes(json, notes);
    return json;
}

Json ledger_of(const RunStore::State& state) {
    struct Person {
        std::set<PeerId> devices;
        double samples = 0;
        double seconds = 0;
    };
    std::map<std::string, Person> people;
    double sum = state.ledger_others;
    for (const auto& [peer, samples] : state.ledger) {
        const auto notes = state.notes.find(peer);
        const bool invited = notes != state.notes.end() && !notes->second.person.empty();
        Person& person = people[invited ? notes->second.person : state.name_of(peer)];
        person.devices.insert(peer);
        person.samples += samples;
        person.seconds += state.seconds_of(peer);
        sum += samples;
    }
    std::vector<std::pair<std::string, Person>> sorted(people.begin(), people.end());
    std::ranges::sort(sorted, [](const auto& one, const auto& other) {
        return one.second.samples > other.second.samples;
    });
    Json list = Json::array();
    for (const auto& [name, person] : sorted) {
        if (list.size() == membership::peers_max) break;
        list.push_back({{"name", base::printable(name, monitor::view_text_bytes_max)},
                        {"devices", person.devices.size()},
                        {"samples", person.samples},
                        {"attended_s", person.seconds},
                        {"share", sum > 0 ? person.samples / sum : 0.0}});
    }
    return {{"certified", state.has_shares}, {"samples", sum}, {"people", std::move(list)}};
}

Json experts_of(const RunStore::State& state) {
    if (!state.snapshot.grid) return nullptr;
    const experts::GridSeen& seen = *state.snapshot.grid;
    Json servers = Json::array();
    for (const experts::ServerSeen& server : seen.servers)
        servers.push_back({{"id", server.server.text()},
                           {"name", state.name_of(server.server)},
                           {"experts", server.record.hosted},
                           {"experts_max", server.record.experts_max},
                           {"calls_per_s", number_or_null(server.record.calls_per_s)},
                           {"queue_ms", server.record.queue_ms},
                           {"failed", server.record.failed}});
    Json grid = Json::array();
    for (const experts::ExpertSeen& expert : seen.experts)
        grid.push_back({{"uid", expert.uid.text()},
                        {"server", expert.server ? id_or_null(*expert.server) : Json(nullptr)},
                        {"answers", expert.answers},
                        {"updates", expert.updates}});
    return {{"served", seen.served()},
            {"count", seen.experts.size()},
            {"servers", std::move(servers)},
            {"grid", std::move(grid)}};
}

Json round_of(const RoundSeen& round) {
    const events::StepMade& step = round.step;
    Json json{{"time", round.time},
              {"step", step.step},
              {"seconds", number_or_null(step.seconds)},
              {"computing_s", optional_number(step.computing_s)},
              {"waiting_s", optional_number(step.waiting_s)},
              {"averaging_s", optional_number(step.averaging_s)},
              {"applying_s", optional_number(step.applying_s)},
              {"predicted_s", number_or_null(step.predicted_s)},
              {"samples", step.samples},
              {"members", step.members},
              {"contributors", step.contributors},
              {"left_out", step.left_out},
              {"attempt", step.attempt}};
    const auto& plan = round.plan;
    const auto text = [](const std::optional<std::string>& value) {
        return value ? Json(*value) : Json(nullptr);
    };
    json["waited_for"] = plan ? text(plan->last_peer) : Json(nullptr);
    json["waited_s"] = plan ? optional_number(plan->last_s) : Json(nullptr);
    json["bottleneck"] = plan ? text(plan->bottleneck) : Json(nullptr);
    json["bottleneck_peer"] = plan ? text(plan->bottleneck_peer) : Json(nullptr);
    json["bottleneck_mbit"] = plan ? optional_number(plan->bottleneck_mbit) : Json(nullptr);
    return json;
}

// Each contributor's share of a part to who owns it, and the average from there to everybody.
Json flows_of(const events::StepMade& step, double vector_bytes) {
    Json flows = Json::array();
    if (!step.shares || step.shares->size() > flow_members_max || vector_bytes <= 0) return flows;
    const double seconds = step.averaging_s.value_or(0);
    const auto add = [&](const PeerId& from, const PeerId& to, const char* what, double owned) {
        const double bytes = owned * vector_bytes;
        flows.push_back({{"from", from.text()},
                         {"to", to.text()},
                         {"what", what},
                         {"bytes", std::round(bytes)},
                         {"bytes_per_s", seconds > 0 ? Json(bytes / seconds) : Json(nullptr)},
                         {"source", "certificate"}});
    };
    for (const events::StepShare& owner : *step.shares) {
        if (!(owner.owned > 0)) continue;
        for (const events::StepShare& member : *step.shares) {
            if (member.peer == owner.peer) continue;
            if (member.samples > 0) add(member.peer, owner.peer, "parts", owner.owned);
            add(owner.peer, member.peer, "averages", owner.owned);
        }
    }
    return flows;
}

// All that went between this peer and others, whatever it was.
void add_measured(Json& flows, const RunStore::State& state) {
    const PeerId& us = state.facts.us;
    std::size_t peers = 0;
    for (const auto& [peer, moved] : state.traffic.moved()) {
        if (++peers > flow_members_max) return;
        const auto add = [&](const PeerId& from, const PeerId& to, double bytes) {
            if (bytes > 0)
                flows.push_back({{"from", from.text()},
                                 {"to", to.text()},
                                 {"what", "all"},
                                 {"bytes", bytes},
                                 {"bytes_per_s", bytes / moved.seconds},
                                 {"seconds", moved.seconds},
                                 {"source", "measured"}});
        };
        add(us, peer, moved.sent_bytes);
        add(peer, us, moved.received_bytes);
    }
}

}  // namespace

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of(const monitor::Why& why) {
    Json json = Json::parse(monitor::to_json(why), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("steps", 0) == 0) return nullptr;
    Json step = Json::object();
    for (const char* part : {"computing_s", "waiting_s", "averaging_s", "applying_s", "rest_s"})
        if (json.contains(part)) step[part] = json[part];
    if (!json.contains("seen_by")) json["seen_by"] = nullptr;
    json["step"] = std::move(step);
    return json;
}

Json json_of(const ReplayAt& at) {
    return {{"from", at.from},
            {"to", at.to},
            {"at", at.at},
            {"speed", at.speed},
            {"playing", at.playing}};
}

Json run_json_of(const RunStore::State& state) {
    const RunSnapshot& snapshot = state.snapshot;
    Json json{{"api", 1},
              {"version", state.facts.version},
              {"mode", std::string(to_string(state.facts.mode))},
              {"now", snapshot.now},
              {"started", state.facts.started},
              {"run", facts_of(state.facts)},
              {"us", id_or_null(state.facts.us)},
              {"may", state.facts.may},
              {"paused", snapshot.paused},
              {"caps", {{"up_mbit", snapshot.up_mbit}, {"down_mbit", snapshot.down_mbit}}},
              {"progress", progress_of(state)},
              {"protection", snapshot.view.protection},
              {"limit", limit_of(state)},
              {"why", state.why_json}};
    json["prompts"] = nullptr;
    if (!snapshot.sheets.empty())
        json["prompts"] = {{"steps", snapshot.sheets.pictures}, {"texts", snapshot.sheets.texts}};
    json["replay"] = snapshot.replay ? json_of(*snapshot.replay) : Json(nullptr);
    return json;
}

Json peers_json_of(const RunStore::State& state) {
    std::map<PeerId, const membership::Status*> statuses;
    for (const membership::Status& status : state.snapshot.statuses)
        statuses[status.peer] = &status;
    Json peers = Json::array();
    std::set<PeerId> shown;
    for (const monitor::PeerView& peer : state.snapshot.view.peers) {
        if (peers.size() == membership::peers_max) break;
        const auto status = statuses.find(peer.id);
        peers.push_back(peer_of(state, peer, status == statuses.end() ? nullptr : status->second));
        shown.insert(peer.id);
    }
    for (const auto& [peer, notes] : state.notes) {
        if (peers.size() == membership::peers_max) break;
        if (peer.is_empty() || shown.contains(peer)) continue;
        if (state.facts.mode == Mode::replay || notes.order)
            peers.push_back(noted_peer_of(state, peer, notes));
    }
    return {
        {"peers", std::move(peers)}, {"ledger", ledger_of(state)}, {"experts", experts_of(state)}};
}

Json series_json_of(const RunStore::State& state) {
    Json all = Json::object();
    for (const auto& [name, series] : state.series) {
        Json points = Json::array();
        for (const Point& point : series.points())
            points.push_back({point.time, point.step, point.value});
        all[name] = {{"points", std::move(points)},
                     {"seen", series.seen()},
                     {"kept_every", series.kept_every()}};
    }
    return {{"last", state.events_count}, {"series", std::move(all)}};
}

Json stretches_json(const std::deque<Stretch>& stretches, std::uint64_t later_than) {
    Json json = Json::array();
    for (const Stretch& stretch : stretches)
        if (stretch.tick > later_than)
            json.push_back(
                {stretch.from, stretch.to, std::string(membership::to_string(stretch.phase))});
    return json;
}

Json rounds_json_of(const RunStore::State& state) {
    Json rounds = Json::array();
    for (const RoundSeen& round : state.rounds) rounds.push_back(round_of(round));
    Json timeline = Json::object();
    for (const auto& [peer, stretches] : state.timeline)
        timeline[peer.text()] = stretches_json(stretches, 0);
    return {{"last", state.events_count},
            {"rounds", std::move(rounds)},
            {"timeline", std::move(timeline)}};
}

Json flows_json_of(const RunStore::State& state) {
    Json lines = Json::array();
    for (const membership::Status& status : state.snapshot.statuses)
        lines.push_back({{"peer", status.peer.text()},
                         {"up_bytes_per_s", number_or_null(status.upload_bytes_per_s)},
                         {"down_bytes_per_s", number_or_null(status.download_bytes_per_s)}});
    Json flows = state.last_step ? flows_of(*state.last_step, state.facts.vector_bytes)
                                 : Json(Json::array());
    add_measured(flows, state);
    return {{"step", state.last_step ? Json(state.last_step->step) : Json(nullptr)},
            {"flows", std::move(flows)},
            {"lines", std::move(lines)}};
}

}  // namespace dedloc::web
