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

}  // namespace

Task<void> NatService::make_direct(ConnectionPtr relayed,
                                   std::vector<wire::Multiaddr> public_addresses) {
    const PeerId peer = relayed->remote();
    const bool we_called = relayed->is_dialler();
    {
        const auto punching = punches_.now(peer);
        co_await try_to_make_direct(std::move(relayed), std::move(public_addresses));
    }
    const ConnectionPtr left = around_.swarm.table().best(peer);
    if (we_called || !left || !left->is_relayed()) co_return;
    if (punches_.begin_later(peer)) co_await punch_later(peer);
}

// A relayed connection costs others' lines for as long as it lasts.
Task<void> NatService::punch_later(PeerId peer) {
    const auto listed = punches_.later(peer);
    for (const Duration pause : punch_pauses) {
        co_await around_.clock.sleep_for(pause);
        ConnectionPtr relayed = around_.swarm.table().best(peer);
        if (!relayed || !relayed->is_relayed() || relayed->is_dialler()) co_return;
        if (!punches_.begin(peer)) continue;
        const auto punching = punches_.now(peer);
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
        auto dialled = co_await around_.swarm.dialler().dial_direct(
            peer, std::move(public_addresses), path, deadline);
        if (dialled) {
            if (!we_called) punches_.reversed();
            co_return;
        }
    }
    if (we_called) co_return;  // it is the other side that begins to punch
    punches_.tried();
    co_await punch_attempts(std::move(relayed));
}

Task<void> NatService::punch_attempts(ConnectionPtr relayed) {
    const PeerId peer = relayed->remote();
    for (int attempt = 1; attempt <= punch_attempts_max; ++attempt) {
        if (relayed->is_closed()) co_return;
        const Result<void> punched = co_await punch_once(relayed, attempt);
        if (around_.swarm.table().direct(peer)) {
            punches_.succeeded();
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
    const std::shared_ptr<transport::Stream> stream = *std::move(opened);
    stream->set_deadline(start + punch_stream_max);
    stream->propose(std::string(wire::hole_punch_protocol));
    auto theirs = co_await arrange_punch(stream, std::move(own), around_.clock);
    if (!theirs) co_return std::move(theirs).error();
    const bool as_client = punches_as_client(PunchSide::b, attempt, relayed->agent());
    const TimePoint deadline = around_.clock.now() + punch_attempt_max;
    auto targets = only_public(*std::move(theirs));
    const PeerId peer = relayed->remote();
    auto punched =
        co_await around_.swarm.puncher().punch(peer, std::move(targets), as_client, deadline);
    co_return punched;
}

Task<void> NatService::serve_punch(ConnectionPtr connection,
                                   std::shared_ptr<transport::Stream> stream) {
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
    const int attempts = punches_.asked_by(peer);
    const bool as_client = punches_as_client(PunchSide::a, attempts, connection->agent());
    const TimePoint deadline = around_.clock.now() + punch_attempt_max;
    auto targets = only_public(*std::move(theirs));
    (void)co_await around_.swarm.puncher().punch(peer, std::move(targets), as_client, deadline);
}

Task<void> NatService::serve_stop(ConnectionPtr connection,
                                  std::shared_ptr<transport::Stream> stream) {
    stream->set_deadline(around_.clock.now() + relay_message_wait_max);
    const PeerId relay = connection->remote();
    const bool is_welcome = reservations_.has(relay) && !connection->is_relayed();
    auto caller = co_await accept_circuit(stream, is_welcome);
    if (!caller) co_return;
    const PeerId peer = *caller;
    const auto taken = around_.swarm.door().receive_circuit(stream, peer, relay);
    if (!taken)
        log(LogLevel::debug,
            "p2p",
            "circuit from {}: {}",
            peer.short_text(),
            taken.error().message());
}

}  // namespace dedloc::p2p
