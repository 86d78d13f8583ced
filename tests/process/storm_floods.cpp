#include "tests/process/storm_floods.h"

#include <chrono>
#include <functional>
#include <pthread.h>
#include <string>
#include <thread>
#include <time.h>
#include <utility>
#include <vector>

#include "dedloc/membership/membership.h"
#include "dedloc/p2p/connection.h"
#include "dedloc/p2p/protocols.h"
#include "dedloc/p2p/relay_client.h"
#include "dedloc/p2p/rpc.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/security/identity.h"
#include "dedloc/transport/upgrade.h"
#include "dedloc/wire/kad_messages.h"
#include "dedloc/wire/length_prefix.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t askers = 8;
constexpr std::size_t streams_of_an_asker = 8;
constexpr std::size_t holders = 200;
constexpr std::size_t held_bytes = 250u << 10;
constexpr std::size_t announced_bytes = 4u << 20;
constexpr std::size_t long_addresses = 16;
constexpr Duration pause_after_failure{20'000'000};
constexpr Duration timeout{10'000'000'000};
constexpr auto neighbour_moment = std::chrono::milliseconds(10);

using ConnectionPtr = std::shared_ptr<p2p::PeerConnection>;

double thread_seconds(clockid_t clock) {
    timespec spent{};
    if (::clock_gettime(clock, &spent) != 0) return 0;
    return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) / 1e9;
}

Bytes long_address(std::size_t number) {
    std::string name;
    for (int i = 0; i < 4; ++i) name += (i > 0 ? "." : "") + std::string(55, 'a');
    const auto address =
        wire::Multiaddr::from_text(fmt::format("/dns4/{}/tcp/{}", name, 1000 + number));
    return address->bytes();
}

void hang_up(const ConnectionPtr& connection) {
    connection->close(Error(ErrorKind::cancelled, "this stranger goes"));
}

}  // namespace

std::string_view to_string(FloodKind kind) {
    switch (kind) {
        case FloodKind::find_node:
            return "find_node";
        case FloodKind::identify:
            return "identify";
        case FloodKind::hello:
            return "hello";
        case FloodKind::hold:
            return "hold";
        case FloodKind::handshake:
            return "handshake";
        case FloodKind::relay:
            return "relay";
    }
    return "unknown";
}

struct Flood::State {
    State(FloodKind what, std::uint16_t at) : kind(what), port(at) {}

    void begin();
    void end();
    Task<Result<ConnectionPtr>> connect();
    Task<void> again(Task<void> (State::*act)());
    Task<void> leave_addresses();
    Task<void> ask_for_peers();
    Task<void> ask_on_one_stream(ConnectionPtr connection);
    Task<void> ask_who();
    Task<void> say_hello();
    Task<void> hold();
    Task<void> shake_hands();
    Task<void> use_relay();

    FloodKind kind;
    std::uint16_t port;
    runtime::Loop loop;
    std::unique_ptr<runtime::Clock> clock = runtime::real_clock(loop.executor());
    std::unique_ptr<runtime::Network> network = runtime::real_network(loop.executor());
    std::unique_ptr<runtime::Scope> scope = std::make_unique<runtime::Scope>(loop.executor());
    std::atomic<std::uint64_t> answers = 0;
    std::thread thread;
};

Task<Result<ConnectionPtr>> Flood::State::connect() {
    const runtime::SocketAddress address{.host = "127.0.0.1", .port = port};
    const TimePoint deadline = clock->now() + timeout;
    auto raw = co_await network->connect(address, deadline);
    if (!raw) co_return std::move(raw).error();
    auto context = transport::UpgradeContext::make(security::Identity::generate());
    if (!context) co_return std::move(context).error();
    const PeerId anybody;
    auto secured =
        co_await transport::upgrade_dialled(*std::move(raw), *std::move(context), anybody, *clock);
    if (!secured) co_return std::move(secured).error();
    p2p::PeerConnection::Settings settings{
        .executor = loop.executor(),
        .clock = *clock,
        .memory = nullptr,
        .keep_alive_interval = transport::keep_alive_interval,
        .keep_alive_answer_max = transport::keep_alive_answer_max};
    auto connection =
        std::make_shared<p2p::PeerConnection>(*std::move(secured), std::move(settings));
    connection->start(*scope);
    co_return connection;
}

// A flooder whose connection is closed or refused begins anew.
Task<void> Flood::State::again(Task<void> (State::*act)()) {
    for (;;) {
        co_await (this->*act)();
        co_await clock->sleep_for(pause_after_failure);
    }
}

Task<void> Flood::State::leave_addresses() {
    auto connection = co_await connect();
    if (!connection) co_return;
    const TimePoint deadline = clock->now() + timeout;
    auto opened = co_await (*connection)->open_stream(deadline);
    if (opened) {
        wire::Identify identify;
        for (std::size_t i = 0; i < long_addresses; ++i)
            identify.listen_addresses.push_back(long_address(i));
        identify.protocols.emplace_back(wire::kad_protocol);
        const std::unique_ptr<transport::Stream> stream = *std::move(opened);
        stream->set_deadline(deadline);
        stream->propose(std::string(wire::identify_push_protocol));
        stream->write(wire::with_length_prefix(wire::encode(identify)));
        stream->finish();
        auto confirmed = co_await stream->confirm();
        if (confirmed) ++answers;
    }
    hang_up(*connection);
}

Task<void> Flood::State::ask_on_one_stream(ConnectionPtr connection) {
    auto opened = co_await connection->open_stream(clock->now() + timeout);
    if (!opened) co_return;
    const std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(TimePoint::never());
    stream->propose(std::string(wire::kad_protocol));
    for (std::uint64_t number = 0;; ++number) {
        wire::KadMessage question;
        question.type = wire::KadType::find_node;
        question.key = Random(number).bytes(34);
        stream->write(wire::with_length_prefix(wire::encode(question)));
        auto answer = co_await stream->read_prefixed(p2p::kad_answer_bytes_max);
        if (!answer || !*answer) co_return;
        ++answers;
    }
}

