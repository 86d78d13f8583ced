#include "dedloc/sim/sim_network.h"

#include <algorithm>
#include <deque>

#include "dedloc/base/check.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/sim/process.h"
#include "dedloc/sim/sim_host.h"
#include "dedloc/sim/wire.h"

namespace dedloc::sim {

using runtime::Parked;
using runtime::SocketAddress;

namespace {

constexpr std::size_t segment_bytes_max = 64 * 1024;
constexpr std::uint64_t window_bytes = 1u << 20;
constexpr std::size_t backlog_max = 1024;
constexpr Duration connect_retry{1'000'000'000};

enum class Kind : std::uint8_t { data, credit, finish };

}  // namespace

class ByteWire final : public Wire {
  public:
    struct Side {
        std::deque<Bytes> inbox;
        std::size_t offset = 0;  // read of inbox.front()
        bool finished = false;   // they send no more
        std::optional<Error> broken;
        std::uint64_t sent = 0;  // and not given back
        std::uint64_t read = 0;
        std::uint64_t next_sequence = 0;
        InOrder incoming;
        std::shared_ptr<Parked> reader;
        std::shared_ptr<Parked> writer;
        SocketAddress address;

        void wake() const {
            if (reader) reader->resume();
            if (writer) writer->resume();
        }
    };

    ByteWire(World& given_world, Process& dialler, Process& acceptor)
        : Wire(given_world, dialler, acceptor) {}

    void send_part(int side, Kind kind, Bytes payload) {
        auto packet = std::make_unique<Packet>();
        packet->kind = static_cast<std::uint8_t>(kind);
        packet->sequence = sides[side].next_sequence++;
        packet->payload = std::move(payload);
        send(side, std::move(packet));
    }

    // As shutdown and close: what was sent still arrives, the other side reads the end after it.
    void hang_up(int side) {
        if (sides[side].broken) return;
        sides[side].broken = make_error(ErrorKind::peer_gone,
                                        "the connection to {} was closed here",
                                        sides[1 - side].address.text());
        send_part(side, Kind::finish, Bytes());
        sides[side].wake();
    }

    Side sides[2];

  private:
    void on_packet(int side, Packet& packet) override {
        sides[side].incoming.push(packet, [this, side](Packet& next) { on_part(side, next); });
    }

    void on_part(int side, Packet& packet) {
        Side& here = sides[side];
        switch (static_cast<Kind>(packet.kind)) {
            case Kind::data:
                if (here.broken) {
                    // Data for a socket that was closed: the machine answers with a reset.
                    close(side, "closed here");
                    return;
                }
                here.inbox.push_back(std::move(packet.payload));
                break;
            case Kind::credit: {
                base::ByteReader reader(packet.payload);
                here.sent -= std::min(here.sent, *reader.u64_le());
                break;
            }
            case Kind::finish:
                here.finished = true;
                if (here.broken) {
                    close(side, "closed on both sides");
                    return;
                }
                break;
        }
        here.wake();
    }

