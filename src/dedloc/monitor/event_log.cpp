#include "dedloc/monitor/event_log.h"

#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include "dedloc/base/log.h"
#include "dedloc/monitor/json_line.h"

namespace dedloc::monitor {
namespace {

using Json = nlohmann::ordered_json;

Ok write_all(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return make_error(ErrorKind::local_fault, "{}", std::strerror(errno));
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

collab::Event::Value value_of(const Json& value) {
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    return std::nan("");
}

}  // namespace

std::string to_json_line(const collab::Event& event) {
    Json json;
    json["time"] = std::round(event.time * 1000) / 1000;
    json["kind"] = event.kind;
    if (!event.peer.is_empty()) json["peer"] = event.peer.text();
    json["step"] = event.step;
    json["text"] = event.text;
    if (!event.fields.empty()) {
        Json& fields = json["fields"] = Json::object();
        for (const auto& [name, value] : event.fields)
            std::visit([&, &key = name](const auto& held) { fields[key] = held; }, value);
    }
    return json_line(json);
}

Result<collab::Event> event_from_json_line(std::string_view line) {
    const auto wrong = [](std::string_view what) {
        return make_error(ErrorKind::bad_input, "this is not an event: {}", what);
    };
    if (line.size() > event_line_bytes_max) return wrong("the line is too long");
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return wrong("no JSON object");
    const auto text = [&](const char* key) {
        const auto found = json.find(key);
        return found != json.end() && found->is_string() ? found->get<std::string>()
                                                         : std::string();
    };
    collab::Event event;
    event.kind = text("kind");
    event.text = text("text");
    if (event.kind.empty()) return wrong("it has no kind");
    if (const auto time = json.find("time"); time != json.end() && time->is_number())
        event.time = time->get<double>();
    if (const auto step = json.find("step"); step != json.end() && step->is_number_unsigned())
        event.step = step->get<std::uint64_t>();
    if (const std::string peer = text("peer"); !peer.empty()) {
        DEDLOC_TRY(event.peer, PeerId::from_text(peer));
    }
    if (const auto fields = json.find("fields"); fields != json.end() && fields->is_object())
        for (const auto& [name, value] : fields->items())
            event.fields.emplace_back(name, value_of(value));
    return event;
}

struct EventLog::State {
    std::string path;
    int file = -1;
    std::mutex mutex;
    std::condition_variable work;
    std::condition_variable idle;
    std::deque<collab::Event> queue;
    std::uint64_t dropped = 0;
    bool writing = false;
    bool closing = false;
    std::thread thread;

    // The lines of all that is queued; the writer's part that holds the lock.
    std::string take_lines(std::unique_lock<std::mutex>& lock) {
        std::deque<collab::Event> events;
        std::swap(events, queue);
        const std::uint64_t lost = std::exchange(dropped, 0);
        lock.unlock();
        std::string lines;
        for (const collab::Event& event : events) lines += to_json_line(event) + '\n';
        if (lost > 0) {
            collab::Event event{.time = events.back().time,
                                .kind = "events_dropped",
                                .peer = {},
                                .step = events.back().step,
                                .text = fmt::format("{} events are missing here", lost),
                                .fields = {{"count", static_cast<std::int64_t>(lost)}}};
            lines += to_json_line(event) + '\n';
        }
        return lines;
    }

    void run() {
        bool broken = false;
        std::unique_lock lock(mutex);
        while (true) {
            work.wait(lock, [this] { return closing || !queue.empty(); });
            if (queue.empty()) return;
            writing = true;
            const std::string lines = take_lines(lock);
            if (const Ok written = broken ? Ok() : write_all(file, lines); !written) {
                broken = true;
                log(LogLevel::warning,
                    "monitor",
                    "the event log {} ends here: {}",
                    path,
                    written.error().message());
            }
            lock.lock();
            writing = false;
            if (queue.empty()) idle.notify_all();
        }
    }
};

Result<std::unique_ptr<EventLog>> EventLog::open(const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0)
        return make_error(ErrorKind::local_fault,
                          "cannot write the event log {}: {}",
                          path,
                          std::strerror(errno));
    auto state = std::make_unique<State>();
    state->path = path;
    state->file = file;
    return std::unique_ptr<EventLog>(new EventLog(std::move(state)));
}

EventLog::EventLog(std::unique_ptr<State> state) : state_(std::move(state)) {
    state_->thread = std::thread([state_now = state_.get()] { state_now->run(); });
}

EventLog::~EventLog() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->closing = true;
    }
    state_->work.notify_all();
    state_->thread.join();
    ::close(state_->file);
}

void EventLog::record(const collab::Event& event) {
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->queue.size() >= queued_events_max) {
            ++state_->dropped;
            return;
        }
        state_->queue.push_back(event);
    }
    state_->work.notify_one();
}

void EventLog::flush() {
    std::unique_lock lock(state_->mutex);
    state_->idle.wait(lock, [this] { return state_->queue.empty() && !state_->writing; });
}

void EventMailbox::record(const collab::Event& event) {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= recent_events_max) events_.pop_front();
    events_.push_back(event);
}

std::vector<collab::Event> EventMailbox::take() {
    const std::lock_guard lock(mutex_);
    std::vector<collab::Event> events(std::make_move_iterator(events_.begin()),
                                      std::make_move_iterator(events_.end()));
    events_.clear();
    return events;
}

}  // namespace dedloc::monitor
