// PeerControl: what a user asks of a peer that runs: that it pauses, goes on, keeps to other caps,
// or publishes its state. The web page asks by ask(); a command on this machine by a file in the
// peer's folder, which only its user can write:
//
//   control/<name>       a JSON object: {"action":"limit","up":"5","down":"off"}
//   control/<name>.no    why it was refused
//
// The peer takes the file away when it is done. The main thread alone carries out what is asked.
//
// Errors: bad_input (what is asked means nothing), timeout (the peer is busy for long). Thread:
// poll() and close() the main thread's, ask() any other.

#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::peer {

inline constexpr std::string_view control_folder = "control";
inline constexpr double control_timeout_s = 15;
inline constexpr std::size_t control_bytes_max = 1024;
inline constexpr std::size_t controls_at_once_max = 16;

struct ControlRequest {
    std::string action;  // pause, resume, limit, publish
    std::string up;      // limit: as --max-up takes it
    std::string down;
};
std::string to_json(const ControlRequest& request);
Result<ControlRequest> parse_control_request(std::string_view json);

class PeerControl {
  public:
    using CarryOut = std::function<Ok(const ControlRequest& request)>;

    PeerControl(std::string directory, CarryOut carry_out);
    ~PeerControl();
    PeerControl(const PeerControl&) = delete;
    PeerControl& operator=(const PeerControl&) = delete;

    // A few times a second: carries out what is asked.
    void poll();
    // Waits until it is carried out.
    Ok ask(const ControlRequest& request);
    // The peer refuses what is asked from now on, and what waits.
    void close();

  private:
    struct Waiting {
        ControlRequest request;
        bool done = false;
        Ok outcome{};
    };
    void scan_folder();

    std::string folder_;
    CarryOut carry_out_;
    std::mutex mutex_;
    std::condition_variable done_;
    std::deque<std::shared_ptr<Waiting>> waiting_;
    bool closed_ = false;
};

// A command asks the peer in `directory`, whose process must run, and waits for it.
Ok ask_peer(const std::string& directory, const ControlRequest& request);

}  // namespace dedloc::peer
