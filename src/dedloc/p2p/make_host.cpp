#include "dedloc/p2p/make_host.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/ip_family.h"
#include "dedloc/p2p/libp2p_host.h"
#include "dedloc/p2p/protocols.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::p2p {

// Weighs one served stream, for as long as its task exists.
class Libp2pHost::LoadGuard {
  public:
    LoadGuard(std::map<PeerId, Load>& loads, PeerId peer) : loads_(loads), peer_(std::move(peer)) {
        ++load().tasks;
    }
    ~LoadGuard() {
        Load& mine = load();
        mine.handlers -= is_handler_ ? 1 : 0;
        mine.pings -= is_ping_ ? 1 : 0;
        mine.kads -= is_kad_ ? 1 : 0;
        mine.pushes -= is_push_ ? 1 : 0;
        if (--mine.tasks == 0) loads_.erase(peer_);
    }
    LoadGuard(const LoadGuard&) = delete;
    LoadGuard& operator=(const LoadGuard&) = delete;

    // False beyond the limit.
    bool becomes_handler() {
        is_handler_ = true;
        return ++load().handlers <= handlers_per_peer_max;
    }
    bool becomes_ping() {
        is_ping_ = true;
        return ++load().pings <= ping_streams_per_peer_max;
    }
    bool becomes_kad() {
        is_kad_ = true;
        return ++load().kads <= kad_streams_per_peer_max;
    }
    bool becomes_push() {
        is_push_ = true;
        return ++load().pushes <= identify_pushes_per_peer_max;
    }

  private:
    Load& load() { return loads_[peer_]; }

    std::map<PeerId, Load>& loads_;
    PeerId peer_;
    bool is_handler_ = false;
    bool is_ping_ = false;
    bool is_kad_ = false;
    bool is_push_ = false;
};

// ----------------------------------------------------------------------------------- addresses

NatService::Surroundings Libp2pHost::nat_surroundings() {
    NatService::Surroundings around{
        .executor = options_.executor,
        .clock = options_.clock,
        .identity = options_.identity,
        .swarm = swarm_,
        .scope = scope_,
        .interfaces = [this] { return listeners_at(options_.network.interface_addresses()); },
        .outward = [this] { return listeners_at(options_.network.outward_addresses()); },
        .on_change = [this] { push_identify_soon(); },
        .announced = {},
        .port_mapper = options_.port_mapper};
    for (const std::string& text : options_.announce)
        if (auto address = wire::Multiaddr::from_text(text))
            around.announced.push_back(address->without_peer());
    return around;
}

// Addresses that we listen on, wildcards replaced by the machine's.
std::vector<wire::Multiaddr> Libp2pHost::listeners_at(
    const std::vector<std::string>& machine) const {
    std::vector<wire::Multiaddr> own;
    for (const auto& socket : swarm_.listen_addresses()) {
        std::vector<std::string> hosts(1, socket.host);
        if (socket.host == "0.0.0.0" || socket.host == "::") hosts = machine;
        for (const std::string& host : hosts) {
            if (is_ip6(host) != is_ip6(socket.host)) continue;
            if (auto address = wire::Multiaddr::tcp(host, socket.port))
                own.push_back(*std::move(address));
        }
    }
    return own;
}

std::vector<std::string> Libp2pHost::addresses() const {
    std::vector<std::string> texts;
    for (const auto& address : nat_.addresses()) texts.push_back(address.text());
    return texts;
}

void Libp2pHost::add_addresses(const PeerId& peer, const std::vector<std::string>& addresses) {
    std::vector<wire::Multiaddr> parsed;
    for (const std::string& text : addresses)
        if (auto address = wire::Multiaddr::from_text(text)) parsed.push_back(*std::move(address));
    const auto before = swarm_.addresses().of(peer);
    swarm_.addresses().add(peer, parsed);
    const auto& after = swarm_.addresses().of(peer);
    const bool has_news = std::any_of(after.begin(), after.end(), [&](const auto& address) {
        return std::find(before.begin(), before.end(), address) == before.end();
    });
    if (!has_news) return;
    swarm_.forget_backoff(peer);
    swarm_.extend_dial(peer);
}

std::vector<std::string> Libp2pHost::addresses_of(const PeerId& peer) const {
    std::vector<std::string> texts;
    for (const auto& address : swarm_.addresses().of(peer)) texts.push_back(address.text());
    return texts;
}

