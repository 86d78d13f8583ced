#include "dedloc/p2p/address_book.h"

#include <gtest/gtest.h>

namespace dedloc::p2p {
namespace {

PeerId numbered_peer(int number) {
    Bytes multihash = {0x12, 0x20};
    multihash.resize(34);
    multihash[33] = static_cast<std::uint8_t>(number);
    multihash[32] = static_cast<std::uint8_t>(number >> 8);
    return PeerId::from_bytes(multihash).value();
}

std::vector<wire::Multiaddr> addresses(std::initializer_list<const char*> texts) {
    std::vector<wire::Multiaddr> parsed;
    for (const char* text : texts) parsed.push_back(wire::Multiaddr::from_text(text).value());
    return parsed;
}

std::vector<std::string> texts(const AddressBook& book, const PeerId& of) {
    std::vector<std::string> result;
    for (const auto& address : book.of(of)) result.push_back(address.text());
    return result;
}

using Texts = std::vector<std::string>;

TEST(AddressBook, tries_what_was_told_last_first_and_hearsay_last) {
    AddressBook book;
    book.add(numbered_peer(1), addresses({"/ip4/10.0.0.1/tcp/1"}));
    book.add_hearsay(numbered_peer(1), addresses({"/ip4/10.0.0.2/tcp/1", "/ip4/10.0.0.1/tcp/1"}));
    book.add(numbered_peer(1), addresses({"/ip4/10.0.0.3/tcp/1"}));
    EXPECT_EQ(texts(book, numbered_peer(1)),
              (Texts{"/ip4/10.0.0.3/tcp/1", "/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.2/tcp/1"}));
}

TEST(AddressBook, keeps_only_what_we_can_dial_for_that_peer) {
    AddressBook book;
    book.add(numbered_peer(1),
             addresses({"/ip4/10.0.0.1/udp/1/quic-v1", "/ip4/10.0.0.1/tcp/1/ws"}));
    auto for_another = addresses({"/ip4/10.0.0.1/tcp/1"});
    for_another[0] = for_another[0].with_peer(numbered_peer(2));
    book.add(numbered_peer(1), for_another);
    EXPECT_TRUE(book.of(numbered_peer(1)).empty());
    EXPECT_EQ(book.peers_count(), 0u);
}

TEST(AddressBook, forgets_hearsay_and_keeps_what_was_proved) {
    AddressBook book;
    book.add_hearsay(numbered_peer(1), addresses({"/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.2/tcp/1"}));
    book.add_hearsay(numbered_peer(2), addresses({"/ip4/10.0.0.3/tcp/1"}));
    book.worked(numbered_peer(1), addresses({"/ip4/10.0.0.2/tcp/1"})[0]);
    book.forget_hearsay(numbered_peer(1));
    book.forget_hearsay(numbered_peer(2));
    book.forget_hearsay(numbered_peer(3));
    EXPECT_EQ(texts(book, numbered_peer(1)), Texts{"/ip4/10.0.0.2/tcp/1"});
    EXPECT_EQ(book.peers_count(), 1u);
}

TEST(AddressBook, hearsay_is_bounded_in_peers_and_bytes_and_never_drives_out_the_proved) {
    AddressBook book;
    book.add(numbered_peer(0), addresses({"/ip4/10.0.0.1/tcp/1"}));
    const std::string name = "/dns4/" + std::string(60, 'a') + "." + std::string(60, 'b') + "." +
                             std::string(60, 'c') + "." + std::string(60, 'd') + "/tcp/";
    for (int i = 1; i < 3 * static_cast<int>(hearsay_peers_max); ++i)
        for (int port = 1; port < 10; ++port)
            book.add_hearsay(numbered_peer(i), addresses({(name + std::to_string(port)).c_str()}));
    EXPECT_EQ(book.peers_count(), 1 + hearsay_peers_max);
    EXPECT_EQ(book.of(numbered_peer(0)).size(), 1u);
    std::size_t bytes = 0;
    const int last = 3 * static_cast<int>(hearsay_peers_max) - 1;
    for (const auto& address : book.of(numbered_peer(last))) bytes += address.bytes().size();
    EXPECT_GT(bytes, 0u);
    EXPECT_LE(bytes, hearsay_bytes_per_peer_max);
}

TEST(AddressBook, is_bounded_and_forgets_the_least_used) {
    AddressBook book;
    for (int i = 0; i < static_cast<int>(address_book_peers_max); ++i)
        book.add(numbered_peer(i), addresses({"/ip4/10.0.0.1/tcp/1"}));
    book.add(numbered_peer(0), addresses({"/ip4/10.0.0.2/tcp/1"}));
    book.add(numbered_peer(60000), addresses({"/ip4/10.0.0.1/tcp/1"}));
    EXPECT_EQ(book.peers_count(), address_book_peers_max);
    EXPECT_FALSE(book.of(numbered_peer(0)).empty());
    EXPECT_TRUE(book.of(numbered_peer(1)).empty());
    for (int port = 1; port < 100; ++port)
        book.add(numbered_peer(0),
                 addresses({("/ip4/10.0.0.9/tcp/" + std::to_string(port)).c_str()}));
    EXPECT_EQ(book.of(numbered_peer(0)).size(), addresses_per_peer_max);
}

}  // namespace
}  // namespace dedloc::p2p
