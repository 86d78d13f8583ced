// A dedloc peer that does what it is told, for tests beside foreign implementations (run.py).
//
// Prints {"id", "addresses"}; then every line of standard input is one request {"do": …} and every
// answer one line {"ok": true, …} or {"ok": false, "error": …}. tests/interop/README.md lists
// the requests, and the two stream protocols that every partner offers. Ends with standard input.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "dedloc/dht/node.h"
#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/msgpack.h"

#include "expert_requests.h"
#include "record_requests.h"

namespace dedloc::interop {
namespace {

using nlohmann::json;
using p2p::MessageStream;
using StreamPtr = std::shared_ptr<MessageStream>;

constexpr char sink_method[] = "/dedloc-interop/sink/1";
constexpr char echo_method[] = "/dedloc-interop/echo/1";
constexpr std::size_t piece_bytes = 1u << 20;
constexpr Duration request_max = 120s;

json failure(const Error& error) { return {{"ok", false}, {"error", error.message()}}; }

// ------------------------------------------------------------------------------- what is offered

// Reads all, and reports how much and its SHA-256.
Task<void> serve_sink(std::unique_ptr<MessageStream> stream) {
    security::Sha256 hash;
    std::uint64_t bytes = 0;
    for (;;) {
        auto message = co_await stream->read();
        if (!message) {
            std::cerr << "sink: " << message.error().message() << std::endl;
            co_return;
        }
        if (!*message) break;
        hash.update(**message);
        bytes += (**message).size();
    }
    const json report = {{"bytes", bytes}, {"sha256", hash.finish().hex()}};
    Bytes line = to_bytes(report.dump());
    auto written = co_await stream->write(std::move(line));
    if (!written) co_return;
    auto finished = co_await stream->finish();
    (void)finished;
}

Task<void> serve_echo(std::unique_ptr<MessageStream> stream) {
    for (;;) {
        auto message = co_await stream->read();
        if (!message) co_return;
        if (!*message) break;
        Bytes echo = to_bytes(**message);
        auto written = co_await stream->write(std::move(echo));
        if (!written) co_return;
    }
    auto finished = co_await stream->finish();
    (void)finished;
}

// ------------------------------------------------------------------------------ values of the DHT

wire::MsgpackValue from_json(const json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return {};
    wire::MsgpackValue::List items;
    for (const json& item : value) items.push_back(from_json(item));
    return items;
}

json to_json(const wire::MsgpackValue& value) {
    if (const auto* truth = value.get<bool>()) return *truth;
    if (const auto* number = value.get<std::int64_t>()) return *number;
    if (const auto* number = value.get<double>()) return *number;
    if (const auto* text = value.get<std::string>()) return *text;
    if (const auto* bytes = value.get<Bytes>()) return base::to_hex(*bytes);
    json items = json::array();
    if (const auto* list = value.get<wire::MsgpackValue::List>())
        for (const auto& item : *list) items.push_back(to_json(item));
    else
        return nullptr;
    return items;
}

json to_json(const dht::Expiring& record) {
    const auto value = wire::decode_msgpack(record.value);
    return {{"value", value ? to_json(*value) : json()}, {"expiration", record.expiration}};
}

json to_json(const dht::Stored& stored) {
    if (stored.regular) return to_json(*stored.regular);
    json entries = json::object();
    for (const auto& [subkey, record] : stored.dictionary) {
        const auto name = wire::decode_msgpack(subkey);
        const auto* text = name ? name->get<std::string>() : nullptr;
        entries[text ? *text : base::to_hex(subkey)] = to_json(record);
    }
    return {{"dictionary", std::move(entries)}};
}

// ------------------------------------------------------------------------------------ behind a NAT

// Nobody gets through to where it listens: who knocks finds the connection closed.
class ClosedListener final : public runtime::Listener {
  public:
    explicit ClosedListener(std::unique_ptr<runtime::Listener> real) : real_(std::move(real)) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> accept() override {
        for (;;) {
            auto knocked = co_await real_->accept();
            if (!knocked) co_return std::move(knocked).error();
        }
    }
    runtime::SocketAddress local() const override { return real_->local(); }
    void close() override { real_->close(); }

  private:
    std::unique_ptr<runtime::Listener> real_;
};

class BehindNat final : public runtime::Network {
  public:
    explicit BehindNat(runtime::Network& real) : real_(real) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress address,
                                                               TimePoint deadline) override {
        return real_.connect(std::move(address), deadline);
    }
    Result<std::unique_ptr<runtime::Listener>> listen(
        const runtime::SocketAddress& address) override {
        DEDLOC_TRY(auto real, real_.listen(address));
        return std::unique_ptr<runtime::Listener>(
            std::make_unique<ClosedListener>(std::move(real)));
    }
    std::vector<std::string> interface_addresses() const override {
        return real_.interface_addresses();
    }

