// Strangers get a bounded share of a host, and leave nothing behind.
#include <gtest/gtest.h>

#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/together.h"
#include "dedloc/sim/world.h"

namespace dedloc::p2p {
namespace {

class StrangersTest : public ::testing::Test {
  protected:
    StrangersTest() { house_ = add(); }
    ~StrangersTest() override {
        for (const auto& host : hosts_) world_.run_task(host->stop());
    }
    HostOptions options(sim::SimNode& node, std::size_t seed) {
        HostOptions made = simulated_host(world_, node, static_cast<std::uint8_t>(seed));
        made.strangers = HostOptions::Strangers::limited;
        return made;
    }
    Host* add() {
        hosts_.push_back(make_host(options(world_.add_node({}), 1 + hosts_.size())).value());
        hosts_.back()->handle_call("echo", echo);
        return hosts_.back().get();
    }
    Host* visit() {
        Host* guest = add();
        world_.run_task(dial(guest, house_->addresses().at(0)));
        world_.run_for(1s);
        return guest;
    }
    static Task<void> dial(Host* guest, std::string address) {
        const TimePoint deadline = guest->clock().now() + 5s;
        (void)co_await guest->dial(std::move(address), deadline);
    }
    static Task<void> ask_for(Host* guest, PeerId house, TimePoint end, Bytes words, int* answers) {
        while (guest->clock().now() < end) {
            const TimePoint deadline = end + 5s;
            auto answer = co_await guest->call(house, "echo", words, deadline);
            if (answer) ++*answers;
        }
    }
    // So many askers at once, each as fast as it is answered.
    int flood(Host* guest, Duration time, std::size_t bytes = 10) {
        int answers = 0;
        std::vector<Task<void>> tasks;
        const TimePoint end = guest->clock().now() + time;
        for (int i = 0; i < 16; ++i)
            tasks.push_back(ask_for(guest, house_->id(), end, Bytes(bytes), &answers));
        world_.run_task(runtime::all_of(std::move(tasks)));
        return answers;
    }

    sim::World world_{21};
    std::vector<std::unique_ptr<Host>> hosts_;
    Host* house_ = nullptr;
};

TEST_F(StrangersTest, a_flood_of_questions_is_answered_at_the_pace_of_its_share) {
    Host* stranger = visit();
    const int answers = flood(stranger, 20s);
    const Duration work = answers * (stream_cost + answer_cost);
    EXPECT_LT(work, 700ms);
    EXPECT_GT(work, 200ms) << "but it is answered";
}

TEST_F(StrangersTest, a_protected_peer_and_one_that_was_vouched_for_do_not_wait) {
    Host* member = visit();
    house_->protect(member->id(), true);
    const int of_member = flood(member, 5s);
    Host* vouched = visit();
    house_->vouch(vouched->id());
    const int of_vouched = flood(vouched, 5s);
    Host* stranger = visit();
    const int of_stranger = flood(stranger, 5s);
    EXPECT_GT(of_member, 3 * of_stranger);
    EXPECT_GT(of_vouched, 3 * of_stranger);
}

TEST_F(StrangersTest, long_answers_do_not_fill_the_line) {
    Host* stranger = visit();
    const int answers = flood(stranger, 20s, 20'000);
    EXPECT_LT(answers * 20'000 / 20, 40'000);
}

TEST_F(StrangersTest, what_one_said_of_itself_is_forgotten_when_it_goes) {
    Host* stranger = visit();
    const PeerId id = stranger->id();
    EXPECT_FALSE(house_->addresses_of(id).empty());
    stranger->disconnect(house_->id());
    world_.run_for(1s);
    EXPECT_TRUE(house_->addresses_of(id).empty());

    Host* member = visit();
    house_->protect(member->id(), true);
    member->disconnect(house_->id());
    world_.run_for(1s);
    EXPECT_FALSE(house_->addresses_of(member->id()).empty());
}

Task<void> find_it(Host* from, PeerId who, Result<std::vector<std::string>>* out) {
    const TimePoint deadline = from->clock().now() + 10s;
    *out = co_await view_of(*from)->find_peer(who, deadline);
}

TEST_F(StrangersTest, the_local_address_of_a_member_is_told_to_members_only) {
    Host* member = visit();
    house_->protect(member->id(), true);
    Host* asker = visit();
    Result<std::vector<std::string>> found = Error(ErrorKind::cancelled, "did not run");
    world_.run_task(find_it(asker, member->id(), &found));
    EXPECT_FALSE(found) << "a stranger is told " << found->front();
    house_->protect(asker->id(), true);
    world_.run_for(kad_missed_pause);
    world_.run_task(find_it(asker, member->id(), &found));
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, member->addresses());
}

// One machine with a key for every connection.
TEST_F(StrangersTest, one_address_has_so_many_connections_and_members_do_not_count) {
    sim::SimNode& machine = world_.add_node({});
    std::vector<std::unique_ptr<Host>> many;
    const int count = static_cast<int>(stranger_connections_per_address_max) + 8;
    for (int i = 0; i < count; ++i) {
        HostOptions made = options(machine, 100 + static_cast<std::size_t>(i));
        made.listen.clear();
        many.push_back(make_host(std::move(made)).value());
        world_.run_task(dial(many.back().get(), house_->addresses().at(0)));
        if (i == 0) house_->protect(many.back()->id(), true);
        world_.run_for(500ms);
    }
    EXPECT_TRUE(house_->is_connected(many.front()->id()));
    EXPECT_TRUE(house_->is_connected(many.back()->id()));
    EXPECT_EQ(house_->connected_peers().size(), 1 + stranger_connections_per_address_max);
    for (const auto& host : many) world_.run_task(host->stop());
}

}  // namespace
}  // namespace dedloc::p2p
