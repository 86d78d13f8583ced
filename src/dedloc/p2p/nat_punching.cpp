// Relayed connections become direct ones: dials, and holes punched at the same time (DCUtR).

#include <array>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/nat_service.h"
#include "dedloc/runtime/together.h"

namespace dedloc::p2p {

namespace {

// A peer that is still relayed then may be behind another router, or one that is less busy.
constexpr std::array<Duration, 3> punch_pauses = {
    std::chrono::minutes(1), std::chrono::minutes(5), std::chrono::minutes(15)};

// A peer that is in a set for as long as this lives.
class Listed {
  public:
    Listed(std::set<PeerId>& all, PeerId peer) : all_(all), peer_(std::move(peer)) {}
    ~Listed() { all_.erase(peer_); }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;

  private:
    std::set<PeerId>& all_;
    PeerId peer_;
};

}  // namespace

Task<void> NatService::make_direct(ConnectionPtr relayed,
                                   std::vector<wire::Multiaddr> public_addresses) {
    const PeerId peer = relayed->remote();
    const bool we_called = relayed->is_dialler();
    {
        const Listed punching(punching_, peer);
        co_await try_to_make_direct(std::move(relayed), std::move(public_addresses));
    }
    const ConnectionPtr left = around_.swarm.best(peer);
    if (we_called || !left || !left->is_relayed()) co_return;
    if (punched_later_.size() < punches_max && punched_later_.insert(peer).second)
        co_await punch_later(peer);
}

// A relayed connection costs others' lines for as long as it lasts.
Task<void> NatService::punch_later(PeerId peer) {
    const Listed listed(punched_later_, peer);
    for (const Duration pause : punch_pauses) {
        co_await around_.clock.sleep_for(pause);
        ConnectionPtr relayed = around_.swarm.best(peer);
        if (!relayed || !relayed->is_relayed() || relayed->is_dialler()) co_return;
        if (punching_.size() >= punches_max || !punching_.insert(peer).second) continue;
        const Listed punching(punching_, peer);
        co_await punch_attempts(std::move(relayed));
    }
}

Task<void> NatService::try_to_make_direct(ConnectionPtr relayed,
                                          std::vector<wire::Multiaddr> public_addresses) {
    const PeerId peer = relayed->remote();
    const bool we_called = relayed->is_dialler();
    if (!public_addresses.empty()) {
        const TimePoint deadline = around_.clock.now() + reversal_max;
        const Path path = we_called ? Path::direct : Path::reversed;
        auto dialled =
            co_await around_.swarm.dial_direct(peer, std::move(public_addresses), path, deadline);
        if (dialled) {
            reversals_ += we_called ? 0 : 1;
            co_return;
        }
    }
    if (we_called) co_return;  // it is the other side that begins to punch
    ++punches_tried_;
    co_await punch_attempts(std::move(relayed));
}

Task<void> NatService::punch_attempts(ConnectionPtr relayed) {
    const PeerId peer = relayed->remote();
    for (int attempt = 1; attempt <= punch_attempts_max; ++attempt) {
        if (relayed->is_closed()) co_return;
        const Result<void> punched = co_await punch_once(relayed, attempt);
        if (around_.swarm.direct(peer)) {
            ++punches_succeeded_;
            co_return;
        }
        if (punched) continue;
        log(LogLevel::debug,
            "p2p",
            "hole to {}, attempt {}: {}",
            peer.short_text(),
            attempt,
            punched.error().message());
        if (punched.error().kind() == ErrorKind::unsupported) co_return;
    }
}

Task<Result<void>> NatService::punch_once(ConnectionPtr relayed, int attempt) {
    auto own = observed_.to_punch(listen_ports());
    if (own.empty())
        co_return Error(ErrorKind::unsupported, "nobody has told us our public address");
    const TimePoint start = around_.clock.now();
    auto opened = co_await relayed->open_stream(start + punch_stream_max);
    if (!opened) co_return std::move(opened).error();
    const std::shared_ptr<Stream> stream = *std::move(opened);
    stream->set_deadline(start + punch_stream_max);
    stream->propose(std::string(wire::hole_punch_protocol));
    auto theirs = co_await arrange_punch(stream, std::move(own), around_.clock);
    if (!theirs) co_return std::move(theirs).error();
    const bool as_client = punches_as_client(PunchSide::b, attempt, relayed->agent());
    const TimePoint deadline = around_.clock.now() + punch_attempt_max;
    auto targets = only_public(*std::move(theirs));
    const PeerId peer = relayed->remote();
    auto punched = co_await around_.swarm.punch(peer, std::move(targets), as_client, deadline);
    co_return punched;
}

Task<void> NatService::serve_punch(ConnectionPtr connection, std::shared_ptr<Stream> stream) {
    stream->set_deadline(around_.clock.now() + punch_stream_max);
    const PeerId peer = connection->remote();
    if (!connection->is_relayed() || !connection->is_dialler()) {
        stream->reset();
        co_return;
    }
    auto own = observed_.to_punch(listen_ports());
    auto theirs = co_await answer_punch(stream, std::move(own));
    if (!theirs) {
        stream->reset();
        co_return;
    }
    int& attempts = punches_answered_[peer];
    attempts = std::min(attempts + 1, 2 * punch_attempts_max);
    const bool as_client = punches_as_client(PunchSide::a, attempts, connection->agent());
    const TimePoint deadline = around_.clock.now() + punch_attempt_max;
    auto targets = only_public(*std::move(theirs));
    (void)co_await around_.swarm.punch(peer, std::move(targets), as_client, deadline);
}

Task<void> NatService::serve_stop(ConnectionPtr connection, std::shared_ptr<Stream> stream) {
    stream->set_deadline(around_.clock.now() + relay_message_wait_max);
    const PeerId relay = connection->remote();
    const bool is_welcome = reservations_.has(relay) && !connection->is_relayed();
    auto caller = co_await accept_circuit(stream, is_welcome);
    if (!caller) co_return;
    const PeerId peer = *caller;
    const auto taken = around_.swarm.take_circuit(stream, peer, relay);
    if (!taken)
        log(LogLevel::debug,
            "p2p",
            "circuit from {}: {}",
            peer.short_text(),
            taken.error().message());
}

}  // namespace dedloc::p2p
