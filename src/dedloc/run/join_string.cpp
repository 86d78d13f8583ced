#include "dedloc/run/join_string.h"

#include <algorithm>
#include <set>

#include "dedloc/base/fields.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::run {
namespace {

constexpr std::string_view prefix = "dedloc1";
constexpr std::size_t checksum_bytes = 4;

struct JoinPeer {
    PeerId id;
    std::vector<std::string> addresses;

    DEDLOC_FIELDS(id, (addresses, join_addresses_per_peer_max))
};

struct JoinMessage {
    Digest run;
    Bytes secret;
    std::vector<JoinPeer> peers;
    Digest certificate;
    std::uint64_t step = 0;
    PeerId authority;
    Bytes code;

    DEDLOC_FIELDS(run, secret, (peers, join_peers_max), certificate, step, authority, code)
};

// A path of printable ASCII; what its parts mean is the host's business when it dials.
bool is_address(std::string_view text) {
    return !text.empty() && text.size() <= join_address_bytes_max && text.front() == '/' &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

std::string without_blanks(std::string_view text) {
    std::string clean;
    for (const char c : text)
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '"' && c != '\'') clean += c;
    return clean;
}

Error damaged() {
    return make_error(ErrorKind::bad_input, "the join string is damaged; copy it whole");
}

// Counts the hosts that addresses name: beyond join_hosts_max they are left out.
class Hosts {
  public:
    bool takes(std::string_view address) {
        const auto parsed = wire::Multiaddr::from_text(address);
        const std::string host = parsed ? parsed->host().value_or("") : std::string(address);
        if (hosts_.contains(host)) return true;
        if (hosts_.size() >= join_hosts_max) return false;
        hosts_.insert(host);
        return true;
    }

  private:
    std::set<std::string> hosts_;
};

Result<JoinString> from_message(const JoinMessage& message) {
    if (message.run.is_zero()) return damaged();
    if (!message.secret.empty() && message.secret.size() != run_secret_bytes) return damaged();
    if (!message.code.empty() && message.code.size() != invitation_code_bytes) return damaged();
    JoinString join{.run = message.run,
                    .secret = message.secret,
                    .addresses = {},
                    .anchor = {},
                    .authority = message.authority,
                    .code = message.code};
    Hosts hosts;
    for (const JoinPeer& peer : message.peers) {
        if (peer.id.is_empty()) return damaged();
        for (const std::string& address : peer.addresses) {
            if (!is_address(address)) return damaged();
            if (hosts.takes(address)) join.addresses.push_back(address + "/p2p/" + peer.id.text());
        }
    }
    if (join.addresses.empty())
        return make_error(ErrorKind::bad_input,
                          "the join string names no address; ask for one from a peer that others "
                          "can reach");
    if (!message.certificate.is_zero())
        join.anchor = Anchor{.certificate = message.certificate, .step = message.step};
    return join;
}

}  // namespace

Result<PeerAddress> split_peer_address(std::string_view multiaddr) {
    constexpr std::string_view marker = "/p2p/";
    const std::size_t at = multiaddr.rfind(marker);
    if (at == std::string_view::npos || at == 0 || !is_address(multiaddr.substr(0, at)))
        return make_error(ErrorKind::bad_input,
                          "'{}' is not an address of a peer; it should look like "
                          "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooW…",
                          multiaddr.substr(0, join_address_bytes_max));
    DEDLOC_TRY(PeerId peer, PeerId::from_text(multiaddr.substr(at + marker.size())));
    return PeerAddress{.address = std::string(multiaddr.substr(0, at)), .peer = std::move(peer)};
}

std::string to_text(const JoinString& join) {
    Hosts hosts;
    JoinMessage message;
    message.run = join.run;
    message.secret = join.secret;
    message.authority = join.authority;
    message.code = join.code;
    for (const std::string& multiaddr : join.addresses) {
        auto parts = split_peer_address(multiaddr);
        if (!parts || !hosts.takes(parts->address)) continue;
        auto peer = std::find_if(message.peers.begin(),
                                 message.peers.end(),
                                 [&](const JoinPeer& known) { return known.id == parts->peer; });
        if (peer == message.peers.end()) {
            if (message.peers.size() == join_peers_max) continue;
            message.peers.push_back({.id = parts->peer, .addresses = {}});
            peer = std::prev(message.peers.end());
        }
        if (peer->addresses.size() < join_addresses_per_peer_max)
            peer->addresses.push_back(parts->address);
    }
    if (join.anchor) {
        message.certificate = join.anchor->certificate;
        message.step = join.anchor->step;
    }
    Bytes bytes = wire::encode(message);
    // Whole peers give way, the least wanted first, until the text fits.
    while ((bytes.size() + checksum_bytes) * 4 / 3 + prefix.size() + 4 > join_string_bytes_max &&
           !message.peers.empty()) {
        message.peers.pop_back();
        bytes = wire::encode(message);
    }
    const Digest checksum = security::sha256(bytes);
    base::append(bytes, checksum.view().first(checksum_bytes));
    return std::string(prefix) + base::to_base64url(bytes);
}

Result<JoinString> parse_join_string(std::string_view text) {
    if (text.size() > 2 * join_string_bytes_max)
        return make_error(
            ErrorKind::bad_input, "this is too long for a join string ({} letters)", text.size());
    const std::string clean = without_blanks(text);
    if (!clean.starts_with(prefix)) {
        if (clean.starts_with("dedloc"))
            return make_error(ErrorKind::bad_input,
                              "this join string was made by another version of dedloc, or its "
                              "beginning is damaged; this version reads those that begin with "
                              "'{}'",
                              prefix);
        return make_error(ErrorKind::bad_input,
                          "this is not a join string: it should begin with '{}'; `dedloc host` "
                          "and `dedloc invite` print one",
                          prefix);
    }
    auto bytes = base::from_base64url(std::string_view(clean).substr(prefix.size()));
    if (!bytes || bytes->size() <= checksum_bytes) return damaged();
    const ByteView body = ByteView(*bytes).first(bytes->size() - checksum_bytes);
    const ByteView checksum = ByteView(*bytes).last(checksum_bytes);
    if (!base::equal(security::sha256(body).view().first(checksum_bytes), checksum))
        return damaged();
    auto message = wire::decode<JoinMessage>(body);
    if (!message) return damaged();
    return from_message(*message);
}

}  // namespace dedloc::run
