#include "dedloc/membership/promises.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::membership {
namespace {

const auto brings_nothing = [](const PeerId&) { return false; };

TEST(Promises, newcomers_are_believed) {
    Promises promises(/*of_strangers=*/true);
    const TimePoint now{100s};
    EXPECT_TRUE(promises.are_believed(/*contributed=*/false, now));
    for (int step = 0; step < 1000; ++step) {
        promises.made_by(security::toy_peer_id(1));
        promises.step_made(brings_nothing, now + 1s * step);
    }
    EXPECT_TRUE(promises.are_believed(false, now)) << "one peer breaks one promise";
}

TEST(Promises, a_new_identity_a_step_that_never_delivers_is_believed_in_few_steps) {
    Promises promises(/*of_strangers=*/true);
    std::size_t believed = 0;
    constexpr int steps = 1000;  // of a second
    for (int step = 0; step < steps; ++step) {
        const TimePoint now = TimePoint{100s} + 1s * step;
        EXPECT_TRUE(promises.are_believed(/*contributed=*/true, now));
        if (promises.are_believed(false, now)) {
            ++believed;
            promises.made_by(security::toy_peer_id(static_cast<std::uint64_t>(step)));
        }
        promises.step_made(brings_nothing, now);
    }
    const auto times = static_cast<std::size_t>(1s * steps / Promises::remembered_for) + 1;
    EXPECT_LE(believed, times * Promises::broken_most_by_strangers);
}

TEST(Promises, many_who_come_late_to_their_first_step_and_then_contribute_cost_the_next_nothing) {
    Promises promises(/*of_strangers=*/true);
    const TimePoint now{100s};
    for (std::uint64_t peer = 0; peer < 20; ++peer) promises.made_by(security::toy_peer_id(peer));
    promises.step_made(brings_nothing, now);
    EXPECT_FALSE(promises.are_believed(false, now));
    promises.step_made([](const PeerId&) { return true; }, now + 1s);
    EXPECT_TRUE(promises.are_believed(false, now + 1s));
}

}  // namespace
}  // namespace dedloc::membership
