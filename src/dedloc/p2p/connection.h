// PeerConnection: one upgraded connection to a peer, with the three tasks that serve it: a reader
// (socket → TLS or Noise → yamux), a writer (the way back, pulling a batch when the socket is
// free), and the keep-alive.
//
// Bulk bytes are encrypted straight from the queued messages. A control frame waits behind at most
// one batch and what the kernel holds unsent: what the line takes in some 0.1 s.
//
// Thread: the network thread. Cost: about 0.6 MiB of buffers when busy, 25 KB when idle.

#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "dedloc/p2p/nat.h"
#include "dedloc/p2p/peer_traffic.h"
#include "dedloc/p2p/stranger_budget.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/transport/rate_meter.h"
#include "dedloc/transport/stream.h"
#include "dedloc/transport/upgrade.h"

namespace dedloc::p2p {

// How a connection came to be.
struct Origin {
    PeerId relay{};  // empty: none
    Path path = Path::direct;
    bool from_listen_port = false;  // its NAT mapping is that of our listen port
    std::size_t lanes = 1;          // more: a bundle, for bulk streams (lane_bundle.h)
};

class PeerConnection : public std::enable_shared_from_this<PeerConnection> {
  public:
    struct Settings {
        runtime::Executor executor;
        runtime::Clock& clock;
        std::shared_ptr<transport::StreamMemory> memory;
        Duration keep_alive_interval;
        Duration keep_alive_answer_max;
        Origin origin{};
        std::shared_ptr<PeerTraffic::Counter> traffic{};  // null: bytes are not counted
        std::function<bool()> is_needed{};                // null: the peer is a stranger
        // Where strangers have a budget: waits for this one's turn; counts what it cost.
        std::function<Task<void>(PeerId)> strangers_turn{};
        std::function<void(const PeerId&, const StrangerBudget::Cost&)> spend{};
    };

    PeerConnection(transport::SecureConnection secured, Settings settings);
    ~PeerConnection();
    PeerConnection(const PeerConnection&) = delete;
    PeerConnection& operator=(const PeerConnection&) = delete;

    // Starts the tasks; set the two callbacks before.
    void start(runtime::Scope& scope);
    std::function<void(std::shared_ptr<transport::YamuxStream>)> on_inbound;
    std::function<void(const Error&)> on_closed;  // once
    std::function<void()> on_busy;                // every lane_consider_bytes moved

    const PeerId& remote() const { return remote_; }
    bool is_dialler() const { return is_dialler_; }
    const std::string& security() const { return security_; }  // "/tls/1.0.0" or "/noise"
    runtime::SocketAddress remote_address() const { return raw_->remote(); }
    runtime::SocketAddress local_address() const { return raw_->local(); }
    // How far away the peer is, without what busy programs at both ends add; where the network
    // cannot say, what pings took. nullopt: not known yet.
    std::optional<Duration> distance() const {
        const auto network = raw_->network_round_trip();
        return network ? network : session_.round_trip();
    }
    const Origin& origin() const { return settings_.origin; }
    bool is_relayed() const { return settings_.origin.path == Path::relayed; }
    TimePoint opened_at() const { return opened_at_; }
    // When there was last a stream on it, as far as this was asked or one was opened; now, if there
    // is one.
    TimePoint used_at();
    bool is_closed() const { return closed_; }
    // The most that was moved within a second, both directions together.
    double bytes_per_s_peak() const { return rate_.bytes_per_s_peak(); }
    // New streams are welcome.
    bool is_usable() const {
        return !closed_ && !closing_ && !session_.failure() && !session_.is_going_away();
    }
    // True if identify said that the peer offers it, or it has answered to it since.
    bool offers(const std::string& protocol) const { return protocols_.contains(protocol); }
    const std::set<std::string>& protocols() const { return protocols_; }
    void set_protocols(std::set<std::string> protocols) { protocols_ = std::move(protocols); }
    void add_protocol(const std::string& protocol) { protocols_.insert(protocol); }
    // The program at the other end, as identify said; empty before.
    const std::string& agent() const { return agent_; }
    void set_agent(std::string agent) { agent_ = std::move(agent); }
    transport::YamuxSession& session() { return session_; }
    const transport::YamuxSession& session() const { return session_; }

    // Waits while too many of our streams are unacknowledged. Errors: timeout, peer_gone.
    Task<Result<std::unique_ptr<transport::Stream>>> open_stream(TimePoint deadline);
    std::unique_ptr<transport::Stream> adopt(std::shared_ptr<transport::YamuxStream> stream);

    // Asks for a sign of life; without one the connection is closed.
    void probe(Duration answer_max);
    // Sends what is queued as control frames (a go-away), then closes.
    void close_gently(Error reason);
    void close(Error reason);

  private:
    using Self = std::shared_ptr<PeerConnection>;
    class RoomTicket;

    static Task<void> read_loop(Self self);
    static Task<void> write_loop(Self self);
    static Task<void> keep_alive_loop(Self self);
    bool is_stranger() const;
    void spend_read(std::uint64_t frames_before);
    Ok take_plain();
    void moved(std::size_t bytes);
    void fit_batch(std::size_t written, Duration took);
    Result<Bytes> next_batch();
    void wake_next_opener();

    std::unique_ptr<runtime::Connection> raw_;
    std::unique_ptr<security::Channel> channel_;
    PeerId remote_;
    bool is_dialler_;
    std::string security_;
    Settings settings_;
    TimePoint opened_at_;
    TimePoint used_at_ = opened_at_;
    transport::YamuxSession session_;
    runtime::Event output_;
    runtime::Event tick_;
    std::deque<std::shared_ptr<runtime::Event>> openers_;
    std::optional<Error> closing_;  // close once the queue is written
    bool closed_ = false;
    std::set<std::string> protocols_;
    std::string agent_;
    Bytes plain_out_;
    std::size_t batch_bytes_ = write_batch_bytes_start;

    transport::RateMeter rate_;
    std::size_t moved_untold_ = 0;  // bytes, since on_busy was told
};

}  // namespace dedloc::p2p
