#include "dedloc/membership/membership.h"

#include <algorithm>

#include "dedloc/p2p/gate.h"

namespace dedloc::membership {
namespace {

constexpr Duration goodbye_timeout = 1s;
// A new phase, which is told at once, may come about as an interval ends: both go in one push.
constexpr Duration push_slack = 10ms;
constexpr Duration show_again_pause = 20s;  // between two questions for a fresher credential
constexpr Duration show_again_timeout = 5s;
// Strangers can come as often as they like; more than so many refusals say nothing new.
constexpr std::size_t refusals_told_max = 64;
constexpr Duration refusals_told_within = 60s;

}  // namespace

Membership::Membership(runtime::Node node,
                       p2p::Host& host,
                       const security::Signer& signer,
                       const security::Verifier& verifier,
                       const run::RunFile& run,
                       std::shared_ptr<Authorizer> authorizer,
                       Duration status_interval,
                       std::size_t peers_most,
                       std::vector<p2p::OpenProtocol> also_open,
                       Callbacks callbacks)
    : node_(node),
      host_(host),
      run_(run),
      authorizer_(std::move(authorizer)),
      status_interval_(status_interval),
      callbacks_(std::move(callbacks)),
      random_(node.random.fork("hello nonces")),
      table_(node.clock, host, std::max<Duration>(status_interval * 6, 3s), peers_most),
      wake_(node.executor),
      gossip_(node,
              host,
              signer,
              verifier,
              table_,
              random_,
              scope_,
              status_interval,
              gossip_callbacks()),
      handshake_(
          node.clock,
          host,
          run_,
          *authorizer_,
          table_,
          gossip_,
          random_,
          {.on_joined = [this](const Status& peer) { callbacks_.on_joined(peer); },
           .on_greeted = [this] { wake_.pulse(); },
           .on_refused = [this](const PeerId& peer, const Error& why) { refused(peer, why); },
           .why_kept_out = [this](const PeerId& peer) { return callbacks_.why_kept_out(peer); }}),
      reconnection_(
          node.clock,
          table_,
          handshake_,
          scope_,
          [this](const PeerId& peer, const Error& why) { callbacks_.on_refused_by(peer, why); }),
      gate_(std::make_shared<RunGate>(
          table_,
          *authorizer_,
          [this](const PeerId& peer) { return callbacks_.why_kept_out(peer); },
          std::move(also_open))),
      handlers_(host),
      scope_(node.executor) {}

// The host, and with it the gate, outlives this.
Membership::~Membership() { gate_->close(); }

StatusGossip::Callbacks Membership::gossip_callbacks() {
    return {.own_status = [this] { return callbacks_.own_status(); },
            .on_status = [this](const Status& before,
                                const Status& now) { callbacks_.on_status(before, now); },
            .on_forgotten_by =
                [this](const PeerId& peer) {
                    KnownPeer* const known = table_.find(peer);
                    if (known == nullptr) return;
                    table_.dismiss(*known);
                    reconnection_.soon(*known);
                },
            .on_key_used_twice = [this](const Error& why) { callbacks_.on_key_used_twice(why); }};
}

void Membership::start() {
    p2p::gate_of(host_).set_gate(gate_);
    handlers_.on_call(hello_method, [this](PeerId from, Bytes request) {
        return handshake_.on_hello(from, std::move(request));
    });
    handlers_.on_call(prove_method, [this](PeerId from, Bytes request) {
        return handshake_.on_prove(from, std::move(request));
    });
    handlers_.on_call(status_method, [this](PeerId from, Bytes request) {
        return gossip_.on_push(from, std::move(request));
    });
    handlers_.on_call(run_file_method, [this](PeerId from, Bytes request) {
        return on_run_file(from, std::move(request));
    });
    handlers_.on_connection([this](const PeerId& peer, bool connected) {
        if (!connected) on_disconnected(peer);
    });
    scope_.spawn("push statuses", push_loop());
}

Task<void> Membership::stop() {
    gate_->close();
    co_await handlers_.stop();
    co_await scope_.stop();
}

Task<Result<PeerId>> Membership::meet(std::string multiaddr, TimePoint deadline) {
    auto peer = co_await host_.dial(multiaddr, deadline);
    if (!peer) co_return std::move(peer).error();
    const PeerId id = *peer;
    Result<void> greeted = co_await handshake_.greet(id, deadline);
    if (!greeted) co_return std::move(greeted).error();
    co_return id;
}

Task<Result<Bytes>> Membership::on_run_file(PeerId from, Bytes) {
    if (!is_member(from)) co_return not_greeted();
    co_return to_bytes(run::to_toml(run_));
}

void Membership::on_disconnected(const PeerId& peer) {
    KnownPeer* const known = table_.find(peer);
    if (known == nullptr || !known->member) return;
    table_.dismiss(*known);
    reconnection_.soon(*known);
    callbacks_.on_lost(known->status, known->status.phase == Phase::leaving);
    wake_.pulse();
}

void Membership::expel(const PeerId& peer) {
    KnownPeer* const known = table_.find(peer);
    if (known == nullptr || !known->member) return;
    table_.dismiss(*known);
    wake_.pulse();
}

std::vector<std::string> Membership::known_addresses(std::size_t peers_told) const {
    return addresses_for_newcomers(host_, table_.live(), peers_told);
}

void Membership::push_now() {
    if (!scope_.stopping()) push_to_all();
}

void Membership::push_to_all() {
    next_push_ = node_.clock.now() + status_interval_ + push_slack;
    gossip_.push_to_all();
}

void Membership::refused(const PeerId& peer, const Error& why) {
    const TimePoint now = node_.clock.now();
    if (now - refusals_.since > refusals_told_within) refusals_ = {.since = now, .told = 0};
    if (++refusals_.told <= refusals_told_max) callbacks_.on_refused(peer, why);
}

// Members whose credential is good no longer take part no longer; their connection stays, so that
// they can show a fresh one. Those whose credential ends soon are met again before it does.
void Membership::check_admission() {
    std::vector<PeerId> members;
    for (const auto& [peer, known] : table_.all())
        if (known.member) members.push_back(peer);
    for (const PeerId& peer : members) {
        KnownPeer& known = table_.entry_of(peer);
        if (const auto objection = authorizer_->objection(peer)) {
            table_.dismiss(known);
            reconnection_.soon(known);
            refused(peer, *objection);
            callbacks_.on_lost(known.status, false);
        } else if (authorizer_->ends_soon(peer) && known.shows_again <= node_.clock.now()) {
            known.shows_again = node_.clock.now() + show_again_pause;
            scope_.spawn("meet again", meet_member_again(peer));
        }
    }
}

Task<void> Membership::meet_member_again(PeerId peer) {
    const TimePoint deadline = node_.clock.now() + show_again_timeout;
    const Result<void> greeted = co_await handshake_.greet(std::move(peer), deadline);
    (void)greeted;  // until its credential has ended it is asked again
}

Task<void> Membership::push_loop() {
    for (;;) {
        if (node_.clock.now() >= next_push_) push_to_all();  // or news was pushed meanwhile
        check_admission();
        reconnection_.poll();
        handshake_.forget_expired();
        table_.drop_stale();
        const TimePoint next = next_push_;
        (void)co_await wake_.wait_until(node_.clock, next);
    }
}

Task<void> Membership::say_goodbye() {
    push_to_all();
    const TimePoint until = node_.clock.now() + goodbye_timeout;
    while (gossip_.is_pushing() && node_.clock.now() < until) co_await node_.clock.sleep_for(10ms);
}

}  // namespace dedloc::membership
