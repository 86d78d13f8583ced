#include "dedloc/monitor/event_log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "dedloc/base/log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/monitor/write_some.h"
#include "dedloc/monitor/writer_queue.h"

namespace dedloc::monitor {
namespace {

using Json = nlohmann::ordered_json;

// How long a file is without what stands behind its last line.
Result<std::uint64_t> whole_lines_bytes(int file) {
    char buffer[4096];
    auto end = static_cast<std::uint64_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0));
    while (end > 0) {
        const std::size_t size = std::min<std::uint64_t>(end, sizeof buffer);
        const ssize_t got = ::pread(file, buffer, size, static_cast<off_t>(end - size));
        if (got != static_cast<ssize_t>(size)) return system_error();
        const std::size_t newline = std::string_view(buffer, size).rfind('\n');
        if (newline != std::string_view::npos) return end - size + newline + 1;
        end -= size;
    }
    return 0;
}

// The newest file of the log: whole lines, whatever fails.
class LineFile {
  public:
    LineFile(std::string path, std::uint64_t bytes_max)
        : path_(std::move(path)), bytes_max_(bytes_max) {}
    ~LineFile() { close(); }
    LineFile(const LineFile&) = delete;
    LineFile& operator=(const LineFile&) = delete;

    const std::string& path() const { return path_; }

    // Cuts off a torn line, which would make the next one unreadable.
    Ok open() {
        file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        // One of an older version, which others could read.
        if (file_ >= 0) (void)::fchmod(file_, 0600);
        if (file_ < 0) return system_error();
        const auto whole = whole_lines_bytes(file_);
        if (whole && ::ftruncate(file_, static_cast<off_t>(*whole)) == 0) {
            bytes_ = *whole;
            return {};
        }
        const Error error = whole ? system_error() : whole.error();
        close();
        return error;
    }

    // Takes away from `lines` those that it could write whole.
    Ok append(std::string_view& lines) {
        if (bytes_ > 0 && bytes_ + lines.size() > bytes_max_) DEDLOC_TRY_VOID(keep_as_full());
        if (file_ < 0) DEDLOC_TRY_VOID(open());
        std::string_view rest = lines;
        const Ok written = write_some(file_, rest);
        const std::string_view done = lines.substr(0, lines.size() - rest.size());
        const std::size_t whole = done.rfind('\n') + 1;  // 0 where there is none
        bytes_ += whole;
        lines.remove_prefix(whole);
        if (!written) {
            close();
            (void)open();  // cuts off the torn line; if it cannot, the next one tries again
        }
        return written;
    }

  private:
    void close() {
        if (file_ >= 0) ::close(file_);
        file_ = -1;
    }
    Ok keep_as_full() {
        close();
        const std::string full = full_event_file(path_);
        if (::rename(path_.c_str(), full.c_str()) != 0 && errno != ENOENT) return system_error();
        bytes_ = 0;
        return {};
    }

    std::string path_;
    std::uint64_t bytes_max_;
    int file_ = -1;
    std::uint64_t bytes_ = 0;
};

using events::Any;
using events::Unknown;

Unknown::Value value_of(const Json& value) {
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    return std::nan("");
}

class FieldWriter {
  public:
    explicit FieldWriter(Json& fields) : fields_(fields) {}

    template <typename Value>
    void operator()(const char* name, const Value& value) {
        fields_[name] = value;
    }
    void operator()(const char* name, const Digest& value) { fields_[name] = value.hex(); }
    template <typename Value>
    void operator()(const char* name, const std::optional<Value>& value) {
        if (value) (*this)(name, *value);
    }

  private:
    Json& fields_;
};

// A field that is missing, or of another type, keeps its default.
class FieldReader {
  public:
    explicit FieldReader(const Json& fields) : fields_(fields) {}

    template <typename Value>
    void operator()(const char* name, Value& value) {
        const auto found = fields_.find(name);
        if (found != fields_.end()) read(*found, value);
    }

  private:
    static void read(const Json& json, std::uint64_t& value) {
        if (json.is_number_unsigned()) value = json.get<std::uint64_t>();
    }
    static void read(const Json& json, double& value) {
        if (json.is_number()) value = json.get<double>();
        if (json.is_null()) value = std::nan("");
    }
    static void read(const Json& json, std::string& value) {
        if (json.is_string()) value = json.get<std::string>();
    }
    static void read(const Json& json, Digest& value) {
        const auto bytes = base::from_hex(json.is_string() ? json.get<std::string>() : "");
        const auto digest = bytes ? Digest::from(*bytes) : Result<Digest>(bytes.error());
        if (digest) value = *digest;
    }
    template <typename Value>
    static void read(const Json& json, std::optional<Value>& value) {
        read(json, value.emplace());
    }

    const Json& fields_;
};

template <typename Kind>
Json fields_of(const Kind& what) {
    Json fields = Json::object();
    FieldWriter writer(fields);
    if constexpr (std::is_same_v<Kind, Unknown>) {
        for (const auto& [name, value] : what.facts)
            std::visit([&, &key = name](const auto& held) { fields[key] = held; }, value);
    } else if constexpr (requires { Kind::fields(writer, what); }) {
        Kind::fields(writer, what);
    }
    return fields;
}