Task<void> Flood::State::ask_for_peers() {
    auto connection = co_await connect();
    if (!connection) co_return;
    const ConnectionPtr asker = *connection;
    for (std::size_t i = 1; i < streams_of_an_asker; ++i)
        scope->spawn("ask", ask_on_one_stream(asker));
    co_await ask_on_one_stream(asker);
    hang_up(asker);
}

Task<void> Flood::State::ask_who() {
    auto connection = co_await connect();
    if (!connection) co_return;
    const ConnectionPtr asker = *connection;
    while (!asker->is_closed()) {
        auto answer = co_await p2p::ask_identify(asker, clock->now() + timeout);
        if (!answer) break;
        ++answers;
    }
    hang_up(asker);
}

Task<void> Flood::State::say_hello() {
    auto connection = co_await connect();
    if (!connection) co_return;
    const ConnectionPtr asker = *connection;
    for (int number = 0; !asker->is_closed(); ++number) {
        auto opened = co_await asker->open_stream(clock->now() + timeout);
        if (!opened) break;
        std::unique_ptr<transport::Stream> stream = *std::move(opened);
        stream->set_deadline(clock->now() + timeout);
        const std::string method = number % 2 == 0 ? std::string(membership::hello_method)
                                                   : std::string("/no/such/method");
        stream->propose(method);
        const wire::CallId id{};
        const Bytes nothing;
        auto call = p2p::encode_call(id, method, nothing);
        auto answer = co_await p2p::finish_call(std::move(stream), id, *std::move(call));
        if (answer || answer.error().kind() != ErrorKind::peer_gone) ++answers;
    }
    hang_up(asker);
}

Task<void> Flood::State::hold() {
    auto connection = co_await connect();
    if (!connection) co_return;
    const ConnectionPtr holder = *connection;
    auto opened = co_await holder->open_stream(clock->now() + timeout);
    if (!opened) co_return;
    const std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(TimePoint::never());
    stream->propose(std::string(membership::hello_method));
    Bytes begun = wire::with_length_prefix(Bytes(announced_bytes));
    begun.resize(held_bytes);
    stream->write(std::move(begun));
    ++answers;
    (void)co_await stream->readable();
    hang_up(holder);
}

Task<void> Flood::State::shake_hands() {
    auto connection = co_await connect();
    if (!connection) co_return;
    ++answers;
    hang_up(*connection);
}

Task<void> Flood::State::use_relay() {
    auto connection = co_await connect();
    if (!connection) co_return;
    const ConnectionPtr user = *connection;
    const PeerId nobody = security::Identity::generate().id();
    while (!user->is_closed()) {
        const TimePoint deadline = clock->now() + timeout;
        auto place = co_await p2p::reserve(user, nobody, clock->wall_now(), deadline);
        auto circuit = co_await p2p::open_circuit(user, nobody, deadline);
        if (place || circuit) ++answers;
        if (!place && place.error().kind() == ErrorKind::peer_gone) break;
    }
    hang_up(user);
}

void Flood::State::begin() {
    const auto spawn = [this](std::size_t count, Task<void> (State::*act)()) {
        for (std::size_t i = 0; i < count; ++i) scope->spawn("flood", again(act));
    };
    switch (kind) {
        case FloodKind::find_node:
            spawn(askers, &State::leave_addresses);
            return spawn(askers, &State::ask_for_peers);
        case FloodKind::identify:
            return spawn(askers * streams_of_an_asker, &State::ask_who);
        case FloodKind::hello:
            return spawn(askers * streams_of_an_asker, &State::say_hello);
        case FloodKind::hold:
            return spawn(holders, &State::hold);
        case FloodKind::handshake:
            return spawn(askers, &State::shake_hands);
        case FloodKind::relay:
            return spawn(askers, &State::use_relay);
    }
}

void Flood::State::end() {
    loop.stop();
    thread.join();
    loop.run_task(scope->stop());
}

Flood::Flood(FloodKind kind, std::uint16_t port) : state_(std::make_unique<State>(kind, port)) {
    State& state = *state_;
    state.loop.post([&state] { state.begin(); });
    state.thread = std::thread([&state] { state.loop.run(); });
}

Flood::~Flood() { state_->end(); }

std::uint64_t Flood::answers() const { return state_->answers; }

double Flood::cpu_seconds() const {
    clockid_t clock = 0;
    if (::pthread_getcpuclockid(state_->thread.native_handle(), &clock) != 0) return 0;
    return thread_seconds(clock);
}

// --------------------------------------------------------------------------------- the neighbour

struct BusyNeighbour::State {
    explicit State(double wanted) : share(wanted), thread([this] { run(); }) {}
    ~State() {
        over = true;
        thread.join();
    }
    void run() const {
        using Steady = std::chrono::steady_clock;
        while (!over) {
            const auto begun = Steady::now();
            const double spent = thread_seconds(CLOCK_THREAD_CPUTIME_ID);
            const double wanted = share * std::chrono::duration<double>(neighbour_moment).count();
            while (!over && thread_seconds(CLOCK_THREAD_CPUTIME_ID) - spent < wanted) {
            }
            std::this_thread::sleep_until(begun + neighbour_moment);
        }
    }

    double share;
    std::atomic<bool> over = false;
    std::thread thread;
};

BusyNeighbour::BusyNeighbour(double share) : state_(std::make_unique<State>(share)) {}
BusyNeighbour::~BusyNeighbour() = default;

}  // namespace dedloc::lab