Task<Result<PeerId>> Libp2pHost::dial(std::string multiaddr, TimePoint deadline) {
    auto address = wire::Multiaddr::from_text(multiaddr);
    if (!address) co_return std::move(address).error();
    if (!can_be_dialled(*address))
        co_return make_error(ErrorKind::bad_input,
                             "\"{}\" cannot be dialled; addresses look like "
                             "/ip4/10.0.0.1/tcp/4001/p2p/12D3KooW…",
                             multiaddr);
    auto peer = co_await swarm_.dial(*address, deadline);
    co_return peer;
}

// A peer of whom only the id is known: others may know where it is.
Task<void> Libp2pHost::locate(PeerId peer, TimePoint deadline) {
    if (peer == id() || swarm_.best(peer) || !swarm_.addresses().of(peer).empty()) co_return;
    if (!finder_.may_find(peer)) co_return;
    auto found = co_await finder_.find(peer, deadline);
    if (found)
        swarm_.forget_backoff(peer);
    else
        log(LogLevel::debug, "p2p", "{}", found.error().message());
}

Task<Result<void>> Libp2pHost::connect(PeerId peer, TimePoint deadline) {
    co_await locate(peer, deadline);
    auto connected = co_await swarm_.connect(peer, deadline);
    co_return connected;
}

std::vector<wire::Multiaddr> Libp2pHost::own_addresses() const {
    std::vector<wire::Multiaddr> own;
    for (const std::string& text : addresses())
        if (auto address = wire::Multiaddr::from_text(text)) own.push_back(*std::move(address));
    return own;
}

// ----------------------------------------------------------------------------------- diagnostics

std::optional<PeerFacts> Libp2pHost::facts_of(const PeerId& peer) const {
    const ConnectionPtr connection = swarm_.best(peer);
    if (!connection) return std::nullopt;
    const auto& protocols = connection->protocols();
    return PeerFacts{.agent = connection->agent(),
                     .security = connection->security(),
                     .protocols = {protocols.begin(), protocols.end()},
                     .we_dialled = connection->is_dialler(),
                     .lanes = swarm_.lanes_to(peer)};
}

Task<Result<Duration>> Libp2pHost::ping(PeerId peer, TimePoint deadline) {
    auto connected = co_await connect(peer, deadline);
    if (!connected) co_return std::move(connected).error();
    ConnectionPtr connection = swarm_.best(peer);
    if (!connection) co_return Error(ErrorKind::peer_gone, "the connection was lost");
    Bytes payload = random_.bytes(ping_bytes);
    auto took =
        co_await ask_ping(std::move(connection), std::move(payload), &options_.clock, deadline);
    co_return took;
}

Task<Result<std::vector<std::string>>> Libp2pHost::find_peer(PeerId peer, TimePoint deadline) {
    auto found = co_await finder_.find(peer, deadline);
    if (!found) co_return std::move(found).error();
    co_return addresses_of(peer);
}

// --------------------------------------------------------------------------------------- calls

wire::CallId Libp2pHost::new_call_id() {
    wire::CallId id{};
    for (std::uint8_t& byte : id) byte = static_cast<std::uint8_t>(random_.next() >> 56);
    id[6] = static_cast<std::uint8_t>((id[6] & 0x0f) | 0x40);  // a UUID of version 4
    id[8] = static_cast<std::uint8_t>((id[8] & 0x3f) | 0x80);
    return id;
}

Task<Result<Bytes>> Libp2pHost::call(PeerId peer,
                                     std::string method,
                                     Bytes request,
                                     TimePoint deadline) {
    const wire::CallId id = new_call_id();
    auto encoded = encode_call(id, method, request);
    if (!encoded) co_return std::move(encoded).error();
    request = Bytes();
    co_await locate(peer, deadline);
    auto opened = co_await swarm_.open_stream(peer, deadline);
    if (!opened) co_return std::move(opened).error();
    std::unique_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(method);
    auto answer = co_await finish_call(std::move(stream), id, *std::move(encoded));
    if (answer || answer.error().kind() != ErrorKind::timeout || options_.clock.now() < deadline)
        co_return answer;
    swarm_.doubt(peer);
    co_return make_error(
        ErrorKind::timeout, "peer {} did not answer \"{}\" in time", peer.short_text(), method);
}

