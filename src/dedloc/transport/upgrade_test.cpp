// Upgrades between two machines of the simulator: what is agreed on, with whom, in which order.
#include "dedloc/transport/upgrade.h"

#include <gtest/gtest.h>

#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/together.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/multistream.h"
#include "dedloc/wire/yamux_frame.h"

namespace dedloc::transport {
namespace {

using security::noise_protocol;
using security::tls_protocol;

const std::string tls(tls_protocol);
const std::string noise(noise_protocol);

using Outcome = Result<SecureConnection>;
Outcome not_run() { return Error(ErrorKind::cancelled, "did not run"); }

class Upgrade : public ::testing::Test {
  protected:
    void SetUp() override {
        dialler_ = &world_.add_node({});
        listener_ = &world_.add_node({});
    }

    static std::shared_ptr<const UpgradeContext> context(std::uint8_t seed,
                                                         SecuritySettings settings) {
        const auto identity = security::Identity::from_seed(Bytes(32, seed)).value();
        return UpgradeContext::make(identity, std::move(settings)).value();
    }
    PeerId id(std::uint8_t seed) const {
        return security::Identity::from_seed(Bytes(32, seed)).value().id();
    }

    Task<void> dial(SecuritySettings settings, PeerId expected, Opening opening) {
        runtime::SocketAddress socket{.host = listener_->ip(), .port = 4001};
        auto raw = co_await dialler_->network().connect(socket, TimePoint::never());
        auto ours = context(1, std::move(settings));
        begun_ = dialler_->clock().now();
        dialled_ = co_await upgrade_dialled(
            *std::move(raw), std::move(ours), expected, dialler_->clock(), opening);
        took_ = dialler_->clock().now() - begun_;
    }
    Task<void> accept(SecuritySettings settings) {
        runtime::SocketAddress socket{.host = "0.0.0.0", .port = 4001};
        auto listening = listener_->network().listen(socket);
        const std::shared_ptr<runtime::Listener> listener = *std::move(listening);
        auto raw = co_await listener->accept();
        auto ours = context(2, std::move(settings));
        accepted_ = co_await upgrade_accepted(*std::move(raw), std::move(ours), listener_->clock());
    }
    void run(SecuritySettings dialler,
             SecuritySettings listener,
             Opening opening,
             std::optional<PeerId> expected = std::nullopt) {
        std::vector<Task<void>> tasks;
        tasks.push_back(accept(std::move(listener)));
        tasks.push_back(dial(std::move(dialler), expected.value_or(id(2)), opening));
        world_.run_task(runtime::all_of(std::move(tasks)));
    }

    void expect_agreed(const std::string& security, std::string_view muxer) {
        ASSERT_TRUE(dialled_) << dialled_.error().message();
        ASSERT_TRUE(accepted_) << accepted_.error().message();
        EXPECT_EQ(dialled_->remote, id(2));
        EXPECT_EQ(accepted_->remote, id(1));
        EXPECT_TRUE(dialled_->is_dialler);
        EXPECT_FALSE(accepted_->is_dialler);
        EXPECT_EQ(dialled_->security, security);
        EXPECT_EQ(accepted_->security, security);
        EXPECT_EQ(dialled_->channel->protocol(), muxer);
        EXPECT_EQ(accepted_->channel->protocol(), muxer);
        // No byte of a negotiation is left over where yamux will begin.
        EXPECT_EQ(dialled_->channel->plain_bytes(), 0u);
        EXPECT_EQ(accepted_->channel->plain_bytes(), 0u);
    }

