#include "dedloc/p2p/nat_service.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/ip_family.h"
#include "dedloc/runtime/together.h"

namespace dedloc::p2p {

namespace {

// The same server is asked again no sooner; what is known is asked again that often.
constexpr Duration server_rest = 90s;
constexpr Duration public_rest = std::chrono::minutes(15);
constexpr Duration private_rest = std::chrono::minutes(5);
constexpr Duration answer_wait = autonat_dial_max + 10s;
// A peer that could not dial us and is gone comes back, or another who cannot is asked, in this
// time.
constexpr Duration kept_out_rest = 2 * public_rest;
constexpr int failures_to_doubt_max = 2;  // of dials back to one who was public
constexpr std::size_t confirmed_max = 4;
constexpr std::ptrdiff_t private_first_max = 3;  // addresses, before the relayed ones

}  // namespace

NatService::NatService(NatOptions options, Surroundings surroundings)
    : options_(std::move(options)),
      around_(std::move(surroundings)),
      observed_(options_.is_public),
      relay_(options_.relay_limits,
             {.executor = around_.executor,
              .clock = around_.clock,
              .identity = around_.identity,
              .is_serving = [this] { return serves_as_relay(); },
              .is_served =
                  [this](const PeerId& peer) {
                      return options_.relay_for == RelayFor::anyone ||
                             around_.swarm.needed().is_protected(peer) ||
                             around_.swarm.strangers().is_vouched_for(peer);
                  },
              .direct_connection =
                  [this](const PeerId& peer) { return around_.swarm.table().direct(peer); },
              .own_addresses =
                  [this] {
                      auto own = addresses();
                      std::erase_if(own, [](const auto& one) { return one.is_relayed(); });
                      return own;
                  }}),
      reservations_({.executor = around_.executor,
                     .clock = around_.clock,
                     .me = around_.identity.id(),
                     .is_needed = [this] { return needs_relays(); },
                     .direct_connection =
                         [this](const PeerId& peer) { return around_.swarm.table().direct(peer); },
                     .is_public = options_.is_public,
                     .on_change = [this] { around_.on_change(); }}),
      autonat_(around_.executor,
               around_.clock,
               options_.is_public,
               [this](wire::Multiaddr address, PeerId peer, TimePoint deadline) {
                   return around_.swarm.dialler().dial_back(
                       std::move(address), std::move(peer), deadline);
               }),
      mappings_({.executor = around_.executor,
                 .clock = around_.clock,
                 .mapper = around_.port_mapper,
                 .interfaces = around_.outward,
                 .is_public = options_.is_public,
                 .on_change = [this] { mapping_changed(); }}),
      mapping_news_(around_.executor),
      ask_news_(around_.executor) {}

NatService::~NatService() = default;

void NatService::start() {
    if (listen_ports().empty()) return;  // client mode: nobody is meant to reach us
    if (options_.use_relays) around_.scope.spawn("p2p relays", reservations_.run());
    if (options_.ask_reachability) around_.scope.spawn("p2p autonat", ask_loop());
    if (maps_ports()) around_.scope.spawn("p2p port mapping", mappings_.run());
    // A peer that has said what others shall dial stays where that leads to.
    if (around_.announced.empty()) around_.scope.spawn("p2p network", watch_network());
}

Task<void> NatService::close() { return mappings_.close(); }

// A peer that has said what others shall dial has seen to it that they can.
bool NatService::maps_ports() const {
    return around_.port_mapper != nullptr && options_.map_ports && around_.announced.empty();
}

// ------------------------------------------------------------------------------------ protocols

std::vector<std::string_view> NatService::protocols() const {
    std::vector<std::string_view> protocols;
    if (serves_as_relay()) protocols.push_back(wire::relay_hop_protocol);
    if (options_.use_relays) protocols.push_back(wire::relay_stop_protocol);
    if (options_.punch_holes) protocols.push_back(wire::hole_punch_protocol);
    if (options_.ask_reachability) protocols.push_back(wire::autonat_protocol);
    return protocols;
}

bool NatService::offers(std::string_view protocol) const {
    const auto offered = protocols();
    return std::ranges::find(offered, protocol) != offered.end();
}

Task<void> NatService::serve(std::string protocol,
                             ConnectionPtr connection,
                             std::shared_ptr<transport::Stream> stream) {
    if (protocol == wire::relay_hop_protocol)
        return relay_.serve(std::move(connection), std::move(stream));
    if (protocol == wire::relay_stop_protocol)
        return serve_stop(std::move(connection), std::move(stream));
    if (protocol == wire::hole_punch_protocol)
        return serve_punch(std::move(connection), std::move(stream));
    return autonat_.serve(std::move(connection), std::move(stream));
}

// ------------------------------------------------------------------------------------ addresses

bool NatService::is_public_host(const wire::Multiaddr& address) const {
    return options_.is_public(address.host().value_or(""));
}

bool NatService::has_public_interface() const {
    return std::ranges::any_of(around_.interfaces(),
                               [this](const auto& address) { return is_public_host(address); });
}

std::vector<std::uint16_t> NatService::listen_ports() const {
    std::vector<std::uint16_t> ports;
    for (const auto& socket : around_.swarm.listen_addresses())
        if (std::ranges::find(ports, socket.port) == ports.end()) ports.push_back(socket.port);
    return ports;
}

// Behind a NAT, what goes to the world leaves from our listen port, so that others can tell us how
// it is mapped. In one's own network that would only make simultaneous dials meet. Who has a global
// IPv6 address may be behind a NAT for IPv4.
bool NatService::dials_from_listen_port(const std::string& host) const {
    if (!options_.punch_holes || !options_.is_public(host)) return false;
    return std::ranges::none_of(around_.interfaces(), [&](const auto& own) {
        return is_public_host(own) && is_ip6(*own.host()) == is_ip6(host);
    });
}

std::vector<wire::Multiaddr> NatService::addresses() const {
    const bool is_announced = !around_.announced.empty();
    std::vector<wire::Multiaddr> own = is_announced ? around_.announced : around_.interfaces();
    if (!is_announced) {
        std::vector<wire::Multiaddr> more = confirmed_;
        if (mapped_ && !mapping_failed_) more.push_back(*mapped_);
        for (const auto& address : more)
            if (std::ranges::find(own, address) == own.end()) own.push_back(address);
    }
    const auto private_ones = std::stable_partition(
        own.begin(), own.end(), [this](const auto& address) { return is_public_host(address); });
    // A few private ones are enough for neighbours; the relayed ones must not be cut off. A machine
    // with many bridges would fill join strings with addresses that lead nobody anywhere.
    const auto few = std::min<std::ptrdiff_t>(private_first_max, own.end() - private_ones);
    if (!is_announced) own.erase(private_ones + few, own.end());
    const auto relayed = reservations_.addresses();
    own.insert(private_ones + few, relayed.begin(), relayed.end());
    return own;
}

std::vector<wire::Multiaddr> NatService::only_public(std::vector<wire::Multiaddr> addresses) const {
    std::erase_if(addresses, [this](const wire::Multiaddr& address) {
        return !address.is_plain_tcp() || !is_public_host(address);
    });
    return addresses;
}

bool NatService::needs_relays() const {
    if (!options_.use_relays || listen_ports().empty()) return false;
    // A public address may be behind a firewall, which shows late, or never where nobody can be
    // asked. Who turns out to be public has had the places for a moment.
    if (reachability_ == Reachability::unknown) return around_.announced.empty();
    if (reachability_ == Reachability::privately) return true;
    const bool some_cannot_dial_us =
        std::ranges::any_of(servers_, [](const auto& server) { return server.second.failed; });
    return some_cannot_dial_us || around_.clock.now() < kept_out_until_;
}

bool NatService::serves_as_relay() const {
    if (options_.relay == RelayServing::never || listen_ports().empty()) return false;
    return options_.relay == RelayServing::always || reachability_ == Reachability::publicly;
}

void NatService::conclude(Reachability reachability, std::string reason) {
    reason_ = std::move(reason);
    if (std::exchange(reachability_, reachability) == reachability) return;
    log(LogLevel::info, "p2p", "reachability: {} ({})", to_string(reachability), reason_);
    reservations_.wake();
    around_.on_change();
}

NatReport NatService::report() const {
    NatReport report;
    report.reachability = reachability_;
    report.reason = reason_;
    for (const auto& address : around_.interfaces()) report.interfaces.push_back(address.text());
    if (reachability_ == Reachability::publicly)
        for (const auto& address : only_public(addresses()))
            report.public_now.push_back(address.text());
    for (const auto& address : observed_.all()) report.observed.push_back(address.text());
    report.mapping_varies = observed_.mapping_varies();
    if (maps_ports()) {
        report.router = mappings_.sentence();
        report.router_is_asked = !listen_ports().empty() && !mappings_.is_settled();
        if (mapped_) report.mapped = mapped_->text();
    } else if (around_.port_mapper != nullptr) {
        report.router = "the router was not asked for a port: that is switched off";
    }
    report.relays = reservations_.uses();
    report.serves_as_relay = serves_as_relay();
    report.relay = relay_.counters();
    report.punches_tried = punches_.counters().tried;
    report.punches_succeeded = punches_.counters().succeeded;
    report.reversals = punches_.counters().reversals;
    return report;
}

// -------------------------------------------------------------------------------------- events

void NatService::connected(const ConnectionPtr& connection) {
    const Origin& origin = connection->origin();
    if (connection->is_dialler() || origin.path != Path::direct) return;
    const auto from = connection->remote_address();
    const auto to = connection->local_address();
    if (!options_.is_public(from.host) || !options_.is_public(to.host)) return;
    failures_ = 0;
    conclude(Reachability::publicly, fmt::format("{} reached us at {}", from.host, to.text()));
}

void NatService::identified(const ConnectionPtr& connection, const wire::Identify& identify) {
    const PeerId& peer = connection->remote();
    const auto theirs = wire::known_multiaddrs(identify.listen_addresses);
    if (connection->is_relayed()) {
        // The called side acts; and the caller, once the other side says that it can be dialled.
        auto to_dial = only_public(theirs);
        const bool ours_to_act = !connection->is_dialler() || !to_dial.empty();
        if (ours_to_act && options_.punch_holes && !around_.swarm.table().direct(peer) &&
            punches_.begin(peer))
            around_.scope.spawn("p2p make direct", make_direct(connection, std::move(to_dial)));
        return;
    }
    if (auto seen = wire::Multiaddr::from_bytes(identify.observed_address))
        receive_observation(connection, *std::move(seen));
    if (connection->offers(std::string(wire::relay_hop_protocol)))
        reservations_.add_candidate(peer);
    else if (!identify.protocols.empty())  // news may be of addresses alone
        reservations_.retire(peer);
    const bool can_ask = connection->offers(std::string(wire::autonat_protocol)) &&
                         options_.is_public(connection->remote_address().host);
    if (can_ask && servers_.size() < connections_max) servers_.emplace(peer, Asked{});
    ask_news_.set();
}

void NatService::receive_observation(const ConnectionPtr& connection, wire::Multiaddr seen) {
    const PeerId& peer = connection->remote();
    const TimePoint now = around_.clock.now();
    const bool is_news = connection->is_dialler() && is_news_of_router(seen);
    // A peer that sees us may say what it likes: that costs a question a minute, and what others
    // see that are connected still counts.
    if (is_news && now >= router_news_after_) {
        router_news_after_ = now + mapping_doubt_pause_min;
        forget_what_was_seen();
        ask_at_once();
        mappings_.doubt();
    }
    if (saw_us_elsewhere_.erase(peer) > 0) observed_.forget(peer);
    (void)observed_.note({.observer = peer,
                          .observer_ip = connection->remote_address().host,
                          .address = std::move(seen),
                          .of_listen_port = connection->origin().from_listen_port});
}

// Has it another address than before? Many get one every night, and nothing on this machine tells.
bool NatService::is_news_of_router(const wire::Multiaddr& seen) const {
    const std::string host = seen.host().value_or("");
    if (!seen.is_plain_tcp() || !options_.is_public(host)) return false;
    const auto is_there = [&](const wire::Multiaddr& one) { return one.host() == host; };
    const auto is_alike = [&](const wire::Multiaddr& one) {
        return is_ip6(*one.host()) == is_ip6(host);
    };
    const auto before = observed_.all();
    return std::ranges::any_of(before, is_alike) && std::ranges::none_of(before, is_there) &&
           std::ranges::none_of(around_.interfaces(), is_there);
}

void NatService::peer_gone(const PeerId& peer) {
    if (const auto server = servers_.find(peer); server != servers_.end()) {
        if (server->second.failed) kept_out_until_ = around_.clock.now() + kept_out_rest;
        servers_.erase(server);
    }
    relay_.forget(peer);
    reservations_.forget(peer);
    punches_.forget(peer);
    if (saw_us_elsewhere_.erase(peer) > 0) observed_.forget(peer);
}

// Whether that peer is gone or in a network that has no way to ours does not show here.
void NatService::not_reached() {
    const bool needed = needs_relays();
    kept_out_until_ = around_.clock.now() + kept_out_rest;
    if (!needed) reservations_.wake();
}

// ------------------------------------------------------------------------------------- AutoNAT

std::vector<wire::Multiaddr> NatService::to_ask() const {
    std::vector<wire::Multiaddr> asked = only_public(around_.announced);
    const auto add = [&asked](const wire::Multiaddr& address) {
        if (std::ranges::find(asked, address) == asked.end()) asked.push_back(address);
    };
    for (const auto& address : only_public(around_.interfaces())) add(address);
    if (mapped_) add(*mapped_);
    // A router may forward our port, or all ports, to us.
    for (const auto& seen : observed_.all())
        for (const std::uint16_t port : listen_ports())
            if (const auto guess = wire::Multiaddr::tcp(*seen.host(), port)) add(*guess);
    for (const auto& address : observed_.mapped()) add(address);
    if (asked.size() > autonat_addresses_max) asked.resize(autonat_addresses_max);
    return asked;
}

// The one that was not asked for longest: two failures are two servers' where there are two, and
// one that has itself to blame does not judge for ever.
std::optional<PeerId> NatService::next_server() const {
    const TimePoint now = around_.clock.now();
    auto next = servers_.end();
    for (auto server = servers_.begin(); server != servers_.end(); ++server) {
        const auto& [peer, asked] = *server;
        if (asked.not_before > now || !around_.swarm.table().direct(peer)) continue;
        if (next == servers_.end() || asked.last < next->second.last) next = server;
    }
    return next == servers_.end() ? std::nullopt : std::optional(next->first);
}

Task<void> NatService::ask_loop() {
    for (;;) {
        ask_news_.reset();
        const TimePoint now = around_.clock.now();
        if (now >= ask_again_ && !to_ask().empty()) {
            if (const auto server = next_server()) {
                // An answer about what the router did before would be of no use any more.
                auto question = ask(*server);
                auto news = mapping_news();
                co_await runtime::first_of(std::move(question), std::move(news));
                continue;
            }
        }
        TimePoint next = std::max(ask_again_, now + server_rest);
        (void)co_await ask_news_.wait_until(around_.clock, next);
    }
}

Task<void> NatService::mapping_news() { co_await mapping_news_.wait(); }

void NatService::ask_at_once() {
    for (auto& [peer, asked] : servers_) asked.not_before = around_.clock.now();
    ask_again_ = around_.clock.now();
    mapping_news_.pulse();
    ask_news_.set();
}

// Findings from before the router opened or closed the port, or before we came into this
// network, is out of date.
void NatService::ask_anew() {
    mapping_failed_ = false;
    ask_at_once();
}

// Forgets the failures of those who will be asked only when their turn comes.
void NatService::forget_failures() {
    for (auto& [peer, asked] : servers_) asked.failed = false;
    kept_out_until_ = TimePoint();
    reservations_.wake();
}

void NatService::mapping_changed() {
    if (mapped_) std::erase(confirmed_, *mapped_);
    if (std::exchange(mapped_, mappings_.address()) != mapped_) forget_failures();
    ask_anew();
    const bool was_all = !mapped_ && confirmed_.empty() && !has_public_interface();
    if (was_all && reachability_ == Reachability::publicly)
        conclude(Reachability::unknown, "the router does not pass our port on any more");
    around_.on_change();
}

// Where such addresses are in the network; empty: nowhere. Who has a public address is there,
// whatever tunnels come and go beside it.
std::vector<std::string> NatService::place(const std::vector<wire::Multiaddr>& own) const {
    const auto open = only_public(own);
    return subnets_of(open.empty() ? own : open);
}

Task<void> NatService::watch_network() {
    auto before = around_.outward();
    for (;;) {
        co_await around_.clock.sleep_for(mapping_look_pause_max);
        auto now = around_.outward();
        // A Wi-Fi that is lost for a moment is no move: where it leads to is known when it is back.
        if (now.empty() || now == before) continue;
        const bool moved = place(now) != place(before);
        before = std::move(now);
        if (moved)
            network_changed();
        else
            around_.on_change();
    }
}

// A view over a connection that lives on is still true; most do not live on.
void NatService::forget_what_was_seen() {
    for (PeerId& observer : observed_.observers()) {
        if (around_.swarm.table().direct(observer))
            saw_us_elsewhere_.insert(std::move(observer));
        else
            observed_.forget(observer);
    }
}

// Another Wi-Fi, a cable, a tunnel. The router there is asked by the mappings, which look, too.
void NatService::network_changed() {
    log(LogLevel::info, "p2p", "this machine is in another network now");
    confirmed_.clear();
    failures_ = 0;
    forget_failures();
    forget_what_was_seen();
    ask_anew();
    conclude(Reachability::unknown, "this machine is in another network now; nobody was asked yet");
    around_.on_change();
    // Most lead nowhere any more; whoever waits for an answer shall learn of it soon.
    for (const PeerId& peer : around_.swarm.table().peers()) around_.swarm.doubt(peer);
}

Task<void> NatService::ask(PeerId server) {
    const TimePoint now = around_.clock.now();
    Asked& asked = servers_[server];
    asked.not_before = now + server_rest;
    asked.last = now;
    const ConnectionPtr connection = around_.swarm.table().direct(server);
    if (!connection) co_return;
    const PeerId me = around_.identity.id();
    auto addresses = to_ask();
    const TimePoint deadline = now + answer_wait;
    auto answer = co_await ask_dial_back(connection, me, std::move(addresses), deadline);
    if (answer)
        receive_answer(server, *answer);
    else
        log(LogLevel::debug, "p2p", "autonat: {}", answer.error().message());
}

void NatService::remember(const PeerId& server, bool failed) {
    const auto asked = servers_.find(server);
    if (asked == servers_.end() || std::exchange(asked->second.failed, failed) == failed) return;
    reservations_.wake();
}

// Where somebody dialled us comes first. Where nobody sees us any more our router was before; of
// the other family those who see us now may know nothing.
void NatService::confirm(const wire::Multiaddr& address) {
    const auto own = around_.interfaces();
    if (std::ranges::find(own, address) != own.end()) return;
    const auto before = confirmed_;
    const auto seen = observed_.all();
    std::erase_if(confirmed_, [&](const wire::Multiaddr& one) {
        const auto is_there = [&](const auto& other) { return other.host() == one.host(); };
        const bool is_alike = is_ip6(*one.host()) == is_ip6(*address.host());
        return one == address || (is_alike && std::ranges::none_of(seen, is_there));
    });
    if (confirmed_.size() >= confirmed_max) confirmed_.pop_back();
    confirmed_.insert(confirmed_.begin(), address);
    if (confirmed_ != before) around_.on_change();
}

void NatService::receive_answer(const PeerId& server, const DialledBack& answer) {
    const auto asked = to_ask();
    const TimePoint now = around_.clock.now();
    if (answer.status == wire::AutonatStatus::ok) {
        failures_ = 0;
        remember(server, /*failed=*/false);
        if (!answer.address || std::ranges::find(asked, *answer.address) == asked.end()) return;
        confirm(*answer.address);
        ask_again_ = now + public_rest;
        conclude(Reachability::publicly,
                 fmt::format(
                     "peer {} dialled us back at {}", server.short_text(), answer.address->text()));
        return;
    }
    if (answer.status != wire::AutonatStatus::dial_error) return;  // it did not try
    ++failures_;
    remember(server, /*failed=*/true);
    if (mapped_) mappings_.doubt();
    ask_again_ = now + (reachability_ == Reachability::publicly ? server_rest : private_rest);
    if (reachability_ == Reachability::publicly && failures_ < failures_to_doubt_max) return;
    confirmed_.clear();
    const bool withdrawn = mapped_ && !std::exchange(mapping_failed_, true);
    conclude(Reachability::privately,
             fmt::format("peer {} could not dial us back", server.short_text()));
    if (withdrawn) around_.on_change();
}

}  // namespace dedloc::p2p
