#include "dedloc/wire/multiaddr.h"

#include <gtest/gtest.h>

namespace dedloc::wire {
namespace {

constexpr const char* peer_text = "12D3KooWM6CgA9iBFZmcYAHA6A2qvbAxqfkmrYiRQuz3XEsk4Ksv";
constexpr const char* other_text = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N";

TEST(Multiaddr, text_and_bytes_convert_into_each_other) {
    for (const std::string text : {"/ip4/127.0.0.1/tcp/4001",
                                   "/ip6/2001:db8::1/tcp/65535",
                                   "/ip6/fe80::1/udp/0/quic-v1",
                                   "/ip6zone/eth0/ip6/fe80::1/tcp/1",
                                   "/dns4/example.org/tcp/443/wss",
                                   "/dns/example.org/tcp/443/tls/sni/example.com/ws",
                                   "/dnsaddr/bootstrap.libp2p.io",
                                   "/ip4/1.2.3.4/udp/4001/quic-v1/webtransport/certhash/"
                                   "uEiAkH5a4DPGKUuOBjYw0CgwjvcJCJMD2K_1aluKR_tpevQ",
                                   "/ip4/1.2.3.4/udp/9/webrtc-direct",
                                   "/unix/tmp/p2pd.sock"}) {
        const auto address = Multiaddr::from_text(text);
        ASSERT_TRUE(address) << address.error().message();
        EXPECT_EQ(address->text(), text);
        const auto again = Multiaddr::from_bytes(address->bytes());
        ASSERT_TRUE(again) << again.error().message();
        EXPECT_EQ(*again, *address);
    }
}

TEST(Multiaddr, bytes_are_those_of_other_implementations) {
    const auto bytes = [](const char* text) {
        return base::to_hex(Multiaddr::from_text(text).value().bytes());
    };
    EXPECT_EQ(bytes("/ip4/127.0.0.1/udp/1234"),
              "047f000001"
              "910204d2");
    EXPECT_EQ(bytes("/ip4/127.0.0.1/tcp/4321"),
              "047f000001"
              "0610e1");
    EXPECT_EQ(bytes("/ip6/::1/tcp/80"),
              "2900000000000000000000000000000001"
              "060050");
    EXPECT_EQ(bytes("/dns4/a.b/tcp/1"),
              "3603612e62"
              "060001");
    EXPECT_EQ(bytes("/p2p-circuit"), "a202");
    EXPECT_EQ(bytes("/ip4/127.0.0.1/udp/1/quic-v1"),
              "047f000001"
              "91020001"
              "cd03");
    EXPECT_EQ(bytes((std::string("/ipfs/") + other_text).c_str()).substr(0, 10), "a503221220");
}

TEST(Multiaddr, host_port_and_peer_are_found) {
    const auto address =
        Multiaddr::from_text(std::string("/ip4/10.0.0.1/tcp/4001/ipfs/") + peer_text).value();
    EXPECT_EQ(address.host(), "10.0.0.1");
    EXPECT_EQ(address.tcp_port(), 4001);
    EXPECT_EQ(address.peer()->text(), peer_text);
    EXPECT_TRUE(address.is_plain_tcp());
    EXPECT_EQ(address.without_peer(), Multiaddr::tcp("10.0.0.1", 4001).value());
    EXPECT_EQ(address.without_peer().with_peer(*address.peer()), address);
    EXPECT_FALSE(address.without_peer().peer().has_value());
    EXPECT_EQ(Multiaddr::tcp("[::1]", 5)->text(), "/ip6/::1/tcp/5");
    EXPECT_EQ(Multiaddr::tcp("example.org", 5)->text(), "/dns/example.org/tcp/5");
    EXPECT_FALSE(Multiaddr::tcp("", 5));
    EXPECT_FALSE(Multiaddr::tcp("two words", 5));
    EXPECT_FALSE(Multiaddr::from_text("/ip4/1.2.3.4/tcp/5/ws")->is_plain_tcp());
    EXPECT_FALSE(Multiaddr::from_text("/ip4/1.2.3.4/udp/5")->tcp_port().has_value());
    EXPECT_FALSE(Multiaddr().host().has_value());
}

TEST(Multiaddr, a_relayed_address_tells_relay_and_target_apart) {
    const PeerId relay = PeerId::from_text(other_text).value();
    const PeerId target = PeerId::from_text(peer_text).value();
    const auto at_relay = Multiaddr::tcp("1.2.3.4", 4001)->with_peer(relay);
    const auto address = at_relay.circuit_to(target);
    EXPECT_EQ(
        address.text(),
        std::string("/ip4/1.2.3.4/tcp/4001/p2p/") + other_text + "/p2p-circuit/p2p/" + peer_text);
    EXPECT_TRUE(address.is_relayed());
    EXPECT_FALSE(address.is_plain_tcp());
    EXPECT_EQ(address.peer(), target);
    EXPECT_EQ(address.relay(), at_relay);
    EXPECT_EQ(address.relay()->peer(), relay);
    EXPECT_FALSE(address.without_peer().peer().has_value());
    EXPECT_FALSE(at_relay.relay().has_value());
}

TEST(Multiaddr, malformed_text_is_refused_with_a_reason) {
    for (const std::string text : {"",
                                   "ip4/1.2.3.4",
                                   "/",
                                   "//",
                                   "/ip4",
                                   "/ip4/1.2.3",
                                   "/ip4/1.2.3.4/tcp",
                                   "/ip4/300.1.1.1",
                                   "/ip4/1.2.3.4/tcp/65536",
                                   "/ip4/1.2.3.4/tcp/-1",
                                   "/ip4/1.2.3.4/tcp/4 ",
                                   "/ip6/1.2.3.4",
                                   "/dns/",
                                   "/dns//tcp/1",
                                   "/p2p/xyz0",
                                   "/unix",
                                   "/certhash/zabc"})
        EXPECT_FALSE(Multiaddr::from_text(text)) << text;
    EXPECT_EQ(Multiaddr::from_text("/carrier-pigeon/3").error().kind(), ErrorKind::unsupported);
    EXPECT_FALSE(Multiaddr::from_text(std::string(100000, '/')));
    std::string deep;
    for (std::size_t i = 0; i <= multiaddr_parts_max; ++i) deep += "/ws";
    EXPECT_FALSE(Multiaddr::from_text(deep));
}

TEST(Multiaddr, truncated_bytes_are_refused_and_unknown_codes_concern_one_address_only) {
    const Bytes whole =
        Multiaddr::from_text(std::string("/ip4/1.2.3.4/tcp/9/p2p/") + peer_text)->bytes();
    int readable = 0;
    for (std::size_t size = 0; size < whole.size(); ++size)
        readable += Multiaddr::from_bytes(ByteView(whole).first(size)).has_value();
    EXPECT_EQ(readable, 2);  // after the ip4 and after the tcp part
    const Bytes unknown = *base::from_hex("ffffff7f01");
    EXPECT_EQ(Multiaddr::from_bytes(unknown).error().kind(), ErrorKind::unsupported);
    EXPECT_EQ(known_multiaddrs({unknown, whole, Bytes{}, Bytes{4, 1}}).size(), 1u);
    EXPECT_FALSE(Multiaddr::from_bytes(*base::from_hex("35ffffffffffffffffff01")));
}

}  // namespace
}  // namespace dedloc::wire
