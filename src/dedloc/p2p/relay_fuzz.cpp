// A relay, a peer that asks to be dialled back, and one that punches holes may say these to us: the
// first byte chooses which. Whatever is understood stays within the limits.

#include <cstdlib>

#include "dedloc/p2p/address_book.h"
#include "dedloc/p2p/autonat.h"
#include "dedloc/p2p/relay_client.h"

namespace {

using namespace dedloc;
using namespace dedloc::p2p;

const security::Identity& identity(std::uint8_t seed) {
    static const auto relay = security::Identity::from_seed(Bytes(32, 1)).value();
    static const auto peer = security::Identity::from_seed(Bytes(32, 2)).value();
    return seed == 1 ? relay : peer;
}

void require(bool holds) {
    if (!holds) std::abort();
}

void check_relay_answer(ByteView bytes) {
    const auto answer = wire::decode<wire::HopMessage>(bytes);
    if (!answer) return;
    const auto checked = check_reservation(*answer, identity(1).id(), identity(2).id(), 1e9);
    if (!checked) return;
    require(checked->life >= relay_reservation_life_min);
    require(checked->life <= relay_reservation_life_max);
    require(checked->addresses.size() <= addresses_per_peer_max);
    for (const auto& address : checked->addresses) {
        require(address.is_plain_tcp() && !address.peer());
        require(can_be_dialled(address.with_peer(identity(1).id()).circuit_to(identity(2).id())));
    }
}

void check_dial_back(ByteView bytes) {
    const auto message = wire::decode<wire::AutonatMessage>(bytes);
    if (!message || !message->dial || !message->dial->peer) return;
    const auto dialled = AutonatServer::to_dial(message->dial->peer->addresses, "203.0.113.7");
    require(dialled.size() <= autonat_addresses_max);
    for (const auto& address : dialled) {
        require(address.host() == "203.0.113.7");
        require(address.tcp_port() > 0);
    }
}

void check_address(ByteView bytes) {
    const auto address = wire::Multiaddr::from_bytes(bytes);
    if (!address) return;
    AddressBook book;
    book.add(identity(2).id(), std::vector<wire::Multiaddr>(1, *address));
    for (const auto& kept : book.of(identity(2).id())) require(can_be_dialled(kept));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const dedloc::ByteView bytes(data + 1, size - 1);
    constexpr void (*checks[])(dedloc::ByteView) = {
        check_relay_answer, check_dial_back, check_address};
    checks[data[0] % std::size(checks)](bytes);
    return 0;
}
