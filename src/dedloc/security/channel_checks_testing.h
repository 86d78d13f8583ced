// Tests expect this of both kinds of Channel alike. For tests only.

#pragma once
#include <gtest/gtest.h>

#include "dedloc/security/channel_testing.h"

namespace dedloc::security {

// A pair that has not begun its handshake.
template <typename OneChannel>
void expect_early_data_is_kept(ChannelPair<OneChannel> pair) {
    ASSERT_TRUE(pair.responder.feed(pair.initiator.take_output()));
    ASSERT_TRUE(pair.initiator.feed(pair.responder.take_output()));
    ASSERT_TRUE(pair.initiator.handshake_done());
    ASSERT_TRUE(pair.initiator.encrypt(as_bytes("early")));
    ASSERT_TRUE(pair.responder.feed(pair.initiator.take_output()));
    EXPECT_TRUE(pair.responder.handshake_done());
    EXPECT_EQ(pair.responder.take_plain(), to_bytes("early"));
}

// Ten bytes become a message of `size`, of which one bit at `position` is flipped.
template <typename OneChannel>
void expect_a_flipped_bit_ends_it(ChannelPair<OneChannel> pair,
                                  std::size_t size,
                                  std::size_t position) {
    carry(pair);
    ASSERT_TRUE(pair.initiator.encrypt(Bytes(10, 'x')));
    Bytes message = pair.initiator.take_output();
    ASSERT_EQ(message.size(), size);
    message[position] ^= 1;
    // A longer length only waits for more.
    Ok fed = pair.responder.feed(message);
    if (fed) fed = pair.responder.feed(Bytes(300, 0));
    EXPECT_FALSE(fed) << position;
    EXPECT_EQ(pair.responder.plain_bytes(), 0u) << position;
    EXPECT_FALSE(pair.responder.encrypt(as_bytes("x")));
}

template <typename OneChannel>
void expect_a_repeated_message_ends_it(ChannelPair<OneChannel> pair) {
    carry(pair);
    ASSERT_TRUE(pair.initiator.encrypt(as_bytes("pay 5")));
    const Bytes message = pair.initiator.take_output();
    ASSERT_TRUE(pair.responder.feed(message));
    EXPECT_FALSE(pair.responder.feed(message));
    EXPECT_EQ(pair.responder.take_plain(), to_bytes("pay 5"));
}

}  // namespace dedloc::security
