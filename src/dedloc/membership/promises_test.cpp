#include "dedloc/membership/promises.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::membership {
namespace {

const auto brings_nothing = [](const PeerId&) { return false; };

TEST(Promises, newcomers_are_believed) {
    Promises promises;
    const TimePoint now{100s};
    EXPECT_TRUE(promises.are_believed(/*contributed=*/false, now));
    for (int step = 0; step < 1000; ++step) {
        promises.made_by(security::toy_peer_id(1));
        promises.step_made(brings_nothing, now + 1s * step);
    }
    EXPECT_TRUE(promises.are_believed(false, now)) << "one peer breaks one promise";
}

TEST(Promises, a_new_identity_a_step_that_never_delivers_is_believed_in_few_steps) {
    Promises promises;
    int believed = 0;
    constexpr int steps = 1000;  // of a second
    for (int step = 0; step < steps; ++step) {
        const TimePoint now = TimePoint{100s} + 1s * step;
        if (promises.are_believed(false, now)) ++believed;
        EXPECT_TRUE(promises.are_believed(/*contributed=*/true, now));
        promises.made_by(security::toy_peer_id(static_cast<std::uint64_t>(step)));
        promises.step_made(brings_nothing, now);
    }
    EXPECT_LE(believed, 32 + steps / 15 + 1);
}

}  // namespace
}  // namespace dedloc::membership
