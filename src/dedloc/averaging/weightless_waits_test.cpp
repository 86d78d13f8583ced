#include "dedloc/averaging/weightless_waits.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::averaging {
namespace {

using security::toy_peer_id;

TEST(WeightlessWaits, one_that_did_not_come_is_not_waited_for_until_it_has_come) {
    WeightlessWaits waits;
    const TimePoint now{1000s};
    EXPECT_TRUE(waits.waits_for(toy_peer_id(1), now));
    waits.failed(toy_peer_id(1), now);
    EXPECT_FALSE(waits.waits_for(toy_peer_id(1), now));
    EXPECT_TRUE(waits.waits_for(toy_peer_id(2), now));
    waits.came(toy_peer_id(1));
    EXPECT_TRUE(waits.waits_for(toy_peer_id(1), now));
}

TEST(WeightlessWaits, a_new_identity_a_step_costs_few_waits) {
    WeightlessWaits waits;
    int waited = 0;
    constexpr int steps = 240;  // of a second
    for (int step = 0; step < steps; ++step) {
        const TimePoint now = TimePoint{1000s} + 1s * step;
        const PeerId peer = toy_peer_id(static_cast<std::uint64_t>(step));
        if (!waits.waits_for(peer, now)) continue;
        ++waited;
        waits.failed(peer, now);
    }
    EXPECT_LE(waited, 8 + steps / 30 + 1);
}

}  // namespace
}  // namespace dedloc::averaging
