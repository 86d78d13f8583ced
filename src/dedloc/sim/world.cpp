#include "dedloc/sim/world.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <cstring>

#include "dedloc/base/check.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/sim/process.h"
#include "dedloc/sim/sim_host.h"
#include "dedloc/sim/sim_network.h"
#include "dedloc/sim/wire.h"

namespace dedloc::sim {

namespace {

constexpr Duration predicate_interval{1'000'000};
constexpr std::int64_t billion = 1'000'000'000;

// value * ppb / 1e9 without overflow, the same on every machine.
Duration share(Duration value, std::int64_t ppb) {
    const std::int64_t whole = value.count() / billion;
    const std::int64_t rest = value.count() % billion;
    return Duration(whole * ppb + rest * ppb / billion);
}

std::uint64_t hash_bytes(ByteView bytes) {
    std::uint64_t hash = 0x9ae16a3b2f90404f ^ bytes.size();
    while (bytes.size() >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data(), 8);
        hash = (hash ^ word) * 0x9ddfea08eb382d69;
        hash ^= hash >> 29;
        bytes = bytes.subspan(8);
    }
    for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
    return hash;
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// SimNode

SimNode::SimNode(World& world, std::size_t index, NodeOptions options, std::uint64_t identity_seed)
    : world_(world),
      index_(index),
      options_(std::move(options)),
      signer_(identity_seed),
      disk_content_(std::make_shared<DiskContent>()),
      drift_since_world_(world.now()),
      drift_since_local_(world.now() + options_.clock_offset),
      drift_ppb_(static_cast<std::int64_t>(options_.clock_drift * 1e9)) {
    if (options_.name.empty()) options_.name = fmt::format("n{}", index);
}

std::string SimNode::ip() const {
    return fmt::format("10.{}.{}.{}", index_ / 65025, index_ / 255 % 255, index_ % 255 + 1);
}
std::string SimNode::address() const { return fmt::format("/ip4/{}/tcp/4000", ip()); }

runtime::Node SimNode::runtime() {
    return {world_.executor(),
            process_->clock,
            process_->disk,
            process_->workers,
            process_->random.fork("user")};
}
p2p::Host& SimNode::host() { return *process_->host; }
SimDisk& SimNode::disk() { return process_->disk; }
runtime::Clock& SimNode::clock() { return process_->clock; }
runtime::Network& SimNode::network() { return *process_->network; }

bool SimNode::alive() const { return process_->alive; }
bool SimNode::frozen() const { return process_->alive && process_->frozen; }
void SimNode::kill() { die(false); }
void SimNode::lose_machine() { die(true); }

void SimNode::die(bool machine) {
    Process& process = *process_;
    if (!process.alive) return;
    process.alive = false;
    process.frozen = false;
    process.disk.disconnect();
    if (machine) machine_up_ = false;
    world_.break_off(process, machine);
    world_.reassess_wires();
    world_.note(fmt::format("{} dies", name()));
    if (on_death_) on_death_(*this);
}

void SimNode::freeze() {
    if (!process_->alive || process_->frozen) return;
    process_->frozen = true;
    world_.reassess_wires();
}

void SimNode::thaw() {
    if (!frozen()) return;
    process_->frozen = false;
    world_.reassess_wires();
    world_.release_held(*process_);
}

void SimNode::freeze_for(Duration duration) {
    freeze();
    world_.after(duration, [this, which = process_] {
        if (process_ == which) thaw();
    });
}

void SimNode::restart(bool lose_disk) {
    DEDLOC_CHECK(!alive(), "{} is still running: kill it first", name());
    DEDLOC_CHECK(process_->host->is_stopped(),
                 "the dead host of {} must be stopped before the restart",
                 name());
    if (lose_disk) {
        disk_content_ = std::make_shared<DiskContent>();
    }
    machine_up_ = true;
    ++incarnation_;
    world_.start_process(*this);
    world_.reassess_wires();
    world_.note(fmt::format("{} starts again", name()));
}

TimePoint SimNode::local_time(TimePoint world_time) const {
    const Duration passed = world_time - drift_since_world_;
    return drift_since_local_ + passed + share(passed, drift_ppb_);
}

TimePoint SimNode::world_time(TimePoint local) const {
    // The inverse of local_time, rounded up; two steps of Newton's method and a last correction.
    if (local == TimePoint::never()) return local;
    if (drift_ppb_ == 0) return drift_since_world_ + (local - drift_since_local_);
    const Duration passed = local - drift_since_local_;
    TimePoint guess = drift_since_world_ + (passed - share(passed, drift_ppb_));
    for (int i = 0; i < 3; ++i) guess = guess + (local - local_time(guess));
    while (local_time(guess) < local) guess = guess + Duration(1);
    return guess;
}

void SimNode::set_clock_drift(double drift) {
    const TimePoint local = local_time(world_.now());
    drift_since_world_ = world_.now();
    drift_since_local_ = local;
    drift_ppb_ = static_cast<std::int64_t>(drift * 1e9);
}

void SimNode::set_weather(double loss, Duration latency) {
    weather_loss_ = loss;
    weather_latency_ = latency;
}

// The bytes still before the line goes at the rate it has now; it may have had another one.
std::uint64_t SimNode::carried(Line& line, double bytes_per_s) const {
    const double seconds = std::max(0.0, to_seconds(line.bulk_free - world_.now()));
    const auto waiting = static_cast<std::uint64_t>(seconds * bytes_per_s);
    line.carried = std::max(line.carried, line.bytes - std::min(line.bytes, waiting));
    return line.carried;
}

Duration SimNode::upload_backlog() const {
    return std::max(Duration{0}, up_.bulk_free - world_.now());
}

runtime::Traffic SimNode::traffic() {
    return {carried(up_, options_.upload_bytes_per_s),
            carried(down_, options_.download_bytes_per_s)};
}

// ---------------------------------------------------------------------------------------------
// World

World::World(std::uint64_t seed, WorldOptions options)
    : seed_(seed),
      options_(options),
      random_(base::mix64(seed)),
      link_random_(random_.fork("links")),
      // One thread and no locks: nothing outside ever posts into a world.
      io_(std::make_unique<asio::io_context>(ASIO_CONCURRENCY_HINT_UNSAFE)),
      scope_(std::make_unique<runtime::Scope>(io_->get_executor())),
      trace_(base::mix64(seed ^ 0x7261636574)) {
    methods_.push_back({"", 0});
}

World::~World() {
    run_task(scope_->stop());
    for (const auto& process : processes_) {
        if (process->alive) process->node.on_death_ = nullptr;
        process->node.die(false);
        run_task(process->host->stop());
    }
    // Tasks that wait for an event now unwind: their objects are gone or about to go.
    events_.clear();
    drain();
}

SimNode& World::add_node(NodeOptions options) {
    const std::size_t index = nodes_.size();
    const std::uint64_t identity_seed = base::mix64(seed_ ^ base::mix64(index + 1));
    nodes_.push_back(
        std::unique_ptr<SimNode>(new SimNode(*this, index, std::move(options), identity_seed)));
    SimNode& added = *nodes_.back();
    nodes_by_id_.emplace(added.id(), index);
    start_process(added);
    return added;
}

void World::start_process(SimNode& node) {
    processes_.push_back(std::make_unique<Process>(*this, node, node.incarnation_));
    node.process_ = processes_.back().get();
}

SimNode& World::node(std::string_view name) {
    for (const auto& each : nodes_)
        if (each->name() == name) return *each;
    DEDLOC_CHECK(false, "the world has no node \"{}\"", name);
    return *nodes_.front();
}

SimNode* World::find(const PeerId& id) {
    const auto found = nodes_by_id_.find(id);
    return found == nodes_by_id_.end() ? nullptr : nodes_[found->second].get();
}

SimNode* World::find_address(std::string_view ip) {
    // "10.a.b.c" backwards to the index.
    unsigned parts[4] = {0, 0, 0, 0};
    std::size_t part = 0;
    for (const char letter : ip) {
        if (letter == '.') {
            if (++part > 3) return nullptr;
        } else if (letter < '0' || letter > '9' || parts[part] > 255) {
            return nullptr;
        } else {
            parts[part] = parts[part] * 10 + static_cast<unsigned>(letter - '0');
        }
    }
    if (part != 3 || parts[0] != 10 || parts[3] == 0 || parts[3] > 255 || parts[2] > 254)
        return nullptr;
    const std::size_t index =
        parts[1] * std::size_t{65025} + parts[2] * std::size_t{255} + parts[3] - 1;
    return index < nodes_.size() ? nodes_[index].get() : nullptr;
}

runtime::Executor World::executor() { return io_->get_executor(); }

EventId World::schedule(TimePoint time, Process* owner, Action action) {
    return events_.push(std::max(time, now_), owner, std::move(action));
}

void World::drain() {
    if (io_->stopped()) io_->restart();
    io_->poll();
}

bool World::step(TimePoint limit) {
    if (events_.empty() || events_.next_time() > limit) return false;
    now_ = events_.next_time();
    const EventQueue::Fired fired = events_.pop();
    if (fired.owner != nullptr && fired.owner->held()) {
        fired.owner->held_events.push_back(fired.id);
        return true;
    }
    Action action = events_.take(fired.id);
    ++stats_.events;
    if (action) action();
    drain();
    return true;
}

void World::run_for(Duration duration) {
    const TimePoint end = now_ + duration;
    drain();
    while (step(end)) {
    }
    now_ = std::max(now_, end);
}

bool World::run_until(const std::function<bool()>& predicate, Duration at_most) {
    const TimePoint end = now_ + at_most;
    drain();
    if (predicate()) return true;
    TimePoint check_again = now_ + predicate_interval;
    while (step(end)) {
        if (now_ < check_again && !events_.empty()) continue;
        if (predicate()) return true;
        check_again = now_ + predicate_interval;
    }
    now_ = end;
    return predicate();
}

void World::run_task(Task<void> task, Duration at_most) {
    bool done = false;
    std::exception_ptr failure;
    auto on_end = [&done, &failure](std::exception_ptr exception) {
        done = true;
        failure = std::move(exception);
    };
    asio::co_spawn(io_->get_executor(), std::move(task), on_end);
    const TimePoint end = now_ + at_most;
    drain();
    while (!done && step(end)) {
    }
    DEDLOC_CHECK(done,
                 "a task did not end within {} s of virtual time ({} events are left, seed {})",
                 to_seconds(at_most),
                 events_.size(),
                 seed_);
    if (failure) std::rethrow_exception(failure);
}

void World::at(TimePoint time, std::function<void()> action) {
    schedule(time, nullptr, std::move(action));
}
void World::after(Duration duration, std::function<void()> action) {
    schedule(now_ + duration, nullptr, std::move(action));
}

Task<void> World::sleep_until(TimePoint time) {
    std::shared_ptr<runtime::Parked> sleeper;
    struct Guard {
        World& world;
        EventId event;
        ~Guard() { world.cancel(event); }
    };
    auto wake = [&sleeper] { sleeper->resume(); };
    const Guard guard{*this, schedule(time, nullptr, wake)};
    auto start = [&sleeper](std::shared_ptr<runtime::Parked> parked) {
        sleeper = std::move(parked);
    };
    co_await runtime::park(start);
}

void World::release_held(Process& process) {
    const std::vector<EventId> held = std::move(process.held_events);
    process.held_events.clear();
    for (const EventId event : held) events_.push_again(event, now_);
}

// --- network ---

World::Pair& World::pair(std::size_t from, std::size_t to) {
    const auto [found, is_new] = pairs_.try_emplace(std::pair(from, to));
    if (is_new) found->second.link = options_.link;
    return found->second;
}

void World::set_link(const SimNode& a, const SimNode& b, LinkOptions options) {
    for (Pair* each : {&pair(a.index(), b.index()), &pair(b.index(), a.index())}) {
        each->link = options;
        each->own_link = true;
    }
}

void World::set_default_link(LinkOptions options) {
    options_.link = options;
    for (auto& [who, each] : pairs_)
        if (!each.own_link) each.link = options;
}

bool World::path_open(std::size_t from, std::size_t to) const {
    const unsigned shared = nodes_[from]->options_.networks & nodes_[to]->options_.networks;
    return shared != 0 ? leg_open(from, to) : is_bridged(from, to);
}

bool World::is_bridged(std::size_t from, std::size_t to) const {
    const unsigned here = nodes_[from]->options_.networks;
    const unsigned there = nodes_[to]->options_.networks;
    for (const auto& node : nodes_) {
        const unsigned networks = node->options_.networks;
        const bool is_in_both = (networks & here) != 0 && (networks & there) != 0;
        if (is_in_both && node->machine_up_ && node->alive() && leg_open(from, node->index()) &&
            leg_open(node->index(), to))
            return true;
    }
    return false;
}

bool World::leg_open(std::size_t from, std::size_t to) const {
    if (!group_of_.empty()) {
        const std::size_t outside = 0;  // nodes that came after the partition was made
        const std::size_t a = from < group_of_.size() ? group_of_[from] : outside;
        const std::size_t b = to < group_of_.size() ? group_of_[to] : outside;
        if (a != b) return false;
    }
    return blocked_.empty() || !blocked_.contains({from, to});
}

void World::partition(const std::vector<std::vector<std::string>>& groups) {
    group_of_.assign(nodes_.size(), 0);
    for (std::size_t i = 0; i < groups.size(); ++i)
        for (const std::string& name : groups[i]) group_of_[node(name).index()] = i + 1;
    reassess_wires();
}

void World::end_partition() {
    group_of_.clear();
    reassess_wires();
}

void World::heal() {
    group_of_.clear();
    blocked_.clear();
    reassess_wires();
}

void World::block(const SimNode& from, const SimNode& to) {
    blocked_.insert({from.index(), to.index()});
    reassess_wires();
}

void World::unblock(const SimNode& from, const SimNode& to) {
    blocked_.erase({from.index(), to.index()});
    reassess_wires();
}

void World::add_wire(std::shared_ptr<Wire> wire) {
    Wire& added = *wire;
    wires_.emplace(added.id(), std::move(wire));
    added.reassess();
}
void World::remove_wire(std::uint64_t id) { wires_.erase(id); }

void World::reassess_wires() {
    for (const auto& [id, wire] : wires_) wire->reassess();
}

void World::break_off(Process& process, bool machine) {
    std::vector<std::shared_ptr<Wire>> cut;
    for (const auto& [id, wire] : wires_)
        if (wire->touches(process)) cut.push_back(wire);
    for (const auto& wire : cut)
        for (int side = 0; side < 2; ++side)
            if (&wire->process(side) == &process) wire->cut(side, machine);
    process.network->forget_listeners();
    if (!machine) process.host->process_died();
}

std::uint32_t World::intern(const std::string& method) {
    const auto next = static_cast<std::uint32_t>(methods_.size());
    const auto [found, is_new] = methods_by_name_.try_emplace(method, next);
    if (is_new) {
        const bool as_it_is =
            options_.shrunk == 1 ||
            std::ranges::find(options_.shrunk_methods, method) != options_.shrunk_methods.end();
        methods_.push_back({method, hash_bytes(as_bytes(method)), as_it_is});
    }
    return found->second;
}

const std::string& World::method_name(std::uint32_t method) const { return methods_[method].name; }

// --- trace ---

void World::mix(std::uint64_t word) { trace_ = base::mix64(trace_ ^ word); }

void World::tamper(
    const Process& from, const Process& to, std::uint32_t method, bool is_answer, Bytes& payload) {
    if (!tamper_) return;
    tamper_({from.node.index(), to.node.index(), method_name(method), is_answer, payload});
}

void World::trace_message(std::size_t from,
                          std::size_t to,
                          std::uint32_t method,
                          ByteView payload) {
    ++stats_.messages_delivered;
    stats_.bytes_delivered += payload.size();
    ++methods_[method].messages;
    methods_[method].payload_bytes += payload.size();
    mix(static_cast<std::uint64_t>(now_.since_start.count()));
    mix((std::uint64_t{from} << 32) ^ to ^ methods_[method].hash);
    mix(hash_bytes(payload));
    if (on_message_) on_message_(from, to, methods_[method].name);
}

std::size_t World::bytes_on_line(std::uint32_t method, std::size_t payload_bytes) const {
    if (options_.shrunk == 1) return payload_bytes + overhead_bytes;
    const double around = static_cast<double>(overhead_bytes) / options_.shrunk;
    const auto payload = static_cast<double>(payload_bytes);
    return 1 + static_cast<std::size_t>(
                   around + (methods_[method].as_it_is ? payload : payload / options_.shrunk));
}

double World::bytes_on_lines(const Method& method) const {
    const auto payload = static_cast<double>(method.payload_bytes);
    const double around = static_cast<double>(method.messages) * overhead_bytes;
    return (method.as_it_is ? payload : payload / options_.shrunk) + around / options_.shrunk;
}

double World::bytes_on_lines() const {
    double bytes = 0;
    for (const Method& method : methods_) bytes += bytes_on_lines(method);
    return bytes;
}

std::vector<MethodTraffic> World::traffic() const {
    std::vector<MethodTraffic> all;
    for (const Method& method : methods_)
        if (method.messages > 0)
            all.push_back({method.name, method.messages, bytes_on_lines(method)});
    return all;
}

void World::note(std::string_view text) {
    mix(static_cast<std::uint64_t>(now_.since_start.count()));
    mix(hash_bytes(as_bytes(text)));
}

}  // namespace dedloc::sim
