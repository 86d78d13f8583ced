#include "dedloc/transport/upgrade.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "dedloc/runtime/deadline.h"
#include "dedloc/transport/limits.h"
#include "dedloc/wire/multistream.h"
#include "dedloc/wire/yamux_frame.h"

namespace dedloc::transport {

namespace {

constexpr std::size_t handshake_read_bytes = 16u << 10;
constexpr std::size_t greeting_bytes = 18;
// Says that a lane was understood; only then may its bytes follow.
constexpr std::uint8_t greeting_answer = 1;

Error closed_early(std::string_view stage) {
    return make_error(ErrorKind::peer_gone, "the other side hung up during {}", stage);
}

// A connection being upgraded: what was read and belongs to the next stage stays in `input`.
struct Upgrade {
    std::unique_ptr<runtime::Connection> raw;
    std::shared_ptr<const UpgradeContext> context;
    std::unique_ptr<security::Channel> channel;
    std::string security;
    Bytes input;

    Task<Result<void>> read_more() {
        Bytes buffer(handshake_read_bytes);
        auto count = co_await raw->read_some(buffer);
        if (!count) co_return std::move(count).error();
        if (*count == 0) co_return closed_early("the handshake");
        base::append(input, ByteView(buffer).first(*count));
        co_return Ok();
    }

    // So many bytes from the bare connection.
    Task<Result<Bytes>> read_bytes(std::size_t count) {
        while (input.size() < count) {
            auto more = co_await read_more();
            if (!more) co_return std::move(more).error();
        }
        const auto end = input.begin() + static_cast<std::ptrdiff_t>(count);
        Bytes bytes(input.begin(), end);
        input.erase(input.begin(), end);
        co_return bytes;
    }

    // A multistream line from the bare connection.
    Task<Result<std::string>> read_line() {
        wire::MultistreamReader reader;
        for (;;) {
            auto used = reader.feed(input);
            if (!used) co_return std::move(used).error();
            input.erase(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(*used));
            if (auto line = reader.take()) co_return *std::move(line);
            auto more = co_await read_more();
            if (!more) co_return std::move(more).error();
        }
    }

    Task<Result<void>> send(Bytes bytes) {
        if (bytes.empty()) co_return Ok();
        auto written = co_await raw->write(bytes);
        co_return written;
    }

    // Runs the handshake until both sides have shown who they are.
    Task<Result<void>> handshake() {
        for (;;) {
            auto fed = channel->feed(std::exchange(input, Bytes()));
            auto sent = co_await send(channel->take_output());  // an alert, if feed() failed
            if (!fed) co_return std::move(fed).error();
            if (!sent) co_return std::move(sent).error();
            if (channel->handshake_done()) co_return Ok();
            auto more = co_await read_more();
            if (!more) co_return std::move(more).error();
        }
    }

    Task<Result<void>> send_secured(Bytes plain) {
        auto encrypted = channel->encrypt(plain);
        if (!encrypted) co_return std::move(encrypted).error();
        auto sent = co_await send(channel->take_output());
        co_return sent;
    }

    // A multistream line from inside the channel, and not one byte more.
    Task<Result<std::string>> read_secured_line() {
        wire::MultistreamReader reader;
        Bytes piece;
        for (;;) {
            piece.resize(reader.wanted());
            const std::size_t count = channel->read_plain(piece);
            if (count > 0) {
                auto used = reader.feed(ByteView(piece).first(count));
                if (!used) co_return std::move(used).error();
                if (auto line = reader.take()) co_return *std::move(line);
                continue;
            }
            auto more = co_await read_more();
            if (!more) co_return std::move(more).error();
            auto fed = channel->feed(std::exchange(input, Bytes()));
            if (!fed) co_return std::move(fed).error();
        }
    }

