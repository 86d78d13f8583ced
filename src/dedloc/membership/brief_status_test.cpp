// Brief statuses bring what whole ones bring.

#include "dedloc/membership/brief_status.h"

#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/wire/message.h"

namespace dedloc::membership {
namespace {

Status status_at(std::uint64_t sequence) {
    Status status;
    status.incarnation = 5;
    status.sequence = sequence;
    status.name = "anna";
    status.addresses = {"/ip4/10.0.0.1/tcp/4001"};
    status.samples_per_s = 12.5;
    return status;
}

TEST(BriefStatus, amends_its_base_to_the_status) {
    Random random(3);
    const Status base = status_at(7);
    for (int i = 0; i < 200; ++i) {
        Status status = status_at(8 + static_cast<std::uint64_t>(i));
        status.phase = static_cast<Phase>(random.below(6));
        if (random.chance(0.5)) status.step = 1 + random.below(100);
        if (random.chance(0.5)) status.certificate.bytes[3] = 9;
        if (random.chance(0.5)) status.samples = 1 + random.below(100);
        if (random.chance(0.5)) status.samples_per_s = 1 + random.uniform();
        if (random.chance(0.5)) status.loss = 1 + random.uniform();
        const auto brief = shortened(status, base);
        ASSERT_TRUE(brief);
        const auto back = amended(base, *brief);
        ASSERT_TRUE(back);
        EXPECT_EQ(wire::encode(*back), wire::encode(status));
        EXPECT_LT(wire::encode(*brief).size(), 80u);
    }
}

TEST(BriefStatus, is_none_of_what_has_changed_otherwise_or_become_nothing) {
    const Status base = status_at(7);
    Status status = status_at(8);
    EXPECT_TRUE(shortened(status, base));
    status.name = "berta";
    EXPECT_FALSE(shortened(status, base));
    status = status_at(8);
    status.addresses.clear();
    EXPECT_FALSE(shortened(status, base));
    status = status_at(8);
    status.incarnation = 6;
    EXPECT_FALSE(shortened(status, base));
    status = status_at(8);
    status.samples_per_s = 0;
    EXPECT_FALSE(shortened(status, base)) << "0 stands for what is as before";
}

TEST(BriefStatus, of_another_base_amends_nothing) {
    const Status base = status_at(7);
    const auto brief = shortened(status_at(9), base);
    ASSERT_TRUE(brief);
    EXPECT_FALSE(amended(status_at(8), *brief));
}

}  // namespace
}  // namespace dedloc::membership
