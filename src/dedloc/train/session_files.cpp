#include "dedloc/train/session_files.h"

#include <utility>

#include "dedloc/base/bytes.h"

namespace dedloc::train {

namespace {

constexpr Duration join_string_interval = 5s;
constexpr const char* join_string_file = "join.txt";

}  // namespace

Result<std::unique_ptr<SessionFiles>> SessionFiles::open(const collab::Node& node,
                                                         const std::string& directory,
                                                         events::EventSink* next) {
    DEDLOC_TRY(auto log, monitor::EventLog::open(directory + "/events.jsonl"));
    return std::unique_ptr<SessionFiles>(new SessionFiles(node, std::move(log), next));
}

SessionFiles::SessionFiles(const collab::Node& node,
                           std::unique_ptr<monitor::EventLog> log,
                           events::EventSink* next)
    : node_(node), log_(std::move(log)), next_(next) {}

void SessionFiles::record(const events::Event& event) {
    log_->record(event);
    if (next_ != nullptr) next_->record(event);
}

void SessionFiles::tell(events::Any what, std::uint64_t step, std::string text) {
    const events::Event event{.time = node_.clock().wall_now(),
                              .step = step,
                              .text = std::move(text),
                              .what = std::move(what)};
    node_.run_on_network_thread([&] { record(event); });
}

void SessionFiles::refresh_join_string(const collab::Collaboration& collaboration) {
    const TimePoint now = node_.clock().now();
    if (is_written_ && now < refresh_at_) return;
    refresh_at_ = now + join_string_interval;
    const std::string text = node_.run_on_network_thread([&collaboration] {
        return collaboration.join_string();
    }) + "\n";
    const Result<void> written = node_.disk().write_atomically(join_string_file, as_bytes(text));
    is_written_ = true;
    if (!written && !std::exchange(failed_, true))
        tell(events::JoinFileFailed{}, collaboration.state()->step(), written.error().message());
}

void SessionFiles::remove_join_string() {
    if (std::exchange(is_written_, false)) (void)node_.disk().remove(join_string_file);
}

}  // namespace dedloc::train