    void on_close(int side, const std::string& why) override {
        Side& here = sides[side];
        if (!here.broken)
            here.broken = make_error(ErrorKind::peer_gone,
                                     "the connection to {} is gone: {}",
                                     sides[1 - side].address.text(),
                                     why);
        here.wake();
    }
};

namespace {

Task<Result<std::size_t>> read_from(std::shared_ptr<ByteWire> wire,
                                    int side,
                                    std::span<std::uint8_t> into) {
    ByteWire::Side& here = wire->sides[side];
    auto start = [&here](std::shared_ptr<Parked> parked) { here.reader = std::move(parked); };
    while (!here.broken && here.inbox.empty() && !here.finished) co_await runtime::park(start);
    if (!here.inbox.empty() && !into.empty()) {
        const Bytes& first = here.inbox.front();
        const std::size_t count = std::min(into.size(), first.size() - here.offset);
        std::copy_n(first.begin() + static_cast<std::ptrdiff_t>(here.offset), count, into.begin());
        here.offset += count;
        if (here.offset == first.size()) {
            here.inbox.pop_front();
            here.offset = 0;
        }
        here.read += count;
        if (here.read >= window_bytes / 4 && !here.broken) {
            Bytes credit;
            base::put_u64_le(credit, here.read);
            here.read = 0;
            wire->send_part(side, Kind::credit, std::move(credit));
        }
        co_return count;
    }
    if (here.broken) co_return *here.broken;
    co_return std::size_t{0};
}

Task<Result<void>> write_to(std::shared_ptr<ByteWire> wire, int side, ByteView bytes) {
    ByteWire::Side& here = wire->sides[side];
    auto start = [&here](std::shared_ptr<Parked> parked) { here.writer = std::move(parked); };
    while (!bytes.empty()) {
        while (!here.broken && here.sent >= window_bytes) co_await runtime::park(start);
        if (here.broken) co_return *here.broken;
        const std::size_t count = std::min(bytes.size(), segment_bytes_max);
        here.sent += count;
        wire->send_part(side, Kind::data, to_bytes(bytes.first(count)));
        bytes = bytes.subspan(count);
    }
    if (here.broken) co_return *here.broken;
    co_return Ok();
}

class SimConnection final : public runtime::Connection {
  public:
    SimConnection(std::shared_ptr<ByteWire> wire, int side) : wire_(std::move(wire)), side_(side) {}
    ~SimConnection() override { close(); }

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        return read_from(wire_, side_, into);
    }
    Task<Result<void>> write(ByteView bytes) override { return write_to(wire_, side_, bytes); }
    void close() override { wire_->hang_up(side_); }
    SocketAddress local() const override { return wire_->sides[side_].address; }
    SocketAddress remote() const override { return wire_->sides[1 - side_].address; }

  private:
    std::shared_ptr<ByteWire> wire_;
    int side_;
};

}  // namespace

// A listening port; lives as long as its Listener.
struct PortState {
    explicit PortState(runtime::Executor executor) : arrived(std::move(executor)) {}
    SocketAddress address;
    std::deque<std::shared_ptr<ByteWire>> backlog;
    bool closed = false;
    runtime::Event arrived;
};

namespace {

Task<Result<std::unique_ptr<runtime::Connection>>> accept_from(std::shared_ptr<PortState> port) {
    while (port->backlog.empty() && !port->closed) {
        port->arrived.reset();
        co_await port->arrived.wait();
    }
    if (port->closed) co_return Error(ErrorKind::cancelled, "the listener was closed");
    auto wire = std::move(port->backlog.front());
    port->backlog.pop_front();
    std::unique_ptr<runtime::Connection> accepted =
        std::make_unique<SimConnection>(std::move(wire), 1);
    co_return accepted;
}

class SimListener final : public runtime::Listener {
  public:
    explicit SimListener(std::shared_ptr<PortState> port) : port_(std::move(port)) {}
    ~SimListener() override { close(); }
    Task<Result<std::unique_ptr<runtime::Connection>>> accept() override {
        return accept_from(port_);
    }
    SocketAddress local() const override { return port_->address; }
    void close() override {
        port_->closed = true;
        port_->backlog.clear();
        port_->arrived.set();
    }

  private:
    std::shared_ptr<PortState> port_;
};

}  // namespace

struct SimNetwork::Attempt {
    SocketAddress from;
    SocketAddress to;
    SimNode* target = nullptr;
    bool done = false;
    std::optional<Error> error;
    std::shared_ptr<ByteWire> wire;
    std::shared_ptr<Parked> waiter;

