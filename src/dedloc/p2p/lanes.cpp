#include "dedloc/p2p/lanes.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"

namespace dedloc::p2p {

// Set when all lanes are there, or when it is given up.
struct Lanes::Bundling {
    Bundling(std::uint8_t count, runtime::Executor executor)
        : lanes(count), done(std::move(executor)) {}
    std::vector<std::unique_ptr<runtime::Connection>> lanes;
    std::size_t missing() const {
        return static_cast<std::size_t>(std::count(lanes.begin(), lanes.end(), nullptr));
    }
    runtime::Event done;
};

// An accepted lane that waits for its siblings. When it has to go, they need not wait any longer.
class Lanes::BundlingWait {
  public:
    BundlingWait(Lanes& lanes,
                 const transport::LaneGreeting& greeting,
                 std::shared_ptr<Bundling> bundling)
        : lanes_(lanes), bundle_(greeting.bundle), bundling_(std::move(bundling)) {}
    ~BundlingWait() {
        if (bundling_->done.is_set()) return;
        lanes_.bundlings_.erase(bundle_);
        bundling_->done.set();
    }
    BundlingWait(const BundlingWait&) = delete;
    BundlingWait& operator=(const BundlingWait&) = delete;

  private:
    Lanes& lanes_;
    std::array<std::uint8_t, 16> bundle_;
    std::shared_ptr<Bundling> bundling_;
};

ConnectionPtr Lanes::to(const PeerId& peer) const {
    const auto found = bundles_.find(peer);
    if (found == bundles_.end() || !found->second.current) return nullptr;
    return found->second.current->is_usable() ? found->second.current : nullptr;
}

std::size_t Lanes::count_to(const PeerId& peer) const {
    const ConnectionPtr connection = to(peer);
    return connection ? connection->origin().lanes : 1;
}

TimePoint Lanes::last_use(const PeerId& peer) const {
    TimePoint last;
    if (const auto found = bundles_.find(peer); found != bundles_.end())
        for (const ConnectionPtr& bundle : found->second.all)
            last = std::max(last, bundle->used_at());
    return last;
}

std::vector<ConnectionPtr> Lanes::all() const {
    std::vector<ConnectionPtr> all;
    for (const auto& [peer, bundles] : bundles_)
        all.insert(all.end(), bundles.all.begin(), bundles.all.end());
    return all;
}

void Lanes::consider(const ConnectionPtr& busy) {
    const PeerId& peer = busy->remote();
    const ConnectionPtr main = table_.direct(peer);
    if (parts_.closing || !main || !main->is_dialler() || main->origin().path != Path::direct ||
        !main->offers(std::string(transport::lane_protocol)))
        return;
    const auto round_trip = main->distance();
    if (!round_trip) return;
    const ConnectionPtr now = to(peer);
    const double rate = std::max(main->bytes_per_s_peak(), now ? now->bytes_per_s_peak() : 0.0);
    const std::size_t wanted = transport::lanes_wanted(rate, *round_trip);
    if (wanted < 2 || wanted <= count_to(peer)) return;
    Bundles& bundles = bundles_[peer];
    if (bundles.opening || parts_.now() < bundles.not_before) return;
    bundles.opening = true;
    parts_.scope.spawn("p2p lanes", open_bundle(main, wanted));
}

Task<void> Lanes::open_lane(runtime::SocketAddress address,
                            transport::LaneGreeting greeting,
                            std::shared_ptr<Bundling> bundling) {
    const TimePoint deadline = parts_.now() + transport::upgrade_max;
    auto raw = co_await parts_.options.network.connect(address, deadline);
    if (!raw) co_return;
    auto lane = co_await transport::greet_lane(*std::move(raw), greeting, parts_.clock());
    if (lane) bundling->lanes[greeting.index] = *std::move(lane);
}

Task<void> Lanes::open_bundle(ConnectionPtr main, std::size_t count) {
    const PeerId peer = main->remote();
    auto bundling =
        std::make_shared<Bundling>(static_cast<std::uint8_t>(count), parts_.options.executor);
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
            std::move(bundling->lanes), memory_, parts_.options.executor, parts_.scope);
        transport::LaneBundle* const bundle = lanes.get();
        auto secured = co_await transport::upgrade_dialled(std::move(lanes),
                                                           parts_.options.upgrades,
                                                           peer,
                                                           parts_.clock(),
                                                           transport::Opening::ask);
        made = secured && add_bundle(*std::move(secured), bundle);
    }
    Bundles& bundles = bundles_[peer];
    bundles.opening = false;
    bundles.not_before = parts_.now() + (made ? Duration(0) : transport::lane_retry_pause);
    if (!bundles.current && bundles.all.empty() && !table_.direct(peer)) bundles_.erase(peer);
}

