#include "dedloc/p2p/dcutr.h"

#include <charconv>
#include <utility>

#include "dedloc/p2p/limits.h"
#include "dedloc/p2p/relay_stream.h"
#include "dedloc/wire/relay_messages.h"

namespace dedloc::p2p {

namespace {

// "go-libp2p/0.32.1": 32. Nullopt for other programs.
std::optional<int> go_minor_version(std::string_view agent) {
    constexpr std::string_view name = "go-libp2p/0.";
    if (!agent.starts_with(name)) return std::nullopt;
    agent.remove_prefix(name.size());
    int minor = 0;
    const auto [end, error] = std::from_chars(agent.data(), agent.data() + agent.size(), minor);
    if (error != std::errc() || end == agent.data()) return std::nullopt;
    return minor;
}

void send(transport::Stream& stream,
          wire::HolePunchType type,
          const std::vector<wire::Multiaddr>& addresses) {
    wire::HolePunch message;
    message.type = type;
    for (const auto& address : addresses) message.observed_addresses.push_back(address.bytes());
    stream.write(wire::with_length_prefix(wire::encode(message)));
}

Task<Result<std::vector<wire::Multiaddr>>> expect(std::shared_ptr<transport::Stream> stream,
                                                  wire::HolePunchType type) {
    auto bytes = co_await read_relay_message(*stream);
    if (!bytes) co_return std::move(bytes).error();
    const auto message = wire::decode<wire::HolePunch>(*bytes);
    if (!message || message->type != type)
        co_return Error(ErrorKind::peer_broke_protocol, "an unexpected message about a hole");
    std::vector<wire::Multiaddr> addresses;
    for (const auto& address : wire::known_multiaddrs(message->observed_addresses))
        if (address.is_plain_tcp() && addresses.size() < punch_addresses_max)
            addresses.push_back(address.without_peer());
    co_return addresses;
}

}  // namespace

bool punches_as_client(PunchSide side, int attempt, std::string_view agent_of_other) {
    const bool by_specification = side == PunchSide::a;
    if (agent_of_other.starts_with("dedloc/")) return by_specification;
    const auto go = go_minor_version(agent_of_other);
    if (agent_of_other.starts_with("p2pd/") || (go && *go < 41)) return !by_specification;
    // Unknown: as the newest go-libp2p, which keeps to the specification until its third attempt.
    const bool swapped = side == PunchSide::a ? attempt % 2 == 0 : attempt >= 3;
    return by_specification != swapped;
}

Task<Result<std::vector<wire::Multiaddr>>> arrange_punch(std::shared_ptr<transport::Stream> stream,
                                                         std::vector<wire::Multiaddr> own,
                                                         runtime::Clock& clock) {
    // The echo first: the round trip shall not count how long the other thinks about the protocol.
    auto confirmed = co_await stream->confirm();
    if (!confirmed) co_return std::move(confirmed).error();
    const TimePoint asked = clock.now();
    send(*stream, wire::HolePunchType::connect, own);
    auto theirs = co_await expect(stream, wire::HolePunchType::connect);
    if (!theirs) co_return std::move(theirs).error();
    const Duration round_trip = clock.now() - asked;
    send(*stream, wire::HolePunchType::sync, {});
    stream->finish();
    co_await clock.sleep_for(round_trip / 2);
    co_return theirs;
}

Task<Result<std::vector<wire::Multiaddr>>> answer_punch(std::shared_ptr<transport::Stream> stream,
                                                        std::vector<wire::Multiaddr> own) {
    auto theirs = co_await expect(stream, wire::HolePunchType::connect);
    if (!theirs) co_return std::move(theirs).error();
    send(*stream, wire::HolePunchType::connect, own);
    auto synced = co_await expect(stream, wire::HolePunchType::sync);
    if (!synced) co_return std::move(synced).error();
    stream->finish();
    co_return theirs;
}

}  // namespace dedloc::p2p
