#include "dedloc/p2p/upgrade.h"

#include <array>
#include <string>
#include <utility>

#include "dedloc/p2p/limits.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/wire/multistream.h"
#include "dedloc/wire/yamux_frame.h"

namespace dedloc::p2p {

namespace {

using security::tls_protocol;
constexpr std::size_t handshake_read_bytes = 16u << 10;

Error closed_early(std::string_view stage) {
    return make_error(ErrorKind::peer_gone, "the other side hung up during {}", stage);
}

// A connection being upgraded: what was read and belongs to the next stage stays in `input`.
struct Upgrade {
    std::unique_ptr<runtime::Connection> raw;
    std::unique_ptr<security::TlsChannel> tls;
    Bytes input;

    Task<Result<void>> read_more() {
        Bytes buffer(handshake_read_bytes);
        auto count = co_await raw->read_some(buffer);
        if (!count) co_return std::move(count).error();
        if (*count == 0) co_return closed_early("the handshake");
        base::append(input, ByteView(buffer).first(*count));
        co_return Ok();
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

    // Runs TLS until both sides have shown who they are.
    Task<Result<void>> handshake() {
        for (;;) {
            auto fed = tls->feed(std::exchange(input, Bytes()));
            auto sent = co_await send(tls->take_output());  // an alert, if feed() failed
            if (!fed) co_return std::move(fed).error();
            if (!sent) co_return std::move(sent).error();
            if (tls->handshake_done()) co_return Ok();
            auto more = co_await read_more();
            if (!more) co_return std::move(more).error();
        }
    }

    Task<Result<void>> send_secured(Bytes plain) {
        auto encrypted = tls->encrypt(plain);
        if (!encrypted) co_return std::move(encrypted).error();
        auto sent = co_await send(tls->take_output());
        co_return sent;
    }

    // A multistream line from inside TLS, and not one byte more.
    Task<Result<std::string>> read_secured_line() {
        wire::MultistreamReader reader;
        Bytes piece;
        for (;;) {
            piece.resize(reader.wanted());
            const std::size_t count = tls->read_plain(piece);
            if (count > 0) {
                auto used = reader.feed(ByteView(piece).first(count));
                if (!used) co_return std::move(used).error();
                if (auto line = reader.take()) co_return *std::move(line);
                continue;
            }
            auto more = co_await read_more();
            if (!more) co_return std::move(more).error();
            auto fed = tls->feed(std::exchange(input, Bytes()));
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

bool muxer_was_agreed(const security::TlsChannel& tls) {
    return tls.protocol() == wire::yamux_protocol;
}

Task<Result<void>> choose_muxer_dialled(UpgradePtr upgrade) {
    if (muxer_was_agreed(*upgrade->tls)) co_return Ok();
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
    if (muxer_was_agreed(*upgrade->tls)) co_return Ok();
    Bytes answer;
    wire::put_multistream_line(answer, wire::multistream_header);
    for (int proposals = 0; proposals <= proposals_max; ++proposals) {
        auto line = co_await upgrade->read_secured_line();
        if (!line) co_return std::move(line).error();
        if (proposals == 0 && *line != wire::multistream_header)
            co_return Error(ErrorKind::peer_broke_protocol, "no multistream after TLS");
        if (proposals == 0) continue;
        const bool agreed = *line == wire::yamux_protocol;
        wire::put_multistream_line(answer, agreed ? *line : wire::multistream_refusal);
        auto sent = co_await upgrade->send_secured(std::exchange(answer, Bytes()));
        if (!sent) co_return std::move(sent).error();
        if (agreed) co_return Ok();
    }
    co_return Error(ErrorKind::unsupported, "no muxer in common");
}

Task<Result<void>> choose_tls_accepted(UpgradePtr upgrade) {
    Bytes answer;
    wire::put_multistream_line(answer, wire::multistream_header);
    for (int proposals = 0; proposals <= proposals_max; ++proposals) {
        auto line = co_await upgrade->read_line();
        if (!line) co_return std::move(line).error();
        if (proposals == 0 && *line != wire::multistream_header)
            co_return Error(ErrorKind::peer_broke_protocol, "the other side is not libp2p");
        if (proposals == 0) continue;
        const bool agreed = *line == tls_protocol;
        wire::put_multistream_line(answer, agreed ? *line : wire::multistream_refusal);
        auto sent = co_await upgrade->send(std::exchange(answer, Bytes()));
        if (!sent) co_return std::move(sent).error();
        if (agreed) co_return Ok();
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
    connection.remote = upgrade->tls->remote_peer();
    connection.raw = std::move(upgrade->raw);
    connection.tls = std::move(upgrade->tls);
    connection.is_dialler = is_dialler;
    co_return connection;
}

Task<Result<SecureConnection>> dialled(UpgradePtr upgrade) {
    Bytes opening = lines(wire::multistream_header, tls_protocol);
    base::append(opening, upgrade->tls->take_output());
    auto sent = co_await upgrade->send(std::move(opening));
    if (!sent) co_return std::move(sent).error();
    const std::array<std::string_view, 2> echoes = {wire::multistream_header, tls_protocol};
    for (const std::string_view wanted : echoes) {
        auto line = co_await upgrade->read_line();
        if (!line) co_return std::move(line).error();
        auto agreed = Upgrade::expect_echo(*line, wanted);
        if (!agreed) co_return std::move(agreed).error();
    }
    auto connection = co_await finish(upgrade, /*is_dialler=*/true);
    co_return connection;
}

Task<Result<SecureConnection>> accepted(UpgradePtr upgrade) {
    auto chosen = co_await choose_tls_accepted(upgrade);
    if (!chosen) co_return std::move(chosen).error();
    auto connection = co_await finish(upgrade, /*is_dialler=*/false);
    co_return connection;
}

}  // namespace

Task<Result<SecureConnection>> upgrade_dialled(std::unique_ptr<runtime::Connection> raw,
                                               std::shared_ptr<const security::TlsContext> context,
                                               PeerId expected,
                                               runtime::Clock& clock) {
    auto upgrade = std::make_shared<Upgrade>();
    upgrade->raw = std::move(raw);
    std::optional<PeerId> whom;
    if (!expected.is_empty()) whom = expected;
    upgrade->tls = std::make_unique<security::TlsChannel>(
        security::TlsChannel::client(std::move(context), whom, clock.wall_now()));
    const TimePoint deadline = clock.now() + upgrade_max;
    const std::string what = "the handshake with " + upgrade->raw->remote().text();
    auto task = dialled(upgrade);
    auto connection = co_await runtime::with_deadline(clock, deadline, what, std::move(task));
    co_return connection;
}

Task<Result<SecureConnection>> upgrade_accepted(std::unique_ptr<runtime::Connection> raw,
                                                std::shared_ptr<const security::TlsContext> context,
                                                runtime::Clock& clock) {
    auto upgrade = std::make_shared<Upgrade>();
    upgrade->raw = std::move(raw);
    upgrade->tls = std::make_unique<security::TlsChannel>(
        security::TlsChannel::server(std::move(context), clock.wall_now()));
    const TimePoint deadline = clock.now() + upgrade_max;
    const std::string what = "the handshake with " + upgrade->raw->remote().text();
    auto task = accepted(upgrade);
    auto connection = co_await runtime::with_deadline(clock, deadline, what, std::move(task));
    co_return connection;
}

}  // namespace dedloc::p2p
