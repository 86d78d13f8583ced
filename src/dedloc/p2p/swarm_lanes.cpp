// The part of Swarm that deals with lanes: who gets a bundle, and how its connections find each
// other again at the other end (lane_bundle.h).
//
// The side that dialled the ordinary connection opens the bundle, as only it is sure to know an
// address; both use it. A bundle that is too thin for what was measured is replaced by a thicker
// one and ends as a twin does.

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/p2p/swarm_parts.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"

namespace dedloc::p2p {

// Set when all lanes are there, or when it is given up.
struct Swarm::Bundling {
    Bundling(std::uint8_t count, runtime::Executor executor)
        : lanes(count), done(std::move(executor)) {}
    std::vector<std::unique_ptr<runtime::Connection>> lanes;
    std::size_t missing() const {
        return static_cast<std::size_t>(std::count(lanes.begin(), lanes.end(), nullptr));
    }
    runtime::Event done;
};

// An accepted lane that waits for its siblings. When it has to go, they need not wait any longer.
class Swarm::BundlingWait {
  public:
    BundlingWait(Swarm& swarm,
                 const transport::LaneGreeting& greeting,
                 std::shared_ptr<Bundling> bundling)
        : swarm_(swarm), bundle_(greeting.bundle), bundling_(std::move(bundling)) {}
    ~BundlingWait() {
        if (bundling_->done.is_set()) return;
        swarm_.bundlings_.erase(bundle_);
        bundling_->done.set();
    }
    BundlingWait(const BundlingWait&) = delete;
    BundlingWait& operator=(const BundlingWait&) = delete;