    static Ok expect_echo(std::string_view line, std::string_view wanted) {
        if (line == wanted) return {};
        if (line == wire::multistream_refusal)
            return make_error(ErrorKind::unsupported, "the other side does not speak {}", wanted);
        return make_error(
            ErrorKind::peer_broke_protocol, "the other side does not speak libp2p ({})", wanted);
    }
};

using UpgradePtr = std::shared_ptr<Upgrade>;

Bytes lines(std::string_view first, std::string_view second) {
    Bytes out;
    wire::put_multistream_line(out, first);
    wire::put_multistream_line(out, second);
    return out;
}

bool muxer_was_agreed(const security::Channel& channel) {
    return channel.protocol() == wire::yamux_protocol;
}

Task<Result<void>> choose_muxer_dialled(UpgradePtr upgrade) {
    if (muxer_was_agreed(*upgrade->channel)) co_return Ok();
    Bytes proposal = lines(wire::multistream_header, wire::yamux_protocol);
    auto sent = co_await upgrade->send_secured(std::move(proposal));
    if (!sent) co_return std::move(sent).error();
    const std::array<std::string_view, 2> echoes = {wire::multistream_header, wire::yamux_protocol};
    for (const std::string_view wanted : echoes) {
        auto line = co_await upgrade->read_secured_line();
        if (!line) co_return std::move(line).error();
        auto agreed = Upgrade::expect_echo(*line, wanted);
        if (!agreed) co_return std::move(agreed).error();
    }
    co_return Ok();
}

Task<Result<void>> choose_muxer_accepted(UpgradePtr upgrade) {
    if (muxer_was_agreed(*upgrade->channel)) co_return Ok();
    Bytes answer;
    wire::put_multistream_line(answer, wire::multistream_header);
    for (int proposals = 0; proposals <= proposals_max; ++proposals) {
        auto line = co_await upgrade->read_secured_line();
        if (!line) co_return std::move(line).error();
        if (proposals == 0 && *line != wire::multistream_header)
            co_return Error(ErrorKind::peer_broke_protocol, "no multistream after the handshake");
        if (proposals == 0) continue;
        const bool agreed = *line == wire::yamux_protocol;
        wire::put_multistream_line(answer, agreed ? *line : wire::multistream_refusal);
        auto sent = co_await upgrade->send_secured(std::exchange(answer, Bytes()));
        if (!sent) co_return std::move(sent).error();
        if (agreed) co_return Ok();
    }
    co_return Error(ErrorKind::unsupported, "no muxer in common");
}

std::unique_ptr<security::Channel> make_channel(const Upgrade& upgrade,
                                                bool is_dialler,
                                                std::optional<PeerId> expected,
                                                WallSeconds now) {
    using security::NoiseChannel;
    using security::TlsChannel;
    const UpgradeContext& context = *upgrade.context;
    if (upgrade.security == security::noise_protocol)
        return std::make_unique<NoiseChannel>(
            is_dialler ? NoiseChannel::initiator(context.noise, std::move(expected))
                       : NoiseChannel::responder(context.noise));
    return std::make_unique<TlsChannel>(is_dialler ? TlsChannel::client(context.tls, expected, now)
                                                   : TlsChannel::server(context.tls, now));
}

// The listener's side; the chosen protocol is in upgrade->security.
Task<Result<void>> choose_security_accepted(UpgradePtr upgrade) {
    Bytes answer;
    wire::put_multistream_line(answer, wire::multistream_header);
    for (int proposals = 0; proposals <= proposals_max; ++proposals) {
        auto line = co_await upgrade->read_line();
        if (!line) co_return std::move(line).error();
        if (proposals == 0 && *line != wire::multistream_header)
            co_return Error(ErrorKind::peer_broke_protocol, "the other side is not libp2p");
        if (proposals == 0) continue;
        const bool agreed = upgrade->context->speaks(*line) || *line == lane_protocol;
        wire::put_multistream_line(answer, agreed ? *line : wire::multistream_refusal);
        auto sent = co_await upgrade->send(std::exchange(answer, Bytes()));
        if (!sent) co_return std::move(sent).error();
        if (!agreed) continue;
        upgrade->security = *std::move(line);
        co_return Ok();
    }
    co_return Error(ErrorKind::unsupported, "no security protocol in common");
}

// The dialler's side when it asks: proposes one after the other.
Task<Result<void>> choose_security_asking(UpgradePtr upgrade) {
    Bytes proposal;
    wire::put_multistream_line(proposal, wire::multistream_header);
    bool header_came = false;
    for (const std::string& protocol : upgrade->context->settings.protocols) {
        wire::put_multistream_line(proposal, protocol);
        auto sent = co_await upgrade->send(std::exchange(proposal, Bytes()));
        if (!sent) co_return std::move(sent).error();
        if (!std::exchange(header_came, true)) {
            auto header = co_await upgrade->read_line();
            if (!header) co_return std::move(header).error();
            auto agreed = Upgrade::expect_echo(*header, wire::multistream_header);
            if (!agreed) co_return std::move(agreed).error();
        }
        auto line = co_await upgrade->read_line();
        if (!line) co_return std::move(line).error();
        if (*line == wire::multistream_refusal) continue;
        auto agreed = Upgrade::expect_echo(*line, protocol);
        if (!agreed) co_return std::move(agreed).error();
        upgrade->security = protocol;
        co_return Ok();
    }
    co_return Error(ErrorKind::unsupported, "no security protocol in common");
}

Task<Result<SecureConnection>> finish(UpgradePtr upgrade, bool is_dialler) {
    auto secured = co_await upgrade->handshake();
    if (!secured) co_return std::move(secured).error();
    auto muxer = is_dialler ? co_await choose_muxer_dialled(upgrade)
                            : co_await choose_muxer_accepted(upgrade);
    if (!muxer) co_return std::move(muxer).error();
    SecureConnection connection;
    connection.remote = upgrade->channel->remote_peer();
    connection.raw = std::move(upgrade->raw);
    connection.channel = std::move(upgrade->channel);
    connection.is_dialler = is_dialler;
    connection.security = upgrade->security;
    co_return connection;
}

Task<Result<void>> open_guessing(UpgradePtr upgrade) {
    Bytes opening = lines(wire::multistream_header, upgrade->security);
    base::append(opening, upgrade->channel->take_output());
    auto sent = co_await upgrade->send(std::move(opening));
    if (!sent) co_return std::move(sent).error();
    const std::array<std::string_view, 2> echoes = {wire::multistream_header, upgrade->security};
    for (const std::string_view wanted : echoes) {
        auto line = co_await upgrade->read_line();
        if (!line) co_return std::move(line).error();
        auto agreed = Upgrade::expect_echo(*line, wanted);
        if (!agreed) co_return std::move(agreed).error();
    }
    co_return Ok();
}

Task<Result<SecureConnection>> dialled(UpgradePtr upgrade,
                                       std::optional<PeerId> expected,
                                       WallSeconds now,
                                       Opening opening) {
    if (opening == Opening::guess) {
        upgrade->security = upgrade->context->settings.protocols.front();
        upgrade->channel = make_channel(*upgrade, /*is_dialler=*/true, std::move(expected), now);
        auto opened = co_await open_guessing(upgrade);
        if (!opened) co_return std::move(opened).error();
    } else {
        auto chosen = co_await choose_security_asking(upgrade);
        if (!chosen) co_return std::move(chosen).error();
        upgrade->channel = make_channel(*upgrade, /*is_dialler=*/true, std::move(expected), now);
        auto sent = co_await upgrade->send(upgrade->channel->take_output());
        if (!sent) co_return std::move(sent).error();
    }
    auto connection = co_await finish(upgrade, /*is_dialler=*/true);
    co_return connection;
}

// A lane's greeting is read and acknowledged; what it is good for others decide.
Task<Result<SecureConnection>> accepted_lane(UpgradePtr upgrade) {
    auto bytes = co_await upgrade->read_bytes(greeting_bytes);
    if (!bytes) co_return std::move(bytes).error();
    LaneGreeting greeting;
    std::copy_n(bytes->begin(), greeting.bundle.size(), greeting.bundle.begin());
    greeting.index = bytes->at(greeting_bytes - 2);
    greeting.count = bytes->at(greeting_bytes - 1);
    const bool sound = greeting.count > 0 && greeting.count <= lanes_per_peer_max &&
                       greeting.index < greeting.count && upgrade->input.empty();
    if (!sound) co_return Error(ErrorKind::peer_broke_protocol, "a lane without a place");
    Bytes answer(1, greeting_answer);
    auto sent = co_await upgrade->send(std::move(answer));
    if (!sent) co_return std::move(sent).error();
    SecureConnection connection;
    connection.raw = std::move(upgrade->raw);
    connection.lane = greeting;
    co_return connection;
}

Task<Result<std::unique_ptr<runtime::Connection>>> greeted(UpgradePtr upgrade,
                                                           LaneGreeting greeting) {
    auto sent = co_await upgrade->send(lines(wire::multistream_header, lane_protocol));
    if (!sent) co_return std::move(sent).error();
    const std::array<std::string_view, 2> echoes = {wire::multistream_header, lane_protocol};
    for (const std::string_view wanted : echoes) {
        auto line = co_await upgrade->read_line();
        if (!line) co_return std::move(line).error();
        auto agreed = Upgrade::expect_echo(*line, wanted);
        if (!agreed) co_return std::move(agreed).error();
    }
    Bytes words(greeting.bundle.begin(), greeting.bundle.end());
    words.push_back(greeting.index);
    words.push_back(greeting.count);
    sent = co_await upgrade->send(std::move(words));
    if (!sent) co_return std::move(sent).error();
    auto answer = co_await upgrade->read_bytes(1);
    if (!answer) co_return std::move(answer).error();
    if (answer->front() != greeting_answer || !upgrade->input.empty())
        co_return Error(ErrorKind::peer_broke_protocol, "a lane was answered with something else");
    co_return std::move(upgrade->raw);
}

Task<Result<SecureConnection>> accepted(UpgradePtr upgrade, WallSeconds now) {
    auto chosen = co_await choose_security_accepted(upgrade);
    if (!chosen) co_return std::move(chosen).error();
    if (upgrade->security == lane_protocol) {
        auto lane = co_await accepted_lane(upgrade);
        co_return lane;
    }
    upgrade->channel = make_channel(*upgrade, /*is_dialler=*/false, std::nullopt, now);
    auto connection = co_await finish(upgrade, /*is_dialler=*/false);
    co_return connection;
}

}  // namespace

Result<std::shared_ptr<const UpgradeContext>> UpgradeContext::make(
    const security::Identity& identity, SecuritySettings settings) {
    auto context = std::make_shared<UpgradeContext>();
    for (const std::string& protocol : settings.protocols) {
        if (protocol == security::tls_protocol) {
            auto alpn = security::TlsContext::default_protocols();
            if (!settings.early_muxer) alpn = {std::string(security::multistream_follows)};
            context->tls = security::TlsContext::make(identity, std::move(alpn));
        } else if (protocol == security::noise_protocol) {
            auto muxers = security::NoiseContext::default_muxers();
            if (!settings.early_muxer) muxers.clear();
            context->noise = security::NoiseContext::make(identity, std::move(muxers));
        } else {
            return make_error(
                ErrorKind::bad_input, "\"{}\" is no security protocol we speak", protocol);
        }
    }
    if (settings.protocols.empty())
        return Error(ErrorKind::bad_input, "at least one security protocol is needed");
    context->settings = std::move(settings);
    return std::shared_ptr<const UpgradeContext>(std::move(context));
}

bool UpgradeContext::speaks(std::string_view protocol) const {
    const auto& ours = settings.protocols;
    return std::find(ours.begin(), ours.end(), protocol) != ours.end();
}

Task<Result<SecureConnection>> upgrade_dialled(std::unique_ptr<runtime::Connection> raw,
                                               std::shared_ptr<const UpgradeContext> context,
                                               PeerId expected,
                                               runtime::Clock& clock,
                                               Opening opening) {
    auto upgrade = std::make_shared<Upgrade>();
    upgrade->raw = std::move(raw);
    upgrade->context = std::move(context);
    std::optional<PeerId> whom;
    if (!expected.is_empty()) whom = expected;
    const TimePoint deadline = clock.now() + upgrade_max;
    const std::string what = "the handshake with " + upgrade->raw->remote().text();
    auto task = dialled(upgrade, std::move(whom), clock.wall_now(), opening);
    auto connection = co_await runtime::with_deadline(clock, deadline, what, std::move(task));
    co_return connection;
}

Task<Result<std::unique_ptr<runtime::Connection>>> greet_lane(
    std::unique_ptr<runtime::Connection> raw, LaneGreeting greeting, runtime::Clock& clock) {
    auto upgrade = std::make_shared<Upgrade>();
    upgrade->raw = std::move(raw);
    const TimePoint deadline = clock.now() + upgrade_max;
    auto task = greeted(upgrade, greeting);
    auto lane =
        co_await runtime::with_deadline(clock, deadline, "greeting a lane", std::move(task));
    co_return lane;
}

Task<Result<SecureConnection>> upgrade_accepted(std::unique_ptr<runtime::Connection> raw,
                                                std::shared_ptr<const UpgradeContext> context,
                                                runtime::Clock& clock) {
    auto upgrade = std::make_shared<Upgrade>();
    upgrade->raw = std::move(raw);
    upgrade->context = std::move(context);
    const TimePoint deadline = clock.now() + upgrade_max;
    const std::string what = "the handshake with " + upgrade->raw->remote().text();
    auto task = accepted(upgrade, clock.wall_now());
    auto connection = co_await runtime::with_deadline(clock, deadline, what, std::move(task));
    co_return connection;
}

}  // namespace dedloc::transport