  private:
    runtime::Network& real_;
};

// ----------------------------------------------------------------------------------------- peer

class Peer {
  public:
    explicit Peer(p2p::Host& host) : host_(host) {
        host_.handle_stream(sink_method, serve_sink);
        host_.handle_stream(echo_method, serve_echo);
    }

    // One request to its answer.
    Task<json> serve(json request);
    Task<void> stop() {
        if (experts_) co_await experts_->stop();
        if (node_) co_await node_->stop();
    }

  private:
    TimePoint deadline() const { return host_.clock().now() + request_max; }
    static Result<PeerId> peer_of(const json& request) {
        return PeerId::from_text(request.value("peer", std::string()));
    }

    Task<Result<json>> connect(json request);
    Task<Result<json>> ping(json request);
    Task<Result<json>> identify(json request);
    Task<Result<json>> send(json request);
    Task<Result<json>> streams(json request);
    Task<Result<json>> find(json request);
    Task<Result<json>> reserved(json request);
    Task<Result<json>> path(json request);
    Task<Result<json>> dht_start(json request);
    Task<Result<json>> dht_store(json request);
    Task<Result<json>> dht_get(json request);
    Task<void> open_one(PeerId peer, std::vector<StreamPtr>* out, std::string* error);
    Task<void> read_one(StreamPtr stream, std::size_t* good);