Unknown read_unknown(std::string kind, const Json& fields) {
    Unknown unknown{.kind = std::move(kind)};
    for (const auto& [name, value] : fields.items())
        unknown.facts.emplace_back(name, value_of(value));
    return unknown;
}

// Kind number `first` of the variant and those behind it.
template <std::size_t first = 1>
Any read_what(std::string kind, const Json& fields) {
    if constexpr (first < std::variant_size_v<Any>) {
        using Kind = std::variant_alternative_t<first, Any>;
        if (kind != Kind::kind) return read_what<first + 1>(std::move(kind), fields);
        Kind what;
        FieldReader reader(fields);
        if constexpr (requires { Kind::fields(reader, what); }) Kind::fields(reader, what);
        return what;
    } else {
        return read_unknown(std::move(kind), fields);
    }
}

}  // namespace

std::string to_json_line(const events::Event& event) {
    Json json;
    json["time"] = std::round(event.time * 1000) / 1000;
    json["kind"] = event.kind();
    if (!event.peer.is_empty()) json["peer"] = event.peer.text();
    json["step"] = event.step;
    json["text"] = event.text;
    Json fields = std::visit([](const auto& what) { return fields_of(what); }, event.what);
    if (!fields.empty()) json["fields"] = std::move(fields);
    return json_line(json);
}

Result<events::Event> event_from_json_line(std::string_view line) {
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
    events::Event event;
    event.text = text("text");
    std::string kind = text("kind");
    if (kind.empty()) return wrong("it has no kind");
    if (const auto time = json.find("time"); time != json.end() && time->is_number())
        event.time = time->get<double>();
    if (const auto step = json.find("step"); step != json.end() && step->is_number_unsigned())
        event.step = step->get<std::uint64_t>();
    if (const std::string peer = text("peer"); !peer.empty()) {
        DEDLOC_TRY(event.peer, PeerId::from_text(peer));
    }
    const auto fields = json.find("fields");
    const bool has_fields = fields != json.end() && fields->is_object();
    event.what = read_what(std::move(kind), has_fields ? *fields : Json::object());
    return event;
}

std::string full_event_file(const std::string& path) {
    std::filesystem::path full(path);
    full.replace_filename(full.stem().string() + ".1" + full.extension().string());
    return full.string();
}

struct EventLog::State {
    State(const std::string& path, std::uint64_t file_bytes) : file(path, file_bytes) {}

    // The queue's thread alone uses these, once the log is open.
    LineFile file;
    bool failing = false;
    std::uint64_t missing = 0;  // events that are not in the file, not told yet

    // How many of the lines could not be written.
    std::uint64_t append(std::string_view lines) {
        const Ok written = file.append(lines);
        if (!written && !failing)
            log(LogLevel::warning,
                "monitor",
                "the event log {} cannot be written: {}; until it can, events are missing in it",
                file.path(),
                written.error().message());
        failing = !written;
        return static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
    }

    // Says in the log what is missing there.
    void tell_missing(const events::Event& nearest) {
        if (missing == 0) return;
        const events::Event event{.time = nearest.time,
                                  .step = nearest.step,
                                  .text = fmt::format("{} events are missing here", missing),
                                  .what = events::EventsDropped{.count = missing}};
        if (append(to_json_line(event) + '\n') == 0) missing = 0;
    }

    void write(const std::deque<events::Event>& events, std::uint64_t lost) {
        tell_missing(events.front());
        std::string lines;
        for (const events::Event& event : events) lines += to_json_line(event) + '\n';
        // As long as that cannot be told, neither can what came after it.
        missing += lost + (missing > 0 ? events.size() : append(lines));
        tell_missing(events.back());
    }

    // The last member: its thread ends before what it writes to goes.
    WriterQueue<events::Event> queue{
        queued_events_max, [this](const std::deque<events::Event>& events, std::uint64_t lost) {
            write(events, lost);
        }};
};

Result<std::unique_ptr<EventLog>> EventLog::open(const std::string& path,
                                                 std::uint64_t file_bytes) {
    auto state = std::make_unique<State>(path, file_bytes);
    if (const Ok opened = state->file.open(); !opened)
        return opened.error().with_context(fmt::format("cannot write the event log {}", path));
    return std::unique_ptr<EventLog>(new EventLog(std::move(state)));
}

EventLog::EventLog(std::unique_ptr<State> state) : state_(std::move(state)) {}

EventLog::~EventLog() = default;

void EventLog::record(const events::Event& event) { state_->queue.add(event); }

void EventLog::flush() { state_->queue.flush(); }

void EventMailbox::record(const events::Event& event) {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= recent_events_max) events_.pop_front();
    events_.push_back(event);
}

std::vector<events::Event> EventMailbox::take() {
    const std::lock_guard lock(mutex_);
    std::vector<events::Event> events(std::make_move_iterator(events_.begin()),
                                      std::make_move_iterator(events_.end()));
    events_.clear();
    return events;
}

}  // namespace dedloc::monitor