    void finish() {
        done = true;
        if (waiter) waiter->resume();
    }
};

SimNetwork::SimNetwork(Process& process) : process_(process), world_(process.world) {}
SimNetwork::~SimNetwork() = default;

std::vector<std::string> SimNetwork::interface_addresses() const { return {process_.node.ip()}; }

runtime::Traffic SimNetwork::traffic() const { return process_.node.traffic(); }

void SimNetwork::forget_listeners() { ports_.clear(); }

Result<std::unique_ptr<runtime::Listener>> SimNetwork::listen(const SocketAddress& address) {
    std::uint16_t port = address.port;
    if (port == 0) port = next_port_++;
    const auto used = ports_.find(port);
    if (used != ports_.end()) {
        const auto state = used->second.lock();
        if (state && !state->closed)
            return make_error(ErrorKind::local_fault,
                              "port {} is in use by another program; stop that program or choose "
                              "another port (0 lets the system choose)",
                              port);
    }
    auto state = std::make_shared<PortState>(world_.executor());
    state->address = SocketAddress{process_.node.ip(), port};
    ports_[port] = state;
    std::unique_ptr<runtime::Listener> listener = std::make_unique<SimListener>(std::move(state));
    return listener;
}

Task<Result<std::unique_ptr<runtime::Connection>>> SimNetwork::connect(SocketAddress address,
                                                                       TimePoint deadline) {
    if (!process_.alive) co_return Error(ErrorKind::peer_gone, "this process was killed");
    auto attempt = std::make_shared<Attempt>();
    attempt->target = world_.find_address(address.host);
    if (attempt->target == nullptr || attempt->target == &process_.node)
        co_return make_error(
            ErrorKind::not_found, "{} is not another machine of this world", address.host);
    attempt->from = SocketAddress{process_.node.ip(), next_port_++};
    attempt->to = std::move(address);
    const std::size_t here = process_.node.index();
    const Duration there = world_.pair(here, attempt->target->index()).link.latency;
    world_.schedule(world_.now() + there, nullptr, [this, attempt] { attempt_arrives(attempt); });
    auto expire = [&attempt] {
        if (attempt->done) return;
        attempt->error = make_error(ErrorKind::timeout,
                                    "connecting to {} took longer than its deadline",
                                    attempt->to.text());
        attempt->finish();
    };
    const runtime::TimerId timer = process_.clock.call_at(deadline, expire);
    const runtime::TimerGuard guard(process_.clock, timer);
    struct GiveUp {
        Attempt& attempt;
        ~GiveUp() { attempt.done = true; }
    };
    const GiveUp give_up{*attempt};
    auto start = [&attempt](std::shared_ptr<Parked> parked) {
        attempt->waiter = std::move(parked);
    };
    co_await runtime::park(start);
    if (attempt->error) co_return *attempt->error;
    std::unique_ptr<runtime::Connection> made = std::make_unique<SimConnection>(attempt->wire, 0);
    co_return made;
}

// In the network. A machine accepts for a frozen process; the process hears of it later.
void SimNetwork::attempt_arrives(const std::shared_ptr<Attempt>& attempt) {
    if (attempt->done || !process_.alive) return;
    const std::size_t from = process_.node.index();
    const std::size_t to = attempt->target->index();
    if (!world_.path_open(from, to) || !world_.path_open(to, from) ||
        !attempt->target->machine_up_ || !attempt->target->options().dialable) {
        world_.schedule(
            world_.now() + connect_retry, nullptr, [this, attempt] { attempt_arrives(attempt); });
        return;
    }
    Process& target = *attempt->target->process_;
    const Duration back = world_.pair(to, from).link.latency;
    auto& ports = target.network->ports_;
    const auto found = ports.find(attempt->to.port);
    const auto port = found == ports.end() || !target.alive ? nullptr : found->second.lock();
    if (!port || port->closed || port->backlog.size() >= backlog_max) {
        world_.schedule(world_.now() + back, &process_, [attempt] {
            if (attempt->done) return;
            attempt->error = make_error(ErrorKind::peer_gone,
                                        "{} refused the connection: no program listens there",
                                        attempt->to.text());
            attempt->finish();
        });
        return;
    }
    auto wire = std::make_shared<ByteWire>(world_, process_, target);
    wire->sides[0].address = attempt->from;
    wire->sides[1].address = port->address;
    wire->open(1);
    world_.add_wire(wire);
    world_.schedule(world_.now(), &target, [port, wire] {
        if (port->closed) {
            wire->close(1, "the listener was closed");
            return;
        }
        port->backlog.push_back(wire);
        port->arrived.set();
    });
    world_.schedule(world_.now() + back, &process_, [attempt, wire] {
        wire->open(0);
        if (attempt->done) {
            wire->close(0, "nobody waits for this connection any more");
            return;
        }
        attempt->wire = wire;
        attempt->finish();
    });
}

}  // namespace dedloc::sim
