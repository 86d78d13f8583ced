// A stranger that goes, or falls silent, after any number of bytes: in the middle of a proposal, a
// handshake, a frame, a call. The host it did this to has nothing left of it, and serves others.
#include <gtest/gtest.h>

#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/sim/world.h"
#include "dedloc/transport/limits.h"

namespace dedloc::p2p {
namespace {

enum class End { reset, silence };

// Carries so many bytes of its owner's, and then no more.
class CutConnection final : public runtime::Connection {
  public:
    CutConnection(std::unique_ptr<runtime::Connection> whole, std::size_t& left, End end)
        : whole_(std::move(whole)), left_(left), end_(end) {}

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        return whole_->read_some(into);
    }
    Task<Result<void>> write(ByteView bytes) override {
        const ByteView carried = bytes.first(std::min(bytes.size(), left_));
        left_ -= carried.size();
        if (!carried.empty()) {
            auto written = co_await whole_->write(carried);
            if (!written) co_return written;
        }
        if (left_ == 0 && end_ == End::reset) whole_->close();
        co_return Ok();
    }
    void close() override { whole_->close(); }
    runtime::SocketAddress local() const override { return whole_->local(); }
    runtime::SocketAddress remote() const override { return whole_->remote(); }

  private:
    std::unique_ptr<runtime::Connection> whole_;
    std::size_t& left_;
    End end_;
};

class CuttingNetwork final : public runtime::NetworkLike {
  public:
    // Cuts one connection.
    CuttingNetwork(runtime::Network& whole, std::size_t bytes, End end)
        : NetworkLike(whole), bytes_(bytes), end_(end) {}
    void cut_now() { bytes_ = 0; }

    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress address,
                                                               TimePoint deadline) override {
        auto connected = co_await model_.connect(std::move(address), deadline);
        if (!connected) co_return std::move(connected).error();
        std::unique_ptr<runtime::Connection> cut =
            std::make_unique<CutConnection>(*std::move(connected), bytes_, end_);
        co_return cut;
    }

  private:
    std::size_t bytes_;
    End end_;
};

class CutOffTest : public ::testing::TestWithParam<End> {
  protected:
    CutOffTest() {
        host_ = make_host(simulated_host(world_, host_node_, 1)).value();
        host_->handle_call("echo", echo);
        host_->handle_call("wait", [this](PeerId, Bytes request) { return wait(request); });
    }
    ~CutOffTest() override { world_.run_task(host_->stop()); }

    Task<Result<Bytes>> wait(Bytes request) {
        co_await host_->clock().sleep_for(1s);
        co_return request;
    }
    static Task<void> call(Host* from, std::string address, std::string method, bool* good) {
        const TimePoint deadline = from->clock().now() + 3s;
        auto peer = co_await from->dial(std::move(address), deadline);
        if (!peer) co_return;
        co_await call_known(from, *peer, std::move(method), good);
    }
    static Task<void> call_known(Host* from, PeerId callee, std::string method, bool* good) {
        const TimePoint deadline = from->clock().now() + 3s;
        Bytes words(700, 1);
        auto answer = co_await from->call(callee, std::move(method), std::move(words), deadline);
        *good = answer.has_value();
    }
    HostOptions stranger_over(runtime::Network& network) {
        return {.executor = world_.executor(),
                .clock = stranger_node_.clock(),
                .network = network,
                .random = Random(2),
                .identity = security::Identity::from_seed(Bytes(32, 2)).value(),
                .listen = {},
                .announce = {}};
    }
    // A call of "wait" over a connection that carries so many bytes; whether it was answered.
    bool call_cut_off(std::size_t bytes) {
        CuttingNetwork network(stranger_node_.network(), bytes, GetParam());
        const auto stranger = make_host(stranger_over(network)).value();
        bool good = false;
        world_.run_task(call(stranger.get(), host_->addresses().at(0), "wait", &good));
        // While the stranger's end is still there and says nothing more.
        EXPECT_TRUE(
            world_.run_until([&] { return host_->connected_peers().empty() || good; }, 2min))
            << "after " << bytes << " bytes";
        world_.run_task(stranger->stop());
        return good;
    }
    bool serves_others() {
        const auto other = make_host(simulated_host(world_, other_node_, 3)).value();
        bool good = false;
        world_.run_task(call(other.get(), host_->addresses().at(0), "echo", &good));
        world_.run_task(other->stop());
        return good;
    }

    sim::World world_{11};
    sim::SimNode& host_node_ = world_.add_node({});
    sim::SimNode& stranger_node_ = world_.add_node({});
    sim::SimNode& other_node_ = world_.add_node({});
    std::unique_ptr<Host> host_;
};

INSTANTIATE_TEST_SUITE_P(By,
                         CutOffTest,
                         ::testing::Values(End::reset, End::silence),
                         [](const auto& end) {
                             return end.param == End::reset ? "reset" : "silence";
                         });

TEST_P(CutOffTest, in_any_state_a_stranger_leaves_nothing_behind) {
    constexpr std::size_t step =
        13;  // coprime to all sizes of frames: every stage is met somewhere
    constexpr std::size_t bytes_max = 20'000;
    std::size_t answered_after = 0;
    for (std::size_t bytes = 1; answered_after == 0 && bytes < bytes_max; bytes += step)
        if (call_cut_off(bytes)) answered_after = bytes;
    EXPECT_GT(answered_after, 1500u) << "handshake, identify and a call of 700 bytes";
    EXPECT_TRUE(serves_others());
    EXPECT_TRUE(world_.run_until([&] { return host_->connected_peers().empty(); }, 2min));
}

// Long before the next ping would be due.
TEST_P(CutOffTest, a_way_that_goes_dead_is_given_up_soon_after_a_call_that_is_not_answered) {
    CuttingNetwork network(stranger_node_.network(), 1u << 20, GetParam());
    const auto stranger = make_host(stranger_over(network)).value();
    bool good = false;
    world_.run_task(call(stranger.get(), host_->addresses().at(0), "echo", &good));
    ASSERT_TRUE(good);
    network.cut_now();
    const TimePoint before = stranger->clock().now();
    world_.run_task(call_known(stranger.get(), host_->id(), "echo", &good));
    EXPECT_FALSE(good);
    EXPECT_TRUE(world_.run_until([&] { return stranger->connected_peers().empty(); }, 2min));
    EXPECT_LE(stranger->clock().now() - before, 3s + transport::keep_alive_answer_max + 100ms);
    world_.run_task(stranger->stop());
}

}  // namespace
}  // namespace dedloc::p2p