  private:
    Swarm& swarm_;
    std::array<std::uint8_t, 16> bundle_;
    std::shared_ptr<Bundling> bundling_;
};

Swarm::ConnectionPtr Swarm::bulk(const PeerId& peer) const {
    const auto found = bundles_.find(peer);
    if (found == bundles_.end() || !found->second.current) return nullptr;
    return found->second.current->is_usable() ? found->second.current : nullptr;
}

std::size_t Swarm::lanes_to(const PeerId& peer) const {
    const ConnectionPtr connection = bulk(peer);
    return connection ? connection->origin().lanes : 1;
}

void Swarm::consider_lanes(const ConnectionPtr& busy) {
    const PeerId& peer = busy->remote();
    const ConnectionPtr main = direct(peer);
    if (closing_ || !main || !main->is_dialler() || main->origin().path != Path::direct ||
        !main->offers(std::string(transport::lane_protocol)))
        return;
    const auto round_trip = main->distance();
    if (!round_trip) return;
    const ConnectionPtr now = bulk(peer);
    const double rate = std::max(main->bytes_per_s_peak(), now ? now->bytes_per_s_peak() : 0.0);
    const std::size_t wanted = transport::lanes_wanted(rate, *round_trip);
    if (wanted < 2 || wanted <= lanes_to(peer)) return;
    Bundles& bundles = bundles_[peer];
    if (bundles.opening || options_.clock.now() < bundles.not_before) return;
    bundles.opening = true;
    scope_.spawn("p2p lanes", open_bundle(main, wanted));
}

Task<void> Swarm::open_lane(runtime::SocketAddress address,
                            transport::LaneGreeting greeting,
                            std::shared_ptr<Bundling> bundling) {
    const TimePoint deadline = options_.clock.now() + transport::upgrade_max;
    auto raw = co_await options_.network.connect(address, deadline);
    if (!raw) co_return;
    auto lane = co_await transport::greet_lane(*std::move(raw), greeting, options_.clock);
    if (lane) bundling->lanes[greeting.index] = *std::move(lane);
}

Task<void> Swarm::open_bundle(ConnectionPtr main, std::size_t count) {
    const PeerId peer = main->remote();
    auto bundling = std::make_shared<Bundling>(static_cast<std::uint8_t>(count), options_.executor);
    transport::LaneGreeting greeting;
    greeting.count = static_cast<std::uint8_t>(count);
    security::secure_random(greeting.bundle);
    std::vector<Task<void>> opening;
    for (std::size_t i = 0; i < count; ++i) {
        greeting.index = static_cast<std::uint8_t>(i);
        opening.push_back(open_lane(main->remote_address(), greeting, bundling));
    }
    co_await runtime::all_of(std::move(opening));
    bool made = false;
    if (bundling->missing() == 0) {
        auto lanes = transport::make_lane_bundle(
            std::move(bundling->lanes), lane_memory_, options_.executor, scope_);
        transport::LaneBundle* const bundle = lanes.get();
        auto secured = co_await transport::upgrade_dialled(
            std::move(lanes), options_.upgrades, peer, options_.clock, transport::Opening::ask);
        made = secured && add_bundle(*std::move(secured), bundle);
    }
    Bundles& bundles = bundles_[peer];
    bundles.opening = false;
    bundles.not_before = options_.clock.now() + (made ? Duration(0) : transport::lane_retry_pause);
    if (!bundles.current && bundles.all.empty() && !direct(peer)) bundles_.erase(peer);
}

// An accepted lane waits here for its siblings; the last one to come goes on for all.
Task<void> Swarm::take_lane(transport::SecureConnection accepted) {
    const transport::LaneGreeting greeting = *accepted.lane;
    const auto found = bundlings_.find(greeting.bundle);
    if (found == bundlings_.end() && bundlings_.size() >= transport::lane_bundles_pending_max)
        co_return;
    std::shared_ptr<Bundling> bundling =
        found != bundlings_.end() ? found->second
                                  : std::make_shared<Bundling>(greeting.count, options_.executor);
    bundlings_[greeting.bundle] = bundling;
    const bool fits = bundling->lanes.size() == greeting.count && !bundling->lanes[greeting.index];
    if (!fits) co_return;
    bundling->lanes[greeting.index] = std::move(accepted.raw);
    if (bundling->missing() > 0) {
        const BundlingWait wait(*this, greeting, bundling);
        const TimePoint until = options_.clock.now() + transport::negotiation_max;
        (void)co_await bundling->done.wait_until(options_.clock, until);
        co_return;
    }
    bundling->done.set();
    bundlings_.erase(greeting.bundle);
    auto lanes = transport::make_lane_bundle(
        std::move(bundling->lanes), lane_memory_, options_.executor, scope_);
    transport::LaneBundle* const bundle = lanes.get();
    auto secured =
        co_await transport::upgrade_accepted(std::move(lanes), options_.upgrades, options_.clock);
    if (secured && !secured->lane) (void)add_bundle(*std::move(secured), bundle);
}

// `bundle` is what lies under `secured`.
bool Swarm::add_bundle(transport::SecureConnection secured, transport::LaneBundle* bundle) {
    const PeerId peer = secured.remote;
    const ConnectionPtr main = direct(peer);
    if (closing_ || !main) return false;
    // Lanes are only speed: who has used a connection of late keeps it.
    if (!make_room_for(bundle->lanes(), transport::lane_room_unused_min) || main->is_closed())
        return false;
    bundle->trust();
    Origin origin;
    origin.lanes = bundle->lanes();
    auto connection = make_connection(std::move(secured), std::move(origin));
    connection->set_protocols(main->protocols());
    PeerConnection* const raw = connection.get();
    connection->on_closed = [this, raw](const Error&) { remove_bundle(raw); };
    connections_count_ += bundle->lanes();
    Bundles& bundles = bundles_[peer];
    const ConnectionPtr before = std::exchange(bundles.current, connection);
    bundles.all.push_back(connection);
    connection->start(scope_);
    if (before && before->is_usable()) scope_.spawn("p2p drain", drain(before, connection));
    log(LogLevel::debug, "p2p", "{} lanes to {}", connection->origin().lanes, peer.short_text());
    return true;
}

void Swarm::remove_bundle(const PeerConnection* connection) {
    const auto found = bundles_.find(connection->remote());
    if (found == bundles_.end()) return;
    Bundles& bundles = found->second;
    const auto gone = std::erase_if(
        bundles.all, [&](const ConnectionPtr& one) { return one.get() == connection; });
    connections_count_ -= gone * connection->origin().lanes;
    if (bundles.current.get() == connection) bundles.current = nullptr;
    if (bundles.all.empty() && !bundles.opening) bundles_.erase(found);
}

// Without the ordinary connection nobody would notice that the peer has gone.
void Swarm::close_bundles(const PeerId& peer, const Error& reason) {
    const auto found = bundles_.find(peer);
    if (found == bundles_.end()) return;
    const std::vector<ConnectionPtr> all = found->second.all;
    if (all.empty() && !found->second.opening) bundles_.erase(found);
    for (const ConnectionPtr& one : all) one->close(reason);
}

}  // namespace dedloc::p2p