    sim::World world_{5};
    sim::SimNode* dialler_ = nullptr;
    sim::SimNode* listener_ = nullptr;
    Outcome dialled_ = not_run();
    Outcome accepted_ = not_run();
    TimePoint begun_;
    Duration took_{0};
};

TEST_F(Upgrade, takes_the_diallers_first_protocol_that_the_listener_speaks) {
    const std::vector<std::vector<std::string>> orders = {
        {tls, noise}, {noise, tls}, {tls}, {noise}};
    for (const auto& dialler : orders) {
        for (const auto& listener : orders) {
            std::string wanted;
            for (const auto& protocol : dialler)
                if (wanted.empty() &&
                    std::find(listener.begin(), listener.end(), protocol) != listener.end())
                    wanted = protocol;
            run({.protocols = dialler}, {.protocols = listener}, Opening::ask);
            if (!wanted.empty()) {
                expect_agreed(wanted, wire::yamux_protocol);
                continue;
            }
            ASSERT_FALSE(dialled_);
            EXPECT_EQ(dialled_.error().kind(), ErrorKind::unsupported);
            EXPECT_FALSE(accepted_);
        }
    }
}

TEST_F(Upgrade, a_right_guess_saves_a_round_trip_and_a_wrong_one_is_unsupported) {
    for (const std::string& protocol : {tls, noise}) {
        run({.protocols = {protocol}}, {}, Opening::ask);
        expect_agreed(protocol, wire::yamux_protocol);
        const Duration asked = took_;
        run({.protocols = {protocol}}, {}, Opening::guess);
        expect_agreed(protocol, wire::yamux_protocol);
        EXPECT_LT(took_, asked);
    }
    run({.protocols = {tls, noise}}, {.protocols = {noise}}, Opening::guess);
    ASSERT_FALSE(dialled_);
    EXPECT_EQ(dialled_.error().kind(), ErrorKind::unsupported);
}

TEST_F(Upgrade, the_muxer_is_agreed_on_inside_where_one_side_does_not_do_it_in_the_handshake) {
    for (const std::string& protocol : {tls, noise}) {
        for (const auto& [dialler, listener] :
             {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}}) {
            for (const Opening opening : {Opening::guess, Opening::ask}) {
                run({.protocols = {protocol}, .early_muxer = dialler},
                    {.protocols = {protocol}, .early_muxer = listener},
                    opening);
                expect_agreed(protocol, security::multistream_follows);
            }
        }
    }
}

TEST_F(Upgrade, whoever_answers_instead_of_the_peer_that_was_dialled_is_refused) {
    for (const std::string& protocol : {tls, noise}) {
        run({.protocols = {protocol}}, {}, Opening::guess, id(3));
        ASSERT_FALSE(dialled_);
        EXPECT_EQ(dialled_.error().kind(), ErrorKind::conflict);
        EXPECT_FALSE(accepted_);
        run({.protocols = {protocol}}, {}, Opening::guess, PeerId());  // whoever answers
        expect_agreed(protocol, wire::yamux_protocol);
    }
}

TEST_F(Upgrade, settings_that_name_no_protocol_or_a_strange_one_are_bad_input) {
    const auto identity = security::Identity::from_seed(Bytes(32, 1)).value();
    for (const std::vector<std::string>& protocols :
         {std::vector<std::string>{}, std::vector<std::string>{tls, "/plaintext/2.0.0"}}) {
        const auto made = UpgradeContext::make(identity, {.protocols = protocols});
        ASSERT_FALSE(made);
        EXPECT_EQ(made.error().kind(), ErrorKind::bad_input);
    }
}

Task<void> call_echo(p2p::Host* host, PeerId peer, Result<Bytes>* answer) {
    const TimePoint deadline = host->clock().now() + 10s;
    Bytes request = Bytes(300000, 7);
    *answer = co_await host->call(peer, "echo", std::move(request), deadline);
}

// Hosts find a way for every preference: the dialler's wrong guess costs a second connection.
TEST_F(Upgrade, hosts_of_every_taste_reach_each_other) {
    const std::vector<SecuritySettings> tastes = {{},
                                                  {.protocols = {noise}},
                                                  {.protocols = {noise, tls}},
                                                  {.early_muxer = false},
                                                  {.protocols = {noise}, .early_muxer = false}};
    std::uint8_t seed = 10;
    for (const auto& theirs : tastes) {
        std::vector<std::unique_ptr<p2p::Host>> hosts;
        for (const auto& settings : {SecuritySettings(), theirs}) {
            sim::SimNode& node = world_.add_node({});
            p2p::HostOptions options = p2p::simulated_host(world_, node, seed);
            options.security = settings;
            ++seed;
            hosts.push_back(p2p::make_host(std::move(options)).value());
            hosts.back()->handle_call("echo", p2p::echo);
        }
        for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 0}}) {
            p2p::Host& dialler = *hosts[static_cast<std::size_t>(from)];
            p2p::Host& other = *hosts[static_cast<std::size_t>(to)];
            dialler.add_addresses(other.id(), other.addresses());
            Result<Bytes> answer = Error(ErrorKind::cancelled, "did not run");
            world_.run_task(call_echo(&dialler, other.id(), &answer));
            ASSERT_TRUE(answer) << answer.error().message();
            EXPECT_EQ(answer->size(), 300000u);
            dialler.disconnect(other.id());
            world_.run_for(1s);
        }
        for (const auto& host : hosts) world_.run_task(host->stop());
    }
}

}  // namespace
}  // namespace dedloc::transport
