#include "dedloc/p2p/port_mappings.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/nat.h"

namespace dedloc::p2p {

namespace {

bool is_ip4(const wire::Multiaddr& address) {
    return address.parts().front().code == wire::MultiaddrCode::ip4;
}

}  // namespace

std::optional<runtime::SocketAddress> listener_to_map(
    const std::vector<wire::Multiaddr>& interfaces,
    const std::function<bool(std::string_view ip)>& is_public) {
    std::optional<runtime::SocketAddress> chosen;
    for (const auto& address : interfaces) {
        if (!address.is_plain_tcp() || !is_ip4(address)) continue;
        const std::string host = *address.host();
        if (is_public(host)) return std::nullopt;
        if (!chosen && !host.starts_with("127."))
            chosen = runtime::SocketAddress{.host = host, .port = *address.tcp_port()};
    }
    return chosen;
}

std::vector<std::string> subnets_of(const std::vector<wire::Multiaddr>& addresses) {
    std::vector<std::string> subnets;
    for (const auto& address : addresses) {
        std::string subnet = subnet_of(address.host().value_or(""));
        if (std::ranges::find(subnets, subnet) == subnets.end())
            subnets.push_back(std::move(subnet));
    }
    return subnets;
}

PortMappings::PortMappings(Surroundings surroundings)
    : around_(std::move(surroundings)), news_(around_.executor), idle_(around_.executor) {
    idle_.set();
}

std::optional<wire::Multiaddr> PortMappings::address() const {
    if (!held_) return std::nullopt;
    const auto& external = held_->mapping.external;
    const auto address = wire::Multiaddr::tcp(external.host, external.port);
    return address ? std::optional(*address) : std::nullopt;
}

void PortMappings::say(std::string sentence) {
    if (sentence == sentence_) return;
    sentence_ = std::move(sentence);
    log(LogLevel::info, "p2p", "{}", sentence_);
}

void PortMappings::drop() {
    if (!held_) return;
    held_.reset();
    around_.on_change();
}

// A machine that is in another network now has another router, too. Any address tells, not only
// the one to map: that may be of a tunnel. Being in none for a moment is no move; but the router
// is asked at once when there is one again: perhaps it was that which started anew.
void PortMappings::check_interfaces() {
    const auto addresses = around_.interfaces();
    auto seen = subnets_of(addresses);
    const bool is_first = sentence_.empty();
    const bool was_away = std::exchange(away_, seen.empty());
    if (!is_first && (away_ || (seen == seen_ && !was_away))) return;
    moved_ = moved_ || seen != seen_;
    seen_ = std::move(seen);
    inside_ = listener_to_map(addresses, around_.is_public);
    due_ = around_.clock.now();
    retry_ = Duration(0);
    if (inside_) return;
    say("the router was not asked for a port: this machine has no need of one");
    settled_ = true;
}

Task<void> PortMappings::run() {
    if (around_.mapper == nullptr) co_return;
    while (!closing_) {
        news_.reset();
        const auto before = inside_;
        check_interfaces();
        if (held_ && (inside_ != before || around_.clock.now() >= held_->until)) {
            runtime::PortMapping old = held_->mapping;
            drop();
            co_await give_back(std::move(old));
            continue;
        }
        if (inside_ && around_.clock.now() >= due_) {
            co_await ask();
            continue;
        }
        TimePoint next = around_.clock.now() + mapping_look_pause_max;
        if (inside_) next = std::min(next, due_);
        if (held_) next = std::min(next, held_->until);
        (void)co_await news_.wait_until(around_.clock, next);
    }
}

Task<void> PortMappings::ask() {
    asked_at_ = around_.clock.now();
    runtime::PortWish wish;
    wish.internal_port = inside_->port;
    wish.external_port = held_ ? held_->mapping.external.port : inside_->port;
    wish.lease = mapping_lease_wish;
    if (sentence_.empty()) sentence_ = "the router is being asked for a port";
    asking_ = true;
    idle_.reset();
    const TimePoint deadline = asked_at_ + mapping_answer_max;
    auto answer = co_await around_.mapper->map(wish, deadline);
    if (answer)
        co_await take(*std::move(answer));
    else
        receive_failure(answer.error());
    asking_ = false;
    settled_ = true;
    idle_.set();
}

Task<void> PortMappings::take(runtime::PortMapping mapping) {
    const auto& external = mapping.external;
    if (!around_.is_public(external.host)) {
        say(
            fmt::format("the router's own address {} is not a public one: there is another router "
                        "behind it (double NAT), so a port opened by it does not help",
                        external.host));
        due_ = around_.clock.now() + mapping_retry_max;
        drop();
        co_await give_back(std::move(mapping));
        co_return;
    }
    moved_ = false;
    const auto before = address();
    // A mapping without an end is looked after as if it had one.
    Duration lease = mapping.lease == Duration(0) ? mapping_lease_wish : mapping.lease;
    lease = std::clamp(lease, mapping_lease_min, mapping_lease_max);
    say(fmt::format("the router opened port {} for this peer by {}",
                    external.port,
                    runtime::to_string(mapping.protocol)));
    due_ = asked_at_ + lease / 2;
    retry_ = Duration(0);
    held_ = Held{.mapping = std::move(mapping), .until = asked_at_ + lease};
    if (address() != before || std::exchange(doubted_, false)) around_.on_change();
}

// A mapping that is held stays until its lease ends: a router that is silent for a moment still
// passes the port on. In another network it is not this router that does.
void PortMappings::receive_failure(const Error& error) {
    if (std::exchange(moved_, false)) drop();
    retry_ = std::clamp(2 * retry_, mapping_retry_min, mapping_retry_max);
    due_ = around_.clock.now() + retry_;
    say(error.message());
}

Task<void> PortMappings::give_back(runtime::PortMapping mapping) {
    const TimePoint deadline = around_.clock.now() + mapping_removal_max;
    const std::uint16_t port = mapping.external.port;
    auto removed = co_await around_.mapper->unmap(std::move(mapping), deadline);
    if (!removed)
        log(LogLevel::info,
            "p2p",
            "port {} of the router stays open until its lease ends: {}",
            port,
            removed.error().message());
}

Task<void> PortMappings::close() {
    closing_ = true;
    news_.set();
    if (asking_) {
        const TimePoint deadline = around_.clock.now() + mapping_close_wait_max;
        (void)co_await idle_.wait_until(around_.clock, deadline);
    }
    if (!held_) co_return;
    runtime::PortMapping mapping = std::move(held_->mapping);
    held_.reset();
    co_await give_back(std::move(mapping));
}

void PortMappings::doubt() {
    if (!held_ || around_.clock.now() - asked_at_ < mapping_doubt_pause_min) return;
    doubted_ = true;
    due_ = around_.clock.now();
    news_.set();
}

}  // namespace dedloc::p2p