Task<Result<std::unique_ptr<MessageStream>>> Libp2pHost::open_stream(PeerId peer,
                                                                     std::string method,
                                                                     TimePoint deadline) {
    co_await locate(peer, deadline);
    const std::shared_ptr<MethodFacts> facts = facts_of_method(method);
    auto opened = co_await swarm_.open_stream(peer, deadline, facts && facts->is_bulk);
    if (!opened) co_return std::move(opened).error();
    std::shared_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(deadline);
    stream->propose(method);
    // Whoever opens a stream wants to know that the method is there before it sends megabytes;
    // where identify has said so, that saves a round trip, and the first read confirms it.
    const ConnectionPtr connection = swarm_.best(peer);
    if (!connection || !connection->offers(method)) {
        auto confirmed = co_await stream->confirm();
        if (!confirmed) co_return std::move(confirmed).error();
        if (connection) connection->add_protocol(method);
    }
    stream->set_deadline(TimePoint::never());
    co_return make_message_stream(std::move(stream), facts);
}

// Null for methods beyond the limit, of which nothing is learnt.
std::shared_ptr<MethodFacts> Libp2pHost::facts_of_method(const std::string& method) {
    const auto found = methods_.find(method);
    if (found != methods_.end()) return found->second;
    if (methods_.size() >= handlers_max) return nullptr;
    return methods_.emplace(method, std::make_shared<MethodFacts>()).first->second;
}

void Libp2pHost::add_handler(const std::string& method, Handler handler) {
    DEDLOC_CHECK(!handlers_.contains(method), "two handlers for \"{}\"", method);
    DEDLOC_CHECK(handlers_.size() < handlers_max);
    handler.method = method;
    handlers_.emplace(method, std::make_shared<Handler>(std::move(handler)));
    push_identify_soon();
}

void Libp2pHost::remove_handler(const std::string& method) {
    if (handlers_.erase(method) > 0) push_identify_soon();
}

void Libp2pHost::handle_call(const std::string& method, CallHandler handler) {
    add_handler(method, {.method = {}, .call = std::move(handler), .stream = nullptr});
}

void Libp2pHost::handle_stream(const std::string& method, StreamHandler handler) {
    add_handler(method, {.method = {}, .call = nullptr, .stream = std::move(handler)});
}

std::vector<std::string> Libp2pHost::methods() const {
    std::vector<std::string> methods;
    for (const auto& [method, handler] : handlers_) methods.push_back(method);
    return methods;
}

// ------------------------------------------------------------------------------------- serving

bool Libp2pHost::offers(const std::string& protocol) const {
    // Whoever cannot be dialled is of no use in others' tables.
    if (protocol == wire::kad_protocol) return !options_.listen.empty();
    return protocol == wire::identify_protocol || protocol == wire::identify_push_protocol ||
           protocol == ping_protocol || nat_.offers(protocol) || handlers_.contains(protocol);
}

void Libp2pHost::take_stream(ConnectionPtr connection,
                             std::shared_ptr<transport::YamuxStream> stream) {
    const PeerId& peer = connection->remote();
    const auto load = loads_.find(peer);
    const bool is_stranger = swarm_.is_stranger(peer);
    const std::size_t tasks_max = is_stranger ? stranger_streams_max : stream_tasks_max;
    if (stopping_ || (load != loads_.end() && load->second.tasks >= tasks_max)) {
        stream->reset();
        return;
    }
    if (is_stranger) swarm_.spend(peer, {.work = stream_cost});
    auto guard = std::make_shared<LoadGuard>(loads_, peer);
    auto serving = std::make_shared<Serving>();
    std::shared_ptr<transport::Stream> adopted = connection->adopt(std::move(stream));
    serving->task = scope_.spawn(
        "p2p serve", serve(std::move(connection), std::move(adopted), serving, std::move(guard)));
}

