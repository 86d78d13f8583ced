#include "dedloc/sim/wire.h"

#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/sim/process.h"

namespace dedloc::sim {

namespace {

// TCP's smallest retransmission timeout on Linux.
constexpr Duration retransmission_min{200'000'000};
constexpr int losses_in_a_row_max = 6;
// Chance that what lost a message (a changed route, a NAT that forgot) breaks the connection.
constexpr double break_chance = 0.002;
constexpr std::size_t packet_bytes = 1400;
// The model leaves out what TCP's congestion control makes of many losses; one message is not lost
// more than this many times over.
constexpr std::size_t packets_counted_max = 16;

Duration time_for(std::size_t bytes, double bytes_per_s) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / bytes_per_s));
}

struct OnLine {
    TimePoint begin;
    TimePoint end;
};

// When these bytes go over a machine's line: after all that it was given before, and counted.
template <typename Line>
OnLine put_on(Line& line, TimePoint now, std::size_t bytes, double bytes_per_s) {
    const TimePoint begin = std::max(now, line.bulk_free);
    line.bulk_free = begin + time_for(bytes, bytes_per_s);
    line.bytes += bytes;
    return {begin, line.bulk_free};
}

}  // namespace

Wire::Wire(World& world, Process& dialler, Process& acceptor)
    : world_(world),
      id_(world.next_wire_id()),
      process_{&dialler, &acceptor},
      pair_{&world.pair(dialler.node.index(), acceptor.node.index()),
            &world.pair(acceptor.node.index(), dialler.node.index())} {}

World::Pair& Wire::pair_from(int side) const { return *pair_[side]; }

Duration Wire::latency_from(int side) const {
    return pair_from(side).link.latency + process_[0]->node.weather_latency_ +
           process_[1]->node.weather_latency_;
}

Duration Wire::round_trip() const { return latency_from(0) + latency_from(1); }

bool Wire::healthy() const {
    const std::size_t a = process_[0]->node.index();
    const std::size_t b = process_[1]->node.index();
    if (!world_.path_open(a, b) || !world_.path_open(b, a)) return false;
    for (const Process* process : process_)
        if (process->frozen || !process->node.machine_up_) return false;
    return true;
}

void Wire::open(int side) {
    if (was_open_[side] || gone_) return;
    was_open_[side] = true;
    open_[side] = true;
    if (!direction_[1 - side].stalled.empty())
        world_.schedule(world_.now(), process_[side], [self = shared_from_this(), side] {
            self->flush(1 - side);
        });
}

void Wire::send(int side, PacketPtr packet) {
    if (!open_[side]) return;
    Direction& direction = direction_[side];
    const std::size_t from = process_[side]->node.index();
    const std::size_t to = process_[1 - side]->node.index();
    if (!direction.stalled.empty() || !world_.path_open(from, to)) {
        direction.stalled.push_back(std::move(packet));
        return;
    }
    transmit(side, std::move(packet));
}

// The delay that loss and jitter add, or nothing if the connection breaks of it.
std::optional<Duration> Wire::draw_delay(int side, bool small) {
    const LinkOptions& link = pair_from(side).link;
    Random& random = world_.link_random();
    Duration delay{0};
    if (link.jitter > Duration::zero()) delay += random.duration(Duration::zero(), link.jitter);
    double keep = 1 - link.loss;
    for (const Process* process : process_) keep *= 1 - process->node.weather_loss_;
    if (keep >= 1) return delay;
    Duration timeout = std::max(retransmission_min, 2 * round_trip());
    for (int losses = 1; random.chance(1 - keep); ++losses) {
        ++world_.mutable_stats().messages_lost;
        if (losses > losses_in_a_row_max || random.chance(break_chance)) return std::nullopt;
        // Later packets of a bulk message tell the sender at once what is missing.
        delay += small ? timeout : round_trip();
        timeout *= 2;
    }
    return delay;
}

