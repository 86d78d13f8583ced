#include "dedloc/web/stream.h"

#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"

namespace dedloc::web {
namespace {

std::string message(std::string_view event, std::string_view data) {
    return fmt::format("event: {}\ndata: {}\n\n", event, data);
}

}  // namespace

EventStream::EventStream(RunStore& store, std::optional<std::uint64_t> after) : store_(store) {
    const RunStore::Events none = store.events_after(~std::uint64_t{0}, 0);
    // The viewer's number may be of an earlier process, which had more events.
    after_ = after && *after <= none.newest ? *after : none.newest;
    const RunStore::Version version = store.version();
    generation_ = version.generation;
    tick_ = version.tick;
}

void EventStream::add_events(std::string& text) {
    RunStore::Events found = store_.events_after(after_, kept_events_max + kept_notable_max);
    if (after_ + 1 < found.oldest) {
        text +=
            message("gap", fmt::format(R"({{"from":{},"to":{}}})", after_ + 1, found.oldest - 1));
        std::erase_if(found.events, [&](const auto& each) { return each.number < found.oldest; });
    }
    std::size_t sent = 0;
    for (const RunStore::NumberedEvent& event : found.events) {
        if (++sent > stream_events_max) break;
        text += fmt::format("id: {}\nevent: event\ndata: {}\n\n", event.number, event.json);
        after_ = event.number;
    }
    if (sent <= stream_events_max)
        after_ = found.newest;
    else
        owed_ = true;
}

template <typename Make>
void EventStream::add_state(
    std::string& text, const char* name, Told& told, double every, Make make) {
    if (now_ - told.at < every) {
        owed_ = true;
        return;
    }
    std::string json = make();
    if (json == told.text) return;
    text += message(name, json);
    told = {.at = now_, .text = std::move(json)};
}

std::string EventStream::take(double now) {
    now_ = now;
    std::string text;
    const RunStore::Version version = store_.version();
    if (version.generation != generation_) {
        text += message("reset", "{}");
        generation_ = version.generation;
        after_ = 0;
        tick_ = 0;
    }
    // A state whose time has not come is owed: it is told later, though nothing happens after it.
    if (version.changes != changes_ || owed_) {
        owed_ = false;
        add_events(text);
        add_state(text, "run", run_, stream_run_s, [this] { return store_.run_json(); });
        add_state(text, "peers", peers_, stream_peers_s, [this] { return store_.peers_json(); });
        add_state(text, "flows", flows_, stream_flows_s, [this] { return store_.flows_json(); });
        if (now - timeline_at_ >= stream_timeline_s) {
            timeline_at_ = now;
            if (const std::string json = store_.timeline_json(tick_); !json.empty())
                text += message("timeline", json);
        } else {
            owed_ = true;
        }
        changes_ = version.changes;
    }
    if (version.over && !over_) {
        over_ = true;
        const nlohmann::ordered_json reason{{"reason", store_.end_reason()}};
        text += message("over", monitor::json_line(reason));
    }
    if (text.empty() && now - said_at_ >= stream_comment_s) text = ":\n\n";
    if (!text.empty()) said_at_ = now;
    return text;
}

}  // namespace dedloc::web