    p2p::Host& host_;
    security::IdentityVerifier verifier_;
    std::unique_ptr<dht::DhtNode> node_;
    std::unique_ptr<ExpertRequests> experts_;
};

Task<Result<json>> Peer::connect(json request) {
    auto peer = co_await host_.dial(request.value("address", std::string()), deadline());
    if (!peer) co_return std::move(peer).error();
    co_return json{{"peer", peer->text()}};
}

Task<Result<json>> Peer::ping(json request) {
    const auto peer = peer_of(request);
    if (!peer) co_return peer.error();
    auto took = co_await p2p::view_of(host_)->ping(*peer, deadline());
    if (!took) co_return std::move(took).error();
    co_return json{{"ms", std::chrono::duration<double, std::milli>(*took).count()}};
}

// Shows what identify told; it runs by itself, and may still be on its way.
Task<Result<json>> Peer::identify(json request) {
    const auto peer = peer_of(request);
    if (!peer) co_return peer.error();
    for (int tries = 0; tries < 500; ++tries) {
        const auto facts = p2p::view_of(host_)->facts_of(*peer);
        if (!facts) co_return Error(ErrorKind::peer_gone, "not connected");
        if (!facts->agent.empty())
            co_return json{{"agent", facts->agent},
                           {"protocols", facts->protocols},
                           {"security", facts->security},
                           {"addresses", host_.addresses_of(*peer)}};
        co_await host_.clock().sleep_for(10ms);
    }
    co_return Error(ErrorKind::timeout, "identify has not answered");
}

Task<Result<json>> Peer::send(json request) {
    const auto peer = peer_of(request);
    if (!peer) co_return peer.error();
    auto opened = co_await host_.open_stream(*peer, sink_method, deadline());
    if (!opened) co_return std::move(opened).error();
    const StreamPtr stream = *std::move(opened);
    const TimePoint begun = host_.clock().now();
    base::Random random(1);
    security::Sha256 hash;
    std::uint64_t left = request.value("bytes", std::uint64_t{0});
    while (left > 0) {
        Bytes piece = random.bytes(std::min<std::uint64_t>(left, piece_bytes));
        hash.update(piece);
        left -= piece.size();
        auto written = co_await stream->write(std::move(piece));
        if (!written) co_return std::move(written).error();
    }
    auto finished = co_await stream->finish();
    if (!finished) co_return std::move(finished).error();
    auto report = co_await stream->read();
    if (!report) co_return std::move(report).error();
    if (!*report) co_return Error(ErrorKind::peer_gone, "no report");
    const json got = json::parse(as_text(**report), nullptr, /*allow_exceptions=*/false);
    if (!got.is_object() || got.value("sha256", "") != hash.finish().hex())
        co_return Error(ErrorKind::peer_broke_protocol, "other bytes arrived than were sent");
    const double seconds = std::chrono::duration<double>(host_.clock().now() - begun).count();
    co_return json{{"bytes", got.value("bytes", std::uint64_t{0})}, {"seconds", seconds}};
}

Task<void> Peer::open_one(PeerId peer, std::vector<StreamPtr>* out, std::string* error) {
    auto opened = co_await host_.open_stream(peer, echo_method, deadline());
    if (!opened) {
        *error = opened.error().message();
        co_return;
    }
    const StreamPtr stream = *std::move(opened);
    Bytes message(100, static_cast<std::uint8_t>(out->size()));
    auto written = co_await stream->write(std::move(message));
    if (written)
        out->push_back(stream);
    else
        *error = written.error().message();
}

Task<void> Peer::read_one(StreamPtr stream, std::size_t* good) {
    auto message = co_await stream->read();
    if (message && *message && (**message).size() == 100) ++*good;
}

// Many at once: none is ended before the last has its echo.
Task<Result<json>> Peer::streams(json request) {
    const auto peer = peer_of(request);
    if (!peer) co_return peer.error();
    std::vector<StreamPtr> opened;
    std::string error;
    std::vector<Task<void>> openings;
    const std::size_t count = request.value("count", std::size_t{1});
    for (std::size_t i = 0; i < count; ++i) openings.push_back(open_one(*peer, &opened, &error));
    co_await runtime::all_of(std::move(openings));
    std::size_t good = 0;
    std::vector<Task<void>> readings;
    for (const StreamPtr& stream : opened) readings.push_back(read_one(stream, &good));
    if (!readings.empty()) co_await runtime::all_of(std::move(readings));
    for (const StreamPtr& stream : opened) {
        auto finished = co_await stream->finish();
        (void)finished;
    }
    if (!error.empty()) co_return Error(ErrorKind::peer_gone, error);
    co_return json{{"good", good}};
}

Task<Result<json>> Peer::find(json request) {
    const auto peer = peer_of(request);
    if (!peer) co_return peer.error();
    auto found = co_await p2p::view_of(host_)->find_peer(*peer, deadline());
    if (!found) co_return std::move(found).error();
    co_return json{{"addresses", *std::move(found)}};
}

// The addresses over relays; a reservation may still be on its way.
Task<Result<json>> Peer::reserved(json) {
    for (int tries = 0; tries < 1000; ++tries) {
        json relayed = json::array();
        for (const std::string& address : host_.addresses())
            if (address.find("/p2p-circuit") != std::string::npos) relayed.push_back(address);
        if (!relayed.empty()) co_return json{{"addresses", std::move(relayed)}};
        co_await host_.clock().sleep_for(10ms);
    }
    co_return Error(ErrorKind::timeout, "no relay has taken us");
}

// How the peer is connected; whoever was dialled may not have finished when the dialler has.
Task<Result<json>> Peer::path(json request) {
    const auto peer = peer_of(request);
    if (!peer) co_return peer.error();
    for (int tries = 0; tries < 500; ++tries) {
        const auto path = p2p::nat_of(host_)->path_to(*peer);
        if (path != p2p::Path::none) co_return json{{"path", to_string(path)}};
        co_await host_.clock().sleep_for(10ms);
    }
    co_return Error(ErrorKind::peer_gone, "not connected");
}

Task<Result<json>> Peer::dht_start(json request) {
    dht::DhtOptions options;
    node_ = std::make_unique<dht::DhtNode>(host_, verifier_, options);
    node_->start();
    experts_ = std::make_unique<ExpertRequests>(host_, *node_);
    std::vector<PeerId> peers;
    for (const json& address : request.value("bootstrap", json::array())) {
        auto peer = co_await host_.dial(address.get<std::string>(), deadline());
        if (!peer) co_return std::move(peer).error();
        peers.push_back(*std::move(peer));
    }
    if (peers.empty()) co_return json{{"answered", 0}};
    auto report = co_await node_->bootstrap(std::move(peers), deadline());
    if (!report) co_return std::move(report).error();
    co_return json{{"answered", report->answered}};
}

Task<Result<json>> Peer::dht_store(json request) {
    if (!node_) co_return Error(ErrorKind::bad_input, "dht_start comes first");
    dht::DhtItem item{.key = dht::DhtId::of_text(request.value("key", std::string())),
                      .subkey = std::nullopt,
                      .value = wire::encode_msgpack(from_json(request.value("value", json()))),
                      .expiration = request.value("expiration", 0.0)};
    if (request.contains("subkey"))
        item.subkey = wire::encode_msgpack(from_json(request["subkey"]));
    auto report = co_await node_->store(std::move(item), deadline());
    if (!report) co_return std::move(report).error();
    co_return json{{"accepted", report->accepted}};
}

Task<Result<json>> Peer::dht_get(json request) {
    if (!node_) co_return Error(ErrorKind::bad_input, "dht_start comes first");
    const auto key = dht::DhtId::of_text(request.value("key", std::string()));
    auto found = co_await node_->get(key, dht::Freshness::latest, deadline());
    if (!found) co_return std::move(found).error();
    if (!*found) co_return json{{"found", nullptr}};
    co_return json{{"found", to_json(**found)}};
}

Task<json> Peer::serve(json request) {
    const std::string what = request.value("do", std::string());
    const std::map<std::string, Task<Result<json>> (Peer::*)(json)> known = {
        {"connect", &Peer::connect},
        {"ping", &Peer::ping},
        {"identify", &Peer::identify},
        {"send", &Peer::send},
        {"streams", &Peer::streams},
        {"find", &Peer::find},
        {"reserved", &Peer::reserved},
        {"path", &Peer::path},
        {"dht_start", &Peer::dht_start},
        {"dht_store", &Peer::dht_store},
        {"dht_get", &Peer::dht_get}};
    const auto found = known.find(what);
    Result<json> answer = make_error(ErrorKind::bad_input, "unknown request {}", what);
    if (found != known.end()) {
        answer = co_await (this->*found->second)(std::move(request));
    } else if (auto records = serve_records(request)) {
        answer = *std::move(records);
    } else if (experts_) {
        auto told = co_await experts_->serve(std::move(request));
        if (told) answer = *std::move(told);
    }
    if (!answer) co_return failure(answer.error());
    json good = *std::move(answer);
    good["ok"] = true;
    co_return good;
}

// ---------------------------------------------------------------------------------------- program

void print(const json& line) {
    std::cout << line.dump() << std::endl;  // flushed: somebody waits for it
}

// Lines of standard input, read by a thread of its own.
struct Requests {
    explicit Requests(runtime::Executor executor) : arrived(executor) {}
    std::vector<std::string> lines;
    bool ended = false;
    runtime::Event arrived;
};

Task<void> serve_all(Requests* requests, Peer* peer) {
    for (;;) {
        while (requests->lines.empty() && !requests->ended) {
            requests->arrived.reset();
            co_await requests->arrived.wait();
        }
        if (requests->lines.empty()) co_return;
        const std::string line = requests->lines.front();
        requests->lines.erase(requests->lines.begin());
        json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!request.is_object()) request = json::object();
        const json answer = co_await peer->serve(std::move(request));
        print(answer);
    }
}