Task<void> Lanes::take(transport::SecureConnection accepted) {
    const transport::LaneGreeting greeting = *accepted.lane;
    const auto found = bundlings_.find(greeting.bundle);
    if (found == bundlings_.end() && bundlings_.size() >= transport::lane_bundles_pending_max)
        co_return;
    std::shared_ptr<Bundling> bundling =
        found != bundlings_.end()
            ? found->second
            : std::make_shared<Bundling>(greeting.count, parts_.options.executor);
    bundlings_[greeting.bundle] = bundling;
    const bool fits = bundling->lanes.size() == greeting.count && !bundling->lanes[greeting.index];
    if (!fits) co_return;
    bundling->lanes[greeting.index] = std::move(accepted.raw);
    if (bundling->missing() > 0) {
        const BundlingWait wait(*this, greeting, bundling);
        const TimePoint until = parts_.now() + transport::negotiation_max;
        (void)co_await bundling->done.wait_until(parts_.clock(), until);
        co_return;
    }
    bundling->done.set();
    bundlings_.erase(greeting.bundle);
    auto lanes = transport::make_lane_bundle(
        std::move(bundling->lanes), memory_, parts_.options.executor, parts_.scope);
    transport::LaneBundle* const bundle = lanes.get();
    auto secured = co_await transport::upgrade_accepted(
        std::move(lanes), parts_.options.upgrades, parts_.clock());
    if (secured && !secured->lane) (void)add_bundle(*std::move(secured), bundle);
}

// `bundle` is what lies under `secured`.
bool Lanes::add_bundle(transport::SecureConnection secured, transport::LaneBundle* bundle) {
    const PeerId peer = secured.remote;
    const ConnectionPtr main = table_.direct(peer);
    if (parts_.closing || !main) return false;
    // Lanes are only speed: who has used a connection of late keeps it.
    if (!ask_(bundle->lanes(), transport::lane_room_unused_min) || main->is_closed()) return false;
    bundle->trust();
    Origin origin;
    origin.lanes = bundle->lanes();
    auto connection = parts_.make_connection(std::move(secured), std::move(origin));
    connection->set_protocols(main->protocols());
    PeerConnection* const raw = connection.get();
    connection->on_closed = [this, raw](const Error&) { remove_bundle(raw); };
    table_.count_lanes(bundle->lanes());
    Bundles& bundles = bundles_[peer];
    const ConnectionPtr before = std::exchange(bundles.current, connection);
    bundles.all.push_back(connection);
    connection->start(parts_.scope);
    if (before && before->is_usable())
        parts_.scope.spawn("p2p drain", table_.drain(before, connection));
    log(LogLevel::debug, "p2p", "{} lanes to {}", connection->origin().lanes, peer.short_text());
    return true;
}

void Lanes::remove_bundle(const PeerConnection* connection) {
    const auto found = bundles_.find(connection->remote());
    if (found == bundles_.end()) return;
    Bundles& bundles = found->second;
    const auto gone = std::erase_if(
        bundles.all, [&](const ConnectionPtr& one) { return one.get() == connection; });
    table_.uncount_lanes(gone * connection->origin().lanes);
    if (bundles.current.get() == connection) bundles.current = nullptr;
    if (bundles.all.empty() && !bundles.opening) bundles_.erase(found);
}

void Lanes::close(const PeerId& peer, const Error& reason) {
    const auto found = bundles_.find(peer);
    if (found == bundles_.end()) return;
    const std::vector<ConnectionPtr> all = found->second.all;
    if (all.empty() && !found->second.opening) bundles_.erase(found);
    for (const ConnectionPtr& one : all) one->close(reason);
}

}  // namespace dedloc::p2p