void Wire::transmit(int side, PacketPtr packet) {
    const std::size_t bytes = world_.bytes_on_line(packet->method, packet->payload.size());
    const bool small = bytes <= small_bytes_max;
    Duration delay{0};
    const std::size_t draws =
        small ? 1 : std::min(packets_counted_max, 1 + bytes / (packet_bytes * 16));
    for (std::size_t i = 0; i < draws; ++i) {
        const auto drawn = draw_delay(side, small);
        if (!drawn) {
            reset_from_network("the connection was reset on the way");
            return;
        }
        delay = std::max(delay, *drawn);
    }
    if (delay > world_.options().keepalive) give_up_later();
    if (!small) {
        transmit_bulk(side, std::move(packet), delay);
        return;
    }
    SimNode& from = process_[side]->node;
    SimNode& to = process_[1 - side]->node;
    World::Pair& link = pair_from(side);
    const TimePoint now = world_.now();
    const Duration up = time_for(bytes, from.options_.upload_bytes_per_s);
    const Duration slowest = std::max({up,
                                       time_for(bytes, link.link.bytes_per_s),
                                       time_for(bytes, to.options_.download_bytes_per_s)});
    const TimePoint start = std::max(now, from.up_.small_free);
    from.up_.small_free = start + up;
    put_on(from.up_, now, bytes, from.options_.upload_bytes_per_s);
    link.free = std::max(link.free, now) + time_for(bytes, link.link.bytes_per_s);
    Direction& direction = direction_[side];
    // In order; what is lost at the same time is sent again at the same time.
    const TimePoint arrival = std::max(
        {start + slowest + latency_from(side) + delay, direction.last_small, direction.not_before});
    if (delay > pair_from(side).link.jitter) direction.not_before = arrival;
    direction.last_small = arrival;
    world_.schedule(arrival,
                    process_[1 - side],
                    [self = shared_from_this(), side, carried = std::move(packet)]() mutable {
                        self->arrive(1 - side, std::move(carried));
                    });
}

void Wire::transmit_bulk(int side, PacketPtr packet, Duration delay) {
    const std::size_t bytes = world_.bytes_on_line(packet->method, packet->payload.size());
    SimNode& from = process_[side]->node;
    World::Pair& link = pair_from(side);
    const OnLine up = put_on(from.up_, world_.now(), bytes, from.options_.upload_bytes_per_s);
    const TimePoint link_start = std::max(up.begin, link.free);
    const Duration on_link = time_for(bytes, link.link.bytes_per_s);
    link.free = link_start + on_link;
    const TimePoint link_end = std::max(up.end, link_start + on_link);
    Direction& direction = direction_[side];
    TimePoint head = link_start + latency_from(side);
    if (head + delay < direction.not_before) delay = direction.not_before - head;
    head = head + delay;
    if (delay > link.link.jitter) direction.not_before = std::max(direction.not_before, head);
    const TimePoint sent = link_end + latency_from(side) + delay;
    // The receiver's line is shared in the order in which messages reach it, known only then.
    world_.schedule(
        head,
        nullptr,
        [self = shared_from_this(), side, sent, bytes, carried = std::move(packet)]() mutable {
            SimNode& to = self->process_[1 - side]->node;
            const OnLine down =
                put_on(to.down_, self->world_.now(), bytes, to.options_.download_bytes_per_s);
            Process* receiver = self->process_[1 - side];
            self->world_.schedule(std::max(sent, down.end),
                                  receiver,
                                  [self, side, kept = std::move(carried)]() mutable {
                                      self->arrive(1 - side, std::move(kept));
                                  });
        });
}

void Wire::arrive(int side, PacketPtr packet) {
    Direction& direction = direction_[1 - side];
    const std::size_t from = process_[1 - side]->node.index();
    const std::size_t to = process_[side]->node.index();
    if (!direction.stalled.empty() || !world_.path_open(from, to)) {
        direction.stalled.push_back(std::move(packet));
        return;
    }
    if (!was_open_[side]) {
        direction.stalled.push_back(std::move(packet));
        return;
    }
    if (!open_[side]) {
        // Nobody has this connection any more: the machine says so.
        if (!gone_ && open_[1 - side] && process_[side]->node.machine_up_)
            tell_closed(1 - side, "the other side has closed the connection", latency_from(side));
        return;
    }
    const std::size_t bytes = world_.bytes_on_line(packet->method, packet->payload.size());
    if (bytes <= small_bytes_max) {
        // Small messages take their share of the line, though they do not wait for it.
        SimNode& node = process_[side]->node;
        put_on(node.down_, world_.now(), bytes, node.options_.download_bytes_per_s);
    }
    world_.trace_message(from, to, packet->method, packet->payload);
    on_packet(side, *packet);
}