Task<void> run(runtime::Loop* loop, p2p::HostOptions options, int* status) {
    auto made = p2p::make_host(std::move(options));
    if (!made) {
        print(failure(made.error()));
        *status = 1;
        co_return;
    }
    p2p::Host& host = **made;
    Peer peer(host);
    print({{"id", host.id().text()}, {"addresses", host.addresses()}});
    Requests requests(host.executor());
    std::thread reader([loop, &requests] {
        std::string line;
        while (std::getline(std::cin, line))
            loop->post([&requests, line] {
                requests.lines.push_back(line);
                requests.arrived.set();
            });
        loop->post([&requests] {
            requests.ended = true;
            requests.arrived.set();
        });
    });
    co_await serve_all(&requests, &peer);
    reader.join();
    co_await peer.stop();
    co_await host.stop();
}

}  // namespace
}  // namespace dedloc::interop

int main(int argc, char** argv) {
    using namespace dedloc;
    CLI::App app("a dedloc peer that does what it is told on standard input");
    std::vector<std::string> protocols;
    std::string listen = "/ip4/127.0.0.1/tcp/0";
    bool late_muxer = false;
    bool is_relay = false;
    std::uint64_t relay_bytes = p2p::relay_circuit_bytes_max;
    bool is_hidden = false;
    app.add_option("--security", protocols, "/tls/1.0.0 and /noise, best first");
    app.add_option("--listen", listen, "a multiaddr");
    app.add_flag("--late-muxer", late_muxer, "agree on yamux inside, not in the handshake");
    app.add_flag("--relay", is_relay, "serve as a relay");
    app.add_option("--relay-bytes", relay_bytes, "what one circuit may carry each way");
    app.add_flag("--hidden", is_hidden, "nobody can dial it: it is reached over relays");
    CLI11_PARSE(app, argc, argv);
    runtime::Loop loop;
    const auto clock = runtime::real_clock(loop.executor());
    const auto network = runtime::real_network(loop.executor());
    interop::BehindNat behind_nat(*network);
    const Bytes seed = security::secure_random(8);
    const base::Random random(*base::ByteReader(seed).u64_be());
    p2p::HostOptions options{.executor = loop.executor(),
                             .clock = *clock,
                             .network = is_hidden ? behind_nat : *network,
                             .random = random,
                             .identity = security::Identity::generate(),
                             .listen = {listen},
                             .announce = {}};
    if (!protocols.empty()) options.security.protocols = protocols;
    options.security.early_muxer = !late_muxer;
    options.nat.relay_for = p2p::RelayFor::anyone;
    options.strangers = p2p::HostOptions::Strangers::welcome;
    if (is_relay) options.nat.relay = p2p::RelayServing::always;
    options.nat.relay_limits.circuit_bytes = relay_bytes;
    int status = 0;
    loop.run_task(interop::run(&loop, std::move(options), &status));
    return status;
}
