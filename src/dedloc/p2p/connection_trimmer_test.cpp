// Which connections go by themselves, and which make room.
#include <gtest/gtest.h>
#include <optional>

#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/sim/world.h"

namespace dedloc::p2p {
namespace {

// Fails while it is told to.
class FailingListener final : public runtime::Listener {
  public:
    FailingListener(std::unique_ptr<runtime::Listener> real, const std::optional<ErrorKind>& fails)
        : real_(std::move(real)), fails_(fails) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> accept() override {
        if (fails_) co_return Error(*fails_, "as it was told");
        auto accepted = co_await real_->accept();
        co_return accepted;
    }
    runtime::SocketAddress local() const override { return real_->local(); }
    void close() override { real_->close(); }

  private:
    std::unique_ptr<runtime::Listener> real_;
    const std::optional<ErrorKind>& fails_;
};

class SmallNetwork final : public runtime::NetworkLike {
  public:
    using NetworkLike::NetworkLike;
    Result<std::unique_ptr<runtime::Listener>> listen(
        const runtime::SocketAddress& address) override {
        DEDLOC_TRY(auto real, model_.listen(address));
        return std::unique_ptr<runtime::Listener>(
            std::make_unique<FailingListener>(std::move(real), fails));
    }
    std::size_t connections_allowed() const override { return allowed; }

    std::optional<ErrorKind> fails;
    std::size_t allowed = p2p::connections_max;
};

class ConnectionTrimmerTest : public ::testing::Test {
  protected:
    ConnectionTrimmerTest() { start(); }
    ~ConnectionTrimmerTest() override {
        for (const auto& guest : guests_) world_.run_task(guest->stop());
        world_.run_task(house_->stop());
    }
    // Anew, with room for so many connections.
    void start(std::size_t connections_max = p2p::connections_max) {
        if (house_) world_.run_task(house_->stop());
        HostOptions options = simulated_host(world_, house_node_, 1, &network_);
        options.connections_max = connections_max;
        house_ = make_host(std::move(options)).value();
        house_->handle_call("/echo/1", echo);
    }
    // Connected to the house, by its own dialling, unless it is refused.
    Host& visit() {
        const auto seed = static_cast<std::uint8_t>(2 + guests_.size());
        guests_.push_back(make_host(simulated_host(world_, world_.add_node({}), seed)).value());
        world_.run_task(dial(guests_.back().get(), house_->addresses().at(0)));
        settle();
        return *guests_.back();
    }
    static Task<void> dial(Host* guest, std::string address) {
        const TimePoint deadline = guest->clock().now() + 5s;
        (void)co_await guest->dial(std::move(address), deadline);
    }
    static Task<void> call(Host* guest, PeerId house, bool* good) {
        const TimePoint deadline = guest->clock().now() + 5s;
        Bytes words = to_bytes("still here");
        auto answer = co_await guest->call(house, "/echo/1", std::move(words), deadline);
        *good = answer.has_value();
    }
    void use(Host& guest) {
        bool good = false;
        world_.run_task(call(&guest, house_->id(), &good));
        EXPECT_TRUE(good);
    }
    void settle() { pass(2s); }
    void pass(Duration time) {
        const TimePoint end = house_->clock().now() + time;
        EXPECT_TRUE(world_.run_until([&] { return house_->clock().now() >= end; }, time + 1s));
    }
    bool is_here(const Host& guest) const { return house_->is_connected(guest.id()); }

    sim::World world_{5};
    sim::SimNode& house_node_ = world_.add_node({});
    SmallNetwork network_{house_node_.network()};
    std::unique_ptr<Host> house_;
    std::vector<std::unique_ptr<Host>> guests_;
};

TEST_F(ConnectionTrimmerTest,
       a_connection_that_nobody_uses_is_closed_unless_one_side_protects_its_peer) {
    Host& unused = visit();
    Host& needed = visit();
    house_->protect(needed.id(), true);
    needed.protect(house_->id(), true);
    pass(connection_idle_max + 2 * idle_look_interval);
    EXPECT_FALSE(is_here(unused));
    EXPECT_FALSE(unused.is_connected(house_->id()));
    EXPECT_TRUE(is_here(needed));

    house_->protect(needed.id(), false);
    pass(2 * idle_look_interval);
    EXPECT_FALSE(is_here(needed)) << "nobody protects it any more";
}

TEST_F(ConnectionTrimmerTest, a_connection_that_is_used_now_and_then_stays) {
    Host& guest = visit();
    for (int i = 0; i < 4; ++i) {
        pass(connection_idle_max - idle_look_interval);
        ASSERT_TRUE(is_here(guest));
        use(guest);
    }
    pass(connection_idle_max + 2 * idle_look_interval);
    EXPECT_FALSE(is_here(guest));
    use(guest);  // and is there again when it is wanted
}

TEST_F(ConnectionTrimmerTest, in_a_full_house_the_one_that_was_unused_longest_makes_room) {
    start(3);
    Host& first = visit();
    Host& second = visit();
    Host& third = visit();
    use(first);
    Host& fourth = visit();
    EXPECT_TRUE(is_here(fourth));
    EXPECT_FALSE(is_here(second));
    EXPECT_TRUE(is_here(first) && is_here(third));
}

TEST_F(ConnectionTrimmerTest, a_house_is_no_larger_than_the_network_allows) {
    network_.allowed = 2;
    start();
    Host& first = visit();
    Host& second = visit();
    Host& third = visit();
    EXPECT_FALSE(is_here(first));
    EXPECT_TRUE(is_here(second) && is_here(third));
}

TEST_F(ConnectionTrimmerTest, without_descriptors_for_who_is_at_the_door_unused_connections_go) {
    Host& unused = visit();
    Host& needed = visit();
    house_->protect(needed.id(), true);
    network_.fails = ErrorKind::overloaded;
    Host& late = visit();
    EXPECT_FALSE(is_here(unused));
    EXPECT_TRUE(is_here(needed));
    network_.fails.reset();
    settle();
    use(late);
}

TEST_F(ConnectionTrimmerTest,
       a_listener_that_fails_for_another_reason_costs_nobody_its_connection) {
    Host& unused = visit();
    network_.fails = ErrorKind::local_fault;
    (void)visit();
    EXPECT_TRUE(is_here(unused));
    network_.fails.reset();
}

TEST_F(ConnectionTrimmerTest, protected_peers_never_make_room_for_strangers) {
    start(2);
    Host& one = visit();
    Host& other = visit();
    house_->protect(one.id(), true);
    for (int i = 0; i < 5; ++i) {
        Host& stranger = visit();
        EXPECT_TRUE(is_here(stranger));
        EXPECT_TRUE(is_here(one));
    }
    EXPECT_FALSE(is_here(other));

    house_->protect(guests_.back()->id(), true);
    Host& late = visit();
    EXPECT_FALSE(is_here(late)) << "all that there are, are needed";
    EXPECT_TRUE(is_here(one) && is_here(*guests_.at(guests_.size() - 2)));
}

}  // namespace
}  // namespace dedloc::p2p