void Wire::flush(int side) {
    Direction& direction = direction_[side];
    std::deque<PacketPtr> waiting = std::move(direction.stalled);
    direction.stalled.clear();
    for (PacketPtr& packet : waiting) arrive(1 - side, std::move(packet));
}

void Wire::close(int side, const std::string& why, bool quietly) {
    if (!open_[side]) return;
    open_[side] = false;
    if (!quietly) {
        const std::size_t from = process_[side]->node.index();
        const std::size_t to = process_[1 - side]->node.index();
        // Into a partition nothing is told: the keepalive finds out.
        if (world_.path_open(from, to))
            tell_closed(1 - side, "the other side has closed the connection", latency_from(side));
    }
    closed(side, why);
}

void Wire::cut(int side, bool machine_lost) {
    open_[side] = false;
    was_open_[side] = true;
    const std::size_t from = process_[side]->node.index();
    const std::size_t to = process_[1 - side]->node.index();
    if (!machine_lost && world_.path_open(from, to))
        tell_closed(1 - side, "the other process has died", latency_from(side));
    if (!open_[1 - side]) {
        // Possibly half open: the dialler may not have heard yet that it was accepted.
        gone_ = true;
        world_.remove_wire(id_);
    }
}

void Wire::tell_closed(int side, const std::string& why, Duration after) {
    world_.schedule(world_.now() + after, process_[side], [self = shared_from_this(), side, why] {
        if (!self->open_[side]) return;
        self->open_[side] = false;
        self->closed(side, why);
    });
}

void Wire::closed(int side, const std::string& why) {
    auto self = shared_from_this();
    on_close(side, why);
    if (open_[0] || open_[1] || gone_) return;
    gone_ = true;
    for (Direction& direction : direction_) direction.stalled.clear();
    world_.remove_wire(id_);
}

void Wire::reset_from_network(const std::string& why) {
    ++world_.mutable_stats().connections_broken;
    for (int side = 0; side < 2; ++side)
        if (open_[side]) tell_closed(side, why, latency_from(1 - side));
}

// TCP waits twice as long after each loss, for minutes where the way is long; hosts do not.
void Wire::give_up_later() {
    world_.schedule(
        world_.now() + world_.options().keepalive, nullptr, [self = shared_from_this()] {
            if (self->open_[0] || self->open_[1])
                self->reset_from_network("no sign of life for too long");
        });
}

void Wire::reassess() {
    const bool good = healthy();
    if (good == healthy_) return;
    healthy_ = good;
    const std::uint64_t epoch = ++health_epoch_;
    if (good) {
        for (int side = 0; side < 2; ++side) {
            if (direction_[side].stalled.empty()) continue;
            // The next retransmission after the network is back.
            world_.schedule(world_.now() + latency_from(side) + retransmission_min,
                            nullptr,
                            [self = shared_from_this(), side] { self->flush(side); });
        }
        return;
    }
    const Duration keepalive = world_.options().keepalive;
    world_.schedule(
        world_.now() + keepalive, nullptr, [self = shared_from_this(), epoch, keepalive] {
            if (self->health_epoch_ != epoch || self->gone_) return;
            ++self->world_.mutable_stats().connections_broken;
            const std::string why =
                fmt::format("no sign of life for {:.0f} s", to_seconds(keepalive));
            for (int side = 0; side < 2; ++side)
                if (self->open_[side]) self->tell_closed(side, why, Duration::zero());
        });
}

}  // namespace dedloc::sim
