// TCP through Asio.
//
// Cost: one system call a read or write; the kernel keeps at most notsent_bytes_max unsent bytes a
// connection, so that a small message is not stuck behind megabytes that are already ours no more.
// Thread: the loop's; names are resolved in a thread of Asio's.

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <memory>
#include <net/if.h>
#include <netinet/tcp.h>
#include <optional>
#include <set>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "dedloc/runtime/congestion_control.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/interfaces.h"
#include "dedloc/runtime/open_files.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/runtime/tcp_facts.h"

namespace dedloc::runtime {

namespace {

using asio::ip::tcp;

// The kernel may hold this much unsent: as much as the link takes in a moment, because whatever is
// written later, small and urgent as it may be, leaves after it; and because of several connections
// that share a line one is served badly for a while, and who sends evenly has to see that.
constexpr int notsent_bytes_max = 256 * 1024;
constexpr int notsent_bytes_start = 32 * 1024;
constexpr int notsent_bytes_min = 4 * 1024;
constexpr std::chrono::milliseconds notsent_time{15};
// Shorter looks at the line's rate are chance.
constexpr std::chrono::milliseconds rate_look_min{20};
constexpr std::size_t endpoints_max = 8;  // of one name, tried in turn

SocketAddress to_address(const tcp::endpoint& endpoint) {
    return {endpoint.address().to_string(), endpoint.port()};
}

// Asio's codes know no std::errc for this one.
bool is_address_not_available(const std::error_code& error) {
    return error.value() == EADDRNOTAVAIL;
}

// True for a shortage of descriptors or memory. It ends when something is closed.
bool is_shortage(const std::error_code& error) {
    const int code = error.value();
    return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

Error explain(const std::error_code& error, std::string_view doing, const std::string& whom) {
    if (error == asio::error::connection_refused)
        return make_error(
            ErrorKind::peer_gone, "{} refused the connection: no program listens there", whom);
    if (error == asio::error::no_descriptors)
        return make_error(ErrorKind::local_fault,
                          "this process has no file descriptors left while {} {}; raise the limit "
                          "with `ulimit -n`",
                          doing,
                          whom);
    if (error == asio::error::operation_aborted)
        return make_error(ErrorKind::peer_gone, "the connection to {} was closed here", whom);
    return make_error(ErrorKind::peer_gone, "{} {}: {}", doing, whom, error.message());
}

// An aborted operation is either the Task's cancellation, which unwinds, or our own close().
Task<void> throw_if_cancelled() {
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none)
        throw std::system_error(asio::error::make_error_code(asio::error::operation_aborted));
}

// Between programs of one machine there is no line to share, and bbr's timers, one or two for each
// segment, cost a tenth of a round's processor time (docs/speed.md).
constexpr const char* control_on_one_machine = "reno";  // every kernel has it, and allows it

// A socket that never had bbr never paces, so the sooner the better.
void control_congestion(int socket, const std::string& asked_for, bool local_only) {
    if (asked_for.empty() && !local_only) return;
    (void)set_congestion_control(socket, asked_for.empty() ? control_on_one_machine : asked_for);
}

void allow_unsent(tcp::socket& socket, int bytes) {
    (void)::setsockopt(
        socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

bool on_this_machine(const tcp::endpoint& local, const tcp::endpoint& remote) {
    return remote.address().is_loopback() || remote.address() == local.address();
}

struct SocketState;

// The machine's line, which all connections of a network share.
struct Line {
    std::string congestion_control;  // empty: the system's
    Traffic by_closed;               // connections
    std::set<SocketState*> open;

    Traffic traffic() const;
};

struct SocketState {
    SocketState(tcp::socket given, std::shared_ptr<Line> its_line) : socket(std::move(given)) {
        std::error_code error;
        const tcp::endpoint here = socket.local_endpoint(error);
        const tcp::endpoint there = socket.remote_endpoint(error);
        local = to_address(here);
        remote = to_address(there);
        socket.set_option(tcp::no_delay(true), error);  // tuning only: works without it
        const bool local_only = on_this_machine(here, there);
        control_congestion(socket.native_handle(), its_line->congestion_control, local_only);
        if (local_only) notsent_max = notsent_bytes_max;
        allow_unsent(socket, notsent_max);
        if (local_only) return;
        line = std::move(its_line);
        line->open.insert(this);
    }
    ~SocketState() { leave_line(); }
    SocketState(const SocketState&) = delete;
    SocketState& operator=(const SocketState&) = delete;

    // The bytes that the kernel took and the other machine has not acknowledged.
    std::uint64_t left() {
        int kept = 0;
        if (left_before == traffic.sent_bytes) return left_before;
        if (::ioctl(socket.native_handle(), SIOCOUTQ, &kept) != 0) return left_before;
        const auto unacknowledged = std::min<std::uint64_t>(traffic.sent_bytes, std::max(kept, 0));
        left_before = std::max(left_before, traffic.sent_bytes - unacknowledged);
        return left_before;
    }
    void leave_line() {
        if (!line || line->open.erase(this) == 0) return;
        line->by_closed.sent_bytes += left();
        line->by_closed.received_bytes += traffic.received_bytes;
    }

    void line_was_free() {
        looked_at = RealTime::now();
        taken = 0;
    }
    // After a wait for the line: what it took since the last one is its rate.
    void line_was_full() {
        const auto now = RealTime::now();
        const std::chrono::duration<double> elapsed = now - looked_at;
        if (elapsed < rate_look_min) return;
        const double share = notsent_time / elapsed;
        looked_at = now;
        const double fitting = static_cast<double>(std::exchange(taken, 0)) * share;
        const int wanted = static_cast<int>(
            std::clamp(fitting, double{notsent_bytes_min}, double{notsent_bytes_max}));
        if (wanted > notsent_max / 2 && wanted < notsent_max * 2) return;
        notsent_max = wanted;
        allow_unsent(socket, notsent_max);
    }

    using RealTime = std::chrono::steady_clock;
    tcp::socket socket;
    SocketAddress local;
    SocketAddress remote;
    int notsent_max = notsent_bytes_start;
    RealTime::time_point looked_at = RealTime::now();
    std::size_t taken = 0;       // by the kernel since then
    std::shared_ptr<Line> line;  // null: on this machine
    Traffic traffic;             // sent: what the kernel took
    std::uint64_t left_before = 0;
};

Traffic Line::traffic() const {
    Traffic all = by_closed;
    for (SocketState* socket : open) {
        all.sent_bytes += socket->left();
        all.received_bytes += socket->traffic.received_bytes;
    }
    return all;
}

Task<Result<std::size_t>> read_from(std::shared_ptr<SocketState> state,
                                    std::span<std::uint8_t> into) {
    std::error_code error;
    const auto buffer = asio::buffer(into.data(), into.size());
    auto token = asio::redirect_error(asio::use_awaitable, error);
    const std::size_t count = co_await state->socket.async_read_some(buffer, token);
    if (error == asio::error::eof) co_return std::size_t{0};
    if (error == asio::error::operation_aborted) co_await throw_if_cancelled();
    if (error) co_return explain(error, "reading from", state->remote.text());
    state->traffic.received_bytes += count;
    co_return count;
}

// How much the kernel may be given now; 0: it has enough. The option TCP_NOTSENT_LOWAT only
// concerns those who wait until they may write: a write that is simply tried is taken as long as
// the kernel's buffer has room, which may be megabytes.
std::size_t room_for_unsent(SocketState& state) {
    int unsent = 0;
    if (::ioctl(state.socket.native_handle(), SIOCOUTQNSD, &unsent) != 0) unsent = 0;
    if (unsent == 0) state.line_was_free();
    return static_cast<std::size_t>(std::max(state.notsent_max - unsent, 0));
}

Task<Result<void>> write_to(std::shared_ptr<SocketState> state, ByteView bytes) {
    std::error_code error;
    while (!bytes.empty()) {
        auto token = asio::redirect_error(asio::use_awaitable, error);
        std::size_t room = room_for_unsent(*state);
        if (room == 0) {
            co_await state->socket.async_wait(tcp::socket::wait_write, token);
            if (error == asio::error::operation_aborted) co_await throw_if_cancelled();
            if (error) co_return explain(error, "writing to", state->remote.text());
            state->line_was_full();
            room = std::max<std::size_t>(room_for_unsent(*state), notsent_bytes_min);
        }
        const auto buffer = asio::buffer(bytes.data(), std::min(bytes.size(), room));
        const std::size_t count = co_await state->socket.async_write_some(buffer, token);
        if (error == asio::error::operation_aborted) co_await throw_if_cancelled();
        if (error) co_return explain(error, "writing to", state->remote.text());
        bytes = bytes.subspan(count);
        state->taken += count;
        state->traffic.sent_bytes += count;
    }
    co_return Ok();
}

class TcpConnection final : public Connection {
  public:
    TcpConnection(tcp::socket socket, std::shared_ptr<Line> line)
        : state_(std::make_shared<SocketState>(std::move(socket), std::move(line))) {}
    ~TcpConnection() override { close(); }

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        return read_from(state_, into);
    }
    Task<Result<void>> write(ByteView bytes) override { return write_to(state_, bytes); }
    void close() override {
        state_->leave_line();
        std::error_code ignored;  // there is nothing to do about a socket that is gone already
        state_->socket.shutdown(tcp::socket::shutdown_both, ignored);
        state_->socket.close(ignored);
    }
    SocketAddress local() const override { return state_->local; }
    SocketAddress remote() const override { return state_->remote; }
    std::optional<Duration> network_round_trip() const override {
        return least_round_trip(state_->socket.native_handle());
    }

  private:
    std::shared_ptr<SocketState> state_;
};

struct AcceptorState {
    AcceptorState(Executor executor, std::shared_ptr<Line> its_line)
        : acceptor(std::move(executor)), line(std::move(its_line)) {}
    tcp::acceptor acceptor;
    std::shared_ptr<Line> line;
    SocketAddress local;
};

Task<Result<std::unique_ptr<Connection>>> accept_from(std::shared_ptr<AcceptorState> state) {
    std::error_code error;
    for (;;) {
        auto token = asio::redirect_error(asio::use_awaitable, error);
        tcp::socket socket = co_await state->acceptor.async_accept(token);
        if (!error) {
            std::unique_ptr<Connection> made =
                std::make_unique<TcpConnection>(std::move(socket), state->line);
            co_return made;
        }
        if (error == asio::error::operation_aborted) {
            co_await throw_if_cancelled();
            co_return make_error(ErrorKind::cancelled, "the listener was closed");
        }
        // The other side may hang up before we look; that is not the listener's failure.
        if (error != asio::error::connection_aborted && error != asio::error::connection_reset)
            co_return make_error(
                is_shortage(error) ? ErrorKind::overloaded : ErrorKind::local_fault,
                "accepting on {}: {}",
                state->local.text(),
                error.message());
    }
}

class TcpListener final : public Listener {
  public:
    explicit TcpListener(std::shared_ptr<AcceptorState> state) : state_(std::move(state)) {}
    ~TcpListener() override { close(); }

    Task<Result<std::unique_ptr<Connection>>> accept() override { return accept_from(state_); }
    SocketAddress local() const override { return state_->local; }
    void close() override {
        std::error_code ignored;
        state_->acceptor.close(ignored);
    }

  private:
    std::shared_ptr<AcceptorState> state_;
};

using Endpoints = std::vector<tcp::endpoint>;

// Kept by the pending lookup: getaddrinfo cannot be interrupted, so whoever gives up leaves it. One
// that has not begun is taken back: they go one after another, and the next would wait for it.
struct Lookup {
    explicit Lookup(Executor executor) : resolver(std::move(executor)) {}
    tcp::resolver resolver;
    std::error_code error;
    Endpoints endpoints;
    std::shared_ptr<Parked> waiter;
};

Task<Result<Endpoints>> resolve(Executor executor, SocketAddress address) {
    std::error_code error;
    const auto literal = asio::ip::make_address(address.host, error);
    if (!error) co_return Endpoints(1, tcp::endpoint(literal, address.port));
    auto lookup = std::make_shared<Lookup>(std::move(executor));
    auto start = [&lookup, &address](std::shared_ptr<Parked> parked) {
        lookup->waiter = std::move(parked);
        const auto take = [lookup](std::error_code failure,
                                   const tcp::resolver::results_type& results) {
            lookup->error = failure;
            for (const auto& entry : results)
                if (lookup->endpoints.size() < endpoints_max)
                    lookup->endpoints.push_back(entry.endpoint());
            lookup->waiter->resume();
        };
        // The first name starts Asio's thread, which the system may refuse.
        try {
            lookup->resolver.async_resolve(address.host, std::to_string(address.port), take);
        } catch (const std::system_error& refused) {
            lookup->error = refused.code();
            asio::post(lookup->resolver.get_executor(), [lookup] { lookup->waiter->resume(); });
        }
    };
    struct TakenBack {
        Lookup& lookup;
        ~TakenBack() { lookup.resolver.cancel(); }
    };
    const TakenBack taken_back{*lookup};
    co_await park(start);
    if (lookup->error || lookup->endpoints.empty())
        co_return make_error(ErrorKind::not_found,
                             "the name {} cannot be resolved: {}",
                             address.host,
                             lookup->error.message());
    co_return std::move(lookup->endpoints);
}

// Other sockets of this process may use the port too. A listener says so only after it listens, so
// that a second program on the port is still refused.
bool share_port(int socket) {
    const int on = 1;
    return ::setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
}

void bind_to_shared_port(tcp::socket& socket,
                         const tcp::endpoint& to,
                         std::uint16_t local_port,
                         std::error_code& error) {
    socket.open(to.protocol(), error);
    if (!error) socket.set_option(tcp::socket::reuse_address(true), error);
    if (!error && !share_port(socket.native_handle()))
        error = std::error_code(errno, std::generic_category());
    if (!error) socket.bind(tcp::endpoint(to.protocol(), local_port), error);
}

// `local_port` 0: any.
Task<Result<std::unique_ptr<Connection>>> connect_one(Executor executor,
                                                      std::shared_ptr<Line> line,
                                                      tcp::endpoint endpoint,
                                                      std::uint16_t local_port) {
    tcp::socket socket(std::move(executor));
    std::error_code error;
    if (local_port != 0) bind_to_shared_port(socket, endpoint, local_port, error);
    if (error)
        co_return make_error(
            ErrorKind::local_fault, "port {} cannot be shared: {}", local_port, error.message());
    if (!socket.is_open()) socket.open(endpoint.protocol(), error);
    if (!error)
        control_congestion(
            socket.native_handle(), line->congestion_control, endpoint.address().is_loopback());
    auto token = asio::redirect_error(asio::use_awaitable, error);
    if (!error) co_await socket.async_connect(endpoint, token);
    if (error == asio::error::operation_aborted) co_await throw_if_cancelled();
    // The port is bound already, so it is not the address of this machine that is missing: the
    // kernel says so, too, of a pair of addresses that is in use, or was until a moment ago.
    const bool pair_in_use =
        is_address_not_available(error) || error == asio::error::address_in_use;
    if (local_port != 0 && pair_in_use)
        co_return make_error(ErrorKind::local_fault,
                             "there is a connection from port {} to {} already",
                             local_port,
                             to_address(endpoint).text());
    if (error) co_return explain(error, "connecting to", to_address(endpoint).text());
    std::unique_ptr<Connection> made =
        std::make_unique<TcpConnection>(std::move(socket), std::move(line));
    co_return made;
}

Error explain_listen(const std::error_code& error, const SocketAddress& address) {
    if (error == asio::error::address_in_use)
        return make_error(ErrorKind::local_fault,
                          "port {} is in use by another program; stop that program or choose "
                          "another port (0 lets the system choose)",
                          address.port);
    if (error == asio::error::access_denied)
        return make_error(ErrorKind::local_fault,
                          "port {} needs privileges that this process does not have; choose one "
                          "above 1023",
                          address.port);
    if (is_address_not_available(error))
        return make_error(ErrorKind::local_fault,
                          "{} is not an address of this machine; use 0.0.0.0 for all of them",
                          address.host);
    return make_error(
        ErrorKind::local_fault, "cannot listen on {}: {}", address.text(), error.message());
}

// Beside files, pipes and the like, half is for sockets that are no connections yet: dials, and
// strangers at the door.
constexpr std::size_t files_of_the_rest = 256;
constexpr std::size_t connections_allowed_min = 32;

class TcpNetwork final : public Network {
  public:
    TcpNetwork(Executor executor, std::string congestion_control)
        : executor_(executor), clock_(real_clock(executor)) {
        line_->congestion_control = std::move(congestion_control);
    }

    Task<Result<std::unique_ptr<Connection>>> connect(SocketAddress address,
                                                      TimePoint deadline) override {
        const std::string what = fmt::format("connecting to {}", address.text());
        Task<Result<Endpoints>> lookup = resolve(executor_, address);
        auto found = co_await with_deadline(*clock_, deadline, what, std::move(lookup));
        if (!found) co_return std::move(found).error();
        const Endpoints endpoints = *std::move(found);
        std::optional<Error> last;
        for (std::size_t i = 0; i < endpoints.size(); ++i) {
            // The time left is shared evenly, so that one dead address does not eat it all.
            TimePoint until = deadline;
            const TimePoint now = clock_->now();
            if (i + 1 < endpoints.size() && deadline != TimePoint::never())
                until = now + (deadline - now) / static_cast<std::int64_t>(endpoints.size() - i);
            auto attempt = connect_one(executor_, line_, endpoints[i], 0);
            auto outcome = co_await with_deadline(*clock_, until, what, std::move(attempt));
            if (outcome) co_return outcome;
            last = std::move(outcome).error();
        }
        co_return *std::move(last);
    }

    Task<Result<std::unique_ptr<Connection>>> connect_from(std::uint16_t local_port,
                                                           SocketAddress address,
                                                           TimePoint deadline) override {
        std::error_code error;
        const auto host = asio::ip::make_address(address.host, error);
        if (error)
            co_return make_error(ErrorKind::bad_input, "\"{}\" is no IP address", address.host);
        const std::string what = fmt::format("connecting to {}", address.text());
        auto attempt = connect_one(executor_, line_, tcp::endpoint(host, address.port), local_port);
        auto outcome = co_await with_deadline(*clock_, deadline, what, std::move(attempt));
        co_return outcome;
    }

    Result<std::unique_ptr<Listener>> listen(const SocketAddress& address) override {
        std::error_code error;
        const auto host = asio::ip::make_address(address.host, error);
        if (error)
            return make_error(
                ErrorKind::bad_input, "\"{}\" is not an IP address to listen on", address.host);
        auto state = std::make_shared<AcceptorState>(executor_, line_);
        tcp::acceptor& acceptor = state->acceptor;
        const tcp::endpoint endpoint(host, address.port);
        acceptor.open(endpoint.protocol(), error);
        if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
        if (!error && host.is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
        if (!error) acceptor.bind(endpoint, error);
        // A listener's options are those its connections begin with.
        if (!error)
            control_congestion(
                acceptor.native_handle(), line_->congestion_control, host.is_loopback());
        if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
        if (error) return explain_listen(error, address);
        (void)share_port(acceptor.native_handle());  // without it only hole punching suffers
        state->local = to_address(acceptor.local_endpoint(error));
        std::unique_ptr<Listener> listener = std::make_unique<TcpListener>(std::move(state));
        return listener;
    }

    Traffic traffic() const override { return line_->traffic(); }

    std::size_t connections_allowed() const override {
        const std::size_t files = open_files_allowed();
        const std::size_t left = files - std::min(files, files_of_the_rest);
        return std::max(left / 2, connections_allowed_min);
    }

    std::vector<std::string> interface_addresses() const override {
        check_interfaces();
        return interfaces_;
    }

    std::vector<std::string> outward_addresses() const override {
        check_interfaces();
        return outward_;
    }

  private:
    // The interface of the default route comes first, then other networks, then bridges. Hosts ask
    // with every message that says where they are, and an answer takes the kernel some 0.1 ms.
    void check_interfaces() const {
        constexpr auto fresh_for = std::chrono::seconds(1);
        const auto now = std::chrono::steady_clock::now();
        if (looked_ && now - *looked_ < fresh_for) return;
        ifaddrs* all = nullptr;
        const auto first = address_of_default_route();
        // Out of descriptors: that says nothing of the network.
        if (!first || ::getifaddrs(&all) != 0) return;
        enum Rank { by_default_route, other, bridge };
        std::set<std::pair<Rank, std::string>> addresses;
        std::set<std::string> loopback;
        for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
            if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
            const auto address = from_sockaddr(*entry->ifa_addr);
            if (!address || (address->is_v6() && address->to_v6().is_link_local())) continue;
            const std::string text = address->to_string();
            if (address->is_loopback())
                loopback.insert(text);
            else if (text == *first)
                addresses.emplace(by_default_route, text);
            else
                addresses.emplace(is_bridge(entry->ifa_name) ? bridge : other, text);
        }
        ::freeifaddrs(all);
        looked_ = now;
        interfaces_.clear();
        outward_.clear();
        for (const auto& [rank, text] : addresses) {
            interfaces_.push_back(text);
            if (rank != bridge) outward_.push_back(text);
        }
        if (addresses.empty()) interfaces_.assign(loopback.begin(), loopback.end());
    }

    static std::optional<asio::ip::address> from_sockaddr(const sockaddr& any) {
        if (any.sa_family == AF_INET) {
            sockaddr_in v4{};
            std::memcpy(&v4, &any, sizeof v4);
            return asio::ip::address_v4(ntohl(v4.sin_addr.s_addr));
        }
        if (any.sa_family == AF_INET6) {
            sockaddr_in6 v6{};
            std::memcpy(&v6, &any, sizeof v6);
            asio::ip::address_v6::bytes_type bytes;
            std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
            return asio::ip::address_v6(bytes);
        }
        return std::nullopt;
    }

    Executor executor_;
    std::unique_ptr<Clock> clock_;
    std::shared_ptr<Line> line_ = std::make_shared<Line>();
    mutable std::vector<std::string> interfaces_{"127.0.0.1"};  // as they were last seen
    mutable std::vector<std::string> outward_;
    mutable std::optional<std::chrono::steady_clock::time_point> looked_;
};

}  // namespace

std::unique_ptr<Network> real_network(Executor executor, std::string congestion_control) {
    return std::make_unique<TcpNetwork>(std::move(executor), std::move(congestion_control));
}

}  // namespace dedloc::runtime
