// HostWire: the calls and message streams of one connection between two SimHosts.
//
// One object for both sides; everything has a side index. Packets of a call: request, answer or
// failure, cancel. Of a stream, numbered: open, opened, message, credit, finish, fail, reset.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "dedloc/p2p/host.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/sim/wire.h"

namespace dedloc::sim {

class SimHost;
class HostWire;

enum class PacketKind : std::uint8_t {
    request,
    answer,
    failure,
    cancel,
    open,
    opened,
    message,
    credit,
    finish,
    fail,
    reset
};

// A call of ours that waits for its answer.
struct PendingCall {
    std::optional<Result<Bytes>> result;
    std::shared_ptr<runtime::Parked> waiter;
    bool expired = false;  // the result is ours: the other side must be told to stop

    void complete(Result<Bytes> given) {
        if (result) return;
        result.emplace(std::move(given));
        if (waiter) waiter->resume();
    }
};

// One side's end of a stream.
struct StreamEnd {
    std::shared_ptr<HostWire> wire;
    int side = 0;
    bool opened_here = false;
    std::uint32_t method = 0;
    std::uint64_t id = 0;
    PeerId remote;

    bool ready = false;  // the other side has accepted it
    std::deque<Bytes> inbox;
    bool they_finished = false;
    bool we_finished = false;
    std::optional<Error> broken;       // both directions are over
    std::optional<Error> their_error;  // after what is in the inbox
    std::uint64_t sent_bytes = 0;      // and not yet given back as credit
    std::uint64_t read_bytes = 0;      // and not yet given back
    std::uint64_t next_sequence = 0;
    InOrder incoming;
    runtime::TaskId handler = 0;
    std::shared_ptr<runtime::Parked> reader;
    std::shared_ptr<runtime::Parked> writer;

    void wake() {
        if (reader) reader->resume();
        if (writer) writer->resume();
    }
};

class HostWire final : public Wire {
  public:
    HostWire(World& world, Process& dialler, Process& acceptor);

    int side_of(const SimHost& host) const;
    void start_call(int side,
                    std::uint64_t id,
                    std::uint32_t method,
                    Bytes request,
                    std::shared_ptr<PendingCall> pending);
    void forget_call(int side, std::uint64_t id, bool tell);
    std::uint64_t next_id() { return ++ids_; }

    std::shared_ptr<StreamEnd> start_stream(int side, std::uint32_t method);
    void send_stream(StreamEnd& end, PacketKind kind, Bytes payload, std::unique_ptr<Error> error);
    void forget_stream(const StreamEnd& end);

  private:
    using StreamKey = std::pair<bool, std::uint64_t>;  // opened here, id
    struct Side {
        SimHost* host = nullptr;
        PeerId remote;
        std::unordered_map<std::uint64_t, std::shared_ptr<PendingCall>> pending;
        std::map<std::uint64_t, runtime::TaskId> serving;
        std::map<StreamKey, std::shared_ptr<StreamEnd>> streams;
        std::size_t incoming_streams = 0;
    };

    void on_packet(int side, Packet& packet) override;
    void on_close(int side, const std::string& why) override;
    void on_request(int side, Packet& packet);
    void on_open(int side, Packet& packet);
    void on_stream_packet(int side, Packet& packet);
    void on_stream_in_order(StreamEnd& end, Packet& packet);
    void answer(int side, std::uint64_t id, std::uint32_t method, Result<Bytes> result);
    void break_stream(StreamEnd& end, const Error& error);
    static Task<void> serve(std::shared_ptr<HostWire> wire,
                            int side,
                            std::uint64_t id,
                            std::uint32_t method,
                            std::shared_ptr<p2p::CallHandler> handler,
                            Bytes request);
    static Task<void> serve_stream(std::shared_ptr<p2p::StreamHandler> handler,
                                   std::unique_ptr<p2p::MessageStream> stream);

    Side sides_[2];
    std::uint64_t ids_ = 0;
};

std::unique_ptr<p2p::MessageStream> make_stream(std::shared_ptr<StreamEnd> end);

}  // namespace dedloc::sim
