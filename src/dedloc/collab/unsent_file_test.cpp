#include "dedloc/collab/unsent_file.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"

namespace dedloc::collab {
namespace {

struct CountingTeller final : events::Teller {
    int lost = 0;
    void tell(events::Any what, PeerId /*peer*/, std::string /*text*/) override {
        lost += std::holds_alternative<events::UnsentLost>(what) ? 1 : 0;
    }
};

class UnsentFileTest : public testing::Test {
  protected:
    replica::UnsentGradients started() {
        replica::UnsentGradients unsent(3, codec::CodecId::sparse);
        UnsentFile file(node.runtime(), teller);
        world.run_task(file.take_up(unsent, 100));
        return unsent;
    }
    void leave(const replica::UnsentGradients& unsent) {
        UnsentFile file(node.runtime(), teller);
        world.run_task(file.keep(unsent));
    }
    static std::vector<float> numbers(const replica::UnsentGradients& unsent) {
        return {unsent.unsent().begin(), unsent.unsent().end()};
    }

    sim::World world{1};
    sim::SimNode& node = world.add_node();
    CountingTeller teller;
};

TEST_F(UnsentFileTest, a_peer_that_left_in_order_goes_on_with_what_it_had_not_sent) {
    replica::UnsentGradients unsent = started();
    unsent.take_up(std::vector<float>{1, 2, 3}, 100);
    leave(unsent);
    EXPECT_EQ(numbers(started()), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(teller.lost, 0);
}

TEST_F(UnsentFileTest, of_a_killed_process_nothing_is_sent_twice_and_the_loss_is_told) {
    replica::UnsentGradients unsent = started();
    unsent.take_up(std::vector<float>{1, 2, 3}, 100);
    leave(unsent);
    (void)started();  // takes it up, and is killed
    EXPECT_EQ(numbers(started()), (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(teller.lost, 1);
}

// On the next start it would lie there still, and be sent once more.
TEST_F(UnsentFileTest, what_cannot_be_marked_as_read_is_not_taken_up) {
    replica::UnsentGradients unsent = started();
    unsent.take_up(std::vector<float>{1, 2, 3}, 100);
    leave(unsent);
    node.disk().set_full(true);
    EXPECT_EQ(numbers(started()), (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(teller.lost, 1);
    node.disk().set_full(false);
    EXPECT_EQ(numbers(started()), (std::vector<float>{1, 2, 3}));
}

TEST_F(UnsentFileTest, what_another_model_left_is_not_taken_up) {
    replica::UnsentGradients other(2, codec::CodecId::sparse);
    leave(other);
    EXPECT_EQ(numbers(started()), (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(teller.lost, 1);
}

}  // namespace
}  // namespace dedloc::collab
