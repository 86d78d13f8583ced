#include "dedloc/collab/discovery.h"

#include "dedloc/base/log.h"
#include "dedloc/security/hash.h"

namespace dedloc::collab {
namespace {

// Peers in one slot: beyond the first number slots double, below the second they halve.
constexpr std::size_t slot_peers_max = 48;
constexpr std::size_t slot_peers_min = 12;
constexpr std::uint32_t slots_max = 1024;
constexpr Duration answer_patience = 20s;

dht::DhtOptions dht_options(const DiscoveryOptions& options) {
    dht::DhtOptions dht;
    dht.client_mode = options.client_mode;
    return dht;
}

}  // namespace

Discovery::Discovery(runtime::Node node,
                     p2p::Host& host,
                     const security::Signer& signer,
                     const security::Verifier& verifier,
                     const Digest& run,
                     Membership& membership,
                     DiscoveryOptions options)
    : node_(node),
      host_(host),
      signer_(signer),
      run_(run),
      membership_(membership),
      options_(options),
      dht_(host, verifier, dht_options(options)),
      scope_(node.executor) {}

Discovery::~Discovery() = default;

void Discovery::start() {
    dht_.start();
    scope_.spawn("publish our status in the DHT", publish_loop());
    scope_.spawn("read statuses in the DHT", read_loop());
}

Task<void> Discovery::stop(bool withdraw) {
    co_await scope_.stop();
    if (withdraw && published_) {
        const TimePoint deadline = node_.clock.now() + 2s;
        const WallSeconds soon = node_.clock.wall_now() + options_.lives_s + 1;
        Bytes nothing;
        (void)co_await dht_.store_signed(
            signer_, key(own_slot()), std::move(nothing), soon, deadline);
    }
    co_await dht_.stop();
}

dht::DhtId Discovery::key(std::uint32_t slot) const {
    const std::string name = fmt::format("{}/peers/{}/{}", run_.hex(), slots_, slot);
    return dht::DhtId::of_bytes(as_bytes(name));
}

std::uint32_t Discovery::own_slot() const {
    return security::sha256(host_.id().bytes()).bytes[0] % slots_;
}

Task<void> Discovery::publish_loop() {
    for (;;) {
        const TimePoint deadline = node_.clock.now() + answer_patience;
        if (!published_) {
            std::vector<PeerId> peers = host_.connected_peers();
            (void)co_await dht_.bootstrap(std::move(peers), deadline);
        }
        Bytes payload = membership_.own_signed_status();
        const WallSeconds expires = node_.clock.wall_now() + options_.lives_s;
        const auto stored = co_await dht_.store_signed(
            signer_, key(own_slot()), std::move(payload), expires, deadline);
        published_ = published_ || stored.has_value();
        co_await node_.clock.sleep_for(published_ ? options_.publish_every : Duration(3s));
    }
}

Task<void> Discovery::read_loop() {
    std::uint32_t slot = 0;
    for (;;) {
        co_await node_.clock.sleep_for(options_.read_every);
        // Every other read is of our own slot, which tells how many slots there should be.
        co_await read_slot(own_slot());
        slot = (slot + 1) % slots_;
        if (slot != own_slot()) co_await read_slot(slot);
    }
}

Task<void> Discovery::read_slot(std::uint32_t slot) {
    const TimePoint deadline = node_.clock.now() + answer_patience;
    const auto found = co_await dht_.get(key(slot), dht::Freshness::latest, deadline);
    if (!found || !found->has_value()) co_return;
    const std::vector<dht::SignedEntry> entries = dht::signed_entries(**found);
    for (const dht::SignedEntry& entry : entries)
        if (entry.signer != host_.id() && !entry.payload.empty()) membership_.learn(entry.payload);
    if (slot != own_slot()) co_return;
    if (entries.size() > slot_peers_max && slots_ < slots_max) slots_ *= 2;
    if (entries.size() < slot_peers_min && slots_ > 1) slots_ /= 2;
}

}  // namespace dedloc::collab
