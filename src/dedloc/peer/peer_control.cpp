#include "dedloc/peer/peer_control.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "dedloc/admission/book_issuer.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/file_request.h"
#include "dedloc/peer/peer_directory.h"

namespace dedloc::peer {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string to_json(const ControlRequest& request) {
    nlohmann::ordered_json json{{"action", request.action}};
    if (request.action == "limit") {
        json["up"] = request.up;
        json["down"] = request.down;
    }
    return monitor::json_line(json);
}

Result<ControlRequest> parse_control_request(std::string_view text) {
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto word = [&json](const char* name) {
        const auto found = json.find(name);
        return found != json.end() && found->is_string() ? found->get<std::string>()
                                                         : std::string();
    };
    if (!json.is_object()) return make_error(ErrorKind::bad_input, "no JSON object is asked");
    ControlRequest request{.action = word("action"), .up = word("up"), .down = word("down")};
    constexpr std::array<std::string_view, 4> known{"pause", "resume", "limit", "publish"};
    if (std::ranges::find(known, request.action) == known.end())
        return make_error(ErrorKind::bad_input,
                          "a peer can be asked to pause, resume, limit or publish, not '{}'",
                          request.action);
    return request;
}

PeerControl::PeerControl(std::string directory, CarryOut carry_out)
    : folder_(std::move(directory) + "/" + std::string(control_folder)),
      carry_out_(std::move(carry_out)) {
    std::error_code error;
    // Requests of an earlier process may be left, which nobody has done.
    fs::remove_all(folder_, error);
}

PeerControl::~PeerControl() {
    close();
    std::error_code error;
    fs::remove_all(folder_, error);
}

void PeerControl::poll() {
    std::deque<std::shared_ptr<Waiting>> waiting;
    {
        const std::lock_guard lock(mutex_);
        waiting.swap(waiting_);
    }
    for (const auto& each : waiting) {
        Ok outcome = carry_out_(each->request);
        const std::lock_guard lock(mutex_);
        each->outcome = std::move(outcome);
        each->done = true;
    }
    if (!waiting.empty()) done_.notify_all();
    scan_folder();
}

void PeerControl::scan_folder() {
    std::error_code error;
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
        const std::string path = entry.path().string();
        // A write that is under way, or an answer.
        if (entry.path().filename().string().find('.') != std::string::npos) continue;
        if (++count > controls_at_once_max) return;
        const auto text = read_text_file(path, control_bytes_max);
        const auto request =
            text ? parse_control_request(*text) : Result<ControlRequest>(text.error());
        const Ok done = request ? carry_out_(*request) : Ok(request.error());
        if (!done)
            (void)write_private_file(path + std::string(admission::refusal_suffix),
                                     done.error().message());
        fs::remove(path, error);
    }
}

Ok PeerControl::ask(const ControlRequest& request) {
    const auto waiting = std::make_shared<Waiting>(Waiting{.request = request});
    std::unique_lock lock(mutex_);
    if (!closed_ && waiting_.size() < controls_at_once_max) {
        waiting_.push_back(waiting);
        done_.wait_for(lock, std::chrono::duration<double>(control_timeout_s), [&] {
            return waiting->done || closed_;
        });
        if (waiting->done) return waiting->outcome;
        std::erase(waiting_, waiting);
    }
    return make_error(
        ErrorKind::timeout, "{}", closed_ ? "the peer is ending" : "the peer is busy; try again");
}

void PeerControl::close() {
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    done_.notify_all();
}

Ok ask_peer(const std::string& directory, const ControlRequest& request) {
    DEDLOC_TRY(const RunningPeer peer, running_peer(directory));
    return ask_by_file(peer.path + "/" + std::string(control_folder),
                       to_json(request),
                       control_timeout_s,
                       fmt::format("the peer in {} did not answer: it is ending, busy, or of an "
                                   "older version, or no trainer's",
                                   directory));
}

}  // namespace dedloc::peer