Task<void> Libp2pHost::serve(ConnectionPtr connection,
                             std::shared_ptr<transport::Stream> stream,
                             std::shared_ptr<Serving> serving,
                             std::shared_ptr<LoadGuard> guard) {
    stream->set_deadline(options_.clock.now() + transport::negotiation_max);
    const std::function<bool(const std::string&)> is_offered = [this](const std::string& protocol) {
        return offers(protocol);
    };
    auto protocol = co_await stream->accept_proposal(is_offered);
    if (!protocol) {
        // An end, not a reset: go-yamux would throw away the "na" that is on its way.
        if (protocol.error().kind() != ErrorKind::timeout) stream->finish();
        co_return;
    }
    if (*protocol == wire::identify_protocol) {
        Bytes answer = identify_answer(*connection);
        swarm_.spend(connection->remote(), {.work = answer_cost, .bytes = answer.size()});
        co_await serve_identify(stream, std::move(answer), &options_.clock);
        co_return;
    }
    if (*protocol == ping_protocol) {
        const PeerId peer = connection->remote();
        const auto spend = [this, peer] { swarm_.spend(peer, {.work = ping_cost}); };
        if (guard->becomes_ping()) co_await serve_ping(stream, &options_.clock, spend);
        co_return;
    }
    if (*protocol == wire::kad_protocol) {
        if (guard->becomes_kad()) co_await finder_.serve(stream);
        co_return;
    }
    if (*protocol == wire::identify_push_protocol) {
        if (guard->becomes_push()) co_await take_push(connection, stream);
        co_return;
    }
    if (nat_.offers(*protocol)) {
        co_await nat_.serve(*std::move(protocol), connection, stream);
        co_return;
    }
    const auto found = handlers_.find(*protocol);
    if (found == handlers_.end()) co_return;  // removed meanwhile
    const HandlerPtr handler = found->second;
    const bool overloaded = !guard->becomes_handler();
    stream->set_deadline(TimePoint::never());
    if (handler->call)
        co_await serve_call(stream, serving, handler, overloaded);
    else
        co_await serve_stream(stream, serving, handler, overloaded);
}

Task<void> Libp2pHost::serve_call(std::shared_ptr<transport::Stream> stream,
                                  std::shared_ptr<Serving> serving,
                                  HandlerPtr handler,
                                  bool overloaded) {
    stream->set_deadline(options_.clock.now() + call_request_max);
    const PeerId caller = stream->remote();
    if (swarm_.is_stranger(caller))
        stream->set_deadline(options_.clock.now() + stranger_request_max);
    auto request = co_await read_call(*stream);
    if (!request) co_return;
    const wire::CallId id = request->id;
    Result<Bytes> answer = Error(ErrorKind::overloaded, "too many calls from you are being served");
    if (const Ok admitted = may_speak(caller, handler->method); !admitted) {
        answer = admitted.error();
    } else if (!overloaded) {
        // Any byte, end or reset from here on means that the caller has given up.
        const auto cancel = [this, serving] { scope_.cancel_task(serving->task); };
        stream->watch(cancel, /*failures_only=*/false);
        answer = co_await handler->call(stream->remote(), std::move(request->data));
        stream->unwatch();
    }
    stream->set_deadline(options_.clock.now() + call_answer_max);
    Bytes answered = encode_answer(id, answer);
    swarm_.spend(caller, {.work = answer_cost, .bytes = answered.size()});
    stream->write(std::move(answered));
    stream->finish();
    auto sent = co_await stream->sent();
    if (!sent) stream->reset();
}

Task<void> Libp2pHost::serve_stream(std::shared_ptr<transport::Stream> stream,
                                    std::shared_ptr<Serving> serving,
                                    HandlerPtr handler,
                                    bool overloaded) {
    auto messages = make_message_stream(stream);
    if (overloaded) {
        Error error(ErrorKind::overloaded, "too many streams from you are being served");
        auto failed = co_await messages->fail(std::move(error));
        co_return;
    }
    if (Ok admitted = may_speak(stream->remote(), handler->method); !admitted) {
        stream->set_deadline(options_.clock.now() + call_answer_max);
        Error error = std::move(admitted).error();
        auto failed = co_await messages->fail(std::move(error));
        co_return;
    }
    const auto cancel = [this, serving] { scope_.cancel_task(serving->task); };
    stream->watch(cancel, /*failures_only=*/true);
    co_await handler->stream(std::move(messages));
}

Task<void> Libp2pHost::stop() {
    stopping_ = true;
    co_await swarm_.close_all();
    co_await nat_.close();
    co_await scope_.stop();
}

PeerView* view_of(Host& host) { return dynamic_cast<PeerView*>(&host); }

Result<std::unique_ptr<Host>> make_host(HostOptions options) {
    DEDLOC_TRY(auto upgrades, transport::UpgradeContext::make(options.identity, options.security));
    auto host = std::make_unique<Libp2pHost>(std::move(options), std::move(upgrades));
    DEDLOC_TRY_VOID(host->listen());
    return std::unique_ptr<Host>(std::move(host));
}

}  // namespace dedloc::p2p
