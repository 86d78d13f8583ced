#include "dedloc/sim/faults.h"

#include <algorithm>

#include "dedloc/base/check.h"

namespace dedloc::sim {

namespace {

constexpr FaultKind all_kinds[fault_kinds_count] = {FaultKind::kill,
                                                    FaultKind::lose_machine,
                                                    FaultKind::crash_write,
                                                    FaultKind::freeze,
                                                    FaultKind::partition,
                                                    FaultKind::block,
                                                    FaultKind::loss,
                                                    FaultKind::latency,
                                                    FaultKind::clock_drift,
                                                    FaultKind::wall_step,
                                                    FaultKind::disk_full};

bool is_death(FaultKind kind) {
    return kind == FaultKind::kill || kind == FaultKind::lose_machine ||
           kind == FaultKind::crash_write;
}

bool overlap(const Fault& a, const Fault& b) {
    return a.at < b.at + b.length && b.at < a.at + a.length;
}

std::vector<FaultKind> kinds_of_seed(Random& random, const FaultOptions& options) {
    std::vector<FaultKind> allowed;
    std::vector<FaultKind> chosen;
    for (const FaultKind kind : all_kinds) {
        if (std::find(options.never.begin(), options.never.end(), kind) != options.never.end())
            continue;
        allowed.push_back(kind);
        if (random.chance(options.kind_chance)) chosen.push_back(kind);
    }
    if (chosen.empty() && !allowed.empty()) chosen.push_back(allowed[random.below(allowed.size())]);
    return chosen;
}

void draw_details(Fault& fault, Random& random, std::size_t nodes, const FaultOptions& options) {
    fault.nodes.push_back(random.below(nodes));
    switch (fault.kind) {
        case FaultKind::kill:
            fault.amount = random.chance(options.disk_loss_chance) ? 1 : 0;
            break;
        case FaultKind::partition: {
            const std::uint64_t groups = random.chance(0.7) ? 2 : 3;
            for (std::size_t i = 0; i < nodes; ++i)
                fault.group_of.push_back(static_cast<std::size_t>(random.below(groups)));
            fault.nodes.clear();
            break;
        }
        case FaultKind::block: {
            const std::size_t other = random.below(nodes - 1);
            fault.nodes.push_back(other >= fault.nodes[0] ? other + 1 : other);
            break;
        }
        case FaultKind::loss:
            fault.amount = random.uniform(0.02, 0.4);
            break;
        case FaultKind::latency:
            fault.amount = random.uniform(0.05, 2.0);
            break;
        case FaultKind::clock_drift:
            fault.amount = random.uniform(-0.05, 0.05);
            break;
        case FaultKind::wall_step:
            fault.amount = random.uniform(-120, 120);
            break;
        default:
            break;
    }
}

// Whether the fault may stand beside those that were drawn before.
bool fits(const Fault& fault,
          const std::vector<Fault>& others,
          std::size_t nodes,
          const FaultOptions& options) {
    std::size_t dead_max = options.dead_max;
    if (dead_max == 0) dead_max = std::max<std::size_t>(1, (nodes - 1) / 2);
    std::size_t dead = 0;
    for (const Fault& other : others) {
        if (!overlap(fault, other)) continue;
        if (fault.kind == FaultKind::partition && other.kind == fault.kind) return false;
        if (is_death(fault.kind) && is_death(other.kind)) {
            if (fault.nodes == other.nodes) return false;
            ++dead;
        } else if (fault.kind == other.kind && fault.nodes == other.nodes) {
            return false;
        }
    }
    return !is_death(fault.kind) || dead < dead_max;
}

}  // namespace

std::string_view to_string(FaultKind kind) {
    switch (kind) {
        case FaultKind::kill:
            return "kill";
        case FaultKind::lose_machine:
            return "lose_machine";
        case FaultKind::crash_write:
            return "crash_write";
        case FaultKind::freeze:
            return "freeze";
        case FaultKind::partition:
            return "partition";
        case FaultKind::block:
            return "block";
        case FaultKind::loss:
            return "loss";
        case FaultKind::latency:
            return "latency";
        case FaultKind::clock_drift:
            return "clock_drift";
        case FaultKind::wall_step:
            return "wall_step";
        case FaultKind::disk_full:
            return "disk_full";
    }
    return "unknown";
}

std::string Fault::text() const {
    std::string line = fmt::format(
        "{:8.3f} s for {:6.3f} s: {}", to_seconds(at), to_seconds(length), to_string(kind));
    for (const std::size_t node : nodes) line += fmt::format(" n{}", node);
    for (const std::size_t group : group_of) line += fmt::format(" {}", group);
    if (amount != 0) line += fmt::format(" ({:.3f})", amount);
    return line;
}

std::string FaultScript::text() const {
    std::string lines;
    for (const Fault& fault : faults) lines += fault.text() + "\n";
    return lines;
}

FaultScript FaultScript::without(std::size_t index) const {
    FaultScript smaller = *this;
    smaller.faults.erase(smaller.faults.begin() + static_cast<std::ptrdiff_t>(index));
    return smaller;
}

FaultScript make_faults(std::uint64_t seed, std::size_t nodes_count, const FaultOptions& options) {
    DEDLOC_CHECK(nodes_count >= 2, "faults between {} nodes", nodes_count);
    Random random = Random(seed).fork("faults");
    const std::vector<FaultKind> kinds = kinds_of_seed(random, options);
    FaultScript script;
    script.quiet_after = options.quiet_after;
    const double pause = 1 / options.faults_per_s;
    if (kinds.empty()) return script;
    for (Duration at = options.begin + from_seconds(random.exponential(pause));
         at + options.length_min < options.quiet_after;
         at += from_seconds(random.exponential(pause))) {
        Fault fault;
        fault.at = at;
        fault.kind = kinds[random.below(kinds.size())];
        // Short ones are as likely as long ones, in orders of magnitude.
        const double low = to_seconds(options.length_min);
        const double high = to_seconds(options.length_max);
        const double square = random.uniform();
        fault.length = from_seconds(low + (high - low) * square * square * square);
        fault.length = std::min(fault.length, options.quiet_after - at);
        draw_details(fault, random, nodes_count, options);
        if (fits(fault, script.faults, nodes_count, options)) script.faults.push_back(fault);
    }
    return script;
}

std::uint64_t FaultsPlayed::total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : applied) sum += count;
    return sum;
}

namespace {

class Player : public std::enable_shared_from_this<Player> {
  public:
    Player(World& world, FaultScript script, FaultHooks hooks)
        : world_(world),
          script_(std::move(script)),
          hooks_(std::move(hooks)),
          start_(world.now()),
          deaths_(world.nodes_count()),
          losses_(world.nodes_count()),
          latencies_(world.nodes_count()) {}

    void begin() {
        auto self = shared_from_this();
        for (std::size_t i = 0; i < world_.nodes_count(); ++i)
            world_.node(i).on_death([self](SimNode& node) { self->died(node); });
        for (std::size_t i = 0; i < script_.faults.size(); ++i) {
            const Fault& fault = script_.faults[i];
            world_.at(start_ + fault.at, [self, i] { self->apply(self->script_.faults[i]); });
            world_.at(start_ + fault.at + fault.length,
                      [self, i] { self->undo(self->script_.faults[i]); });
        }
        world_.at(start_ + script_.quiet_after, [self] { self->quiet(); });
    }

    FaultsPlayed& played() { return played_; }

  private:
    struct Death {
        TimePoint restart_at;  // the earliest
        bool lose_disk = false;
    };

    void apply(const Fault& fault) {
        world_.note(fault.text());
        ++played_.applied[static_cast<std::size_t>(fault.kind)];
        const TimePoint end = world_.now() + fault.length;
        SimNode& node = world_.node(fault.nodes.empty() ? 0 : fault.nodes[0]);
        switch (fault.kind) {
            case FaultKind::kill:
            case FaultKind::lose_machine:
                if (!node.alive()) return;
                deaths_[node.index()] = {end, fault.kind == FaultKind::kill && fault.amount > 0};
                if (fault.kind == FaultKind::kill)
                    node.kill();
                else
                    node.lose_machine();
                return;
            case FaultKind::crash_write:
                if (!node.alive()) return;
                deaths_[node.index()] = {end, false};
                node.disk().crash_at_next_write();
                return;
            case FaultKind::freeze:
                node.freeze();
                return;
            case FaultKind::partition:
                divide(fault);
                return;
            case FaultKind::block:
                world_.block(node, world_.node(fault.nodes[1]));
                return;
            case FaultKind::loss:
                losses_[node.index()] = fault.amount;
                set_weather(node);
                return;
            case FaultKind::latency:
                latencies_[node.index()] = fault.amount;
                set_weather(node);
                return;
            case FaultKind::clock_drift:
                node.set_clock_drift(fault.amount);
                return;
            case FaultKind::wall_step:
                node.step_wall_clock(from_seconds(fault.amount));
                return;
            case FaultKind::disk_full:
                node.disk().set_full(true);
                return;
        }
    }

    void undo(const Fault& fault) {
        SimNode& node = world_.node(fault.nodes.empty() ? 0 : fault.nodes[0]);
        switch (fault.kind) {
            case FaultKind::crash_write:
                node.disk().crash_at_next_write(false);
                return;
            case FaultKind::freeze:
                node.thaw();
                return;
            case FaultKind::partition:
                world_.end_partition();
                return;
            case FaultKind::block:
                world_.unblock(node, world_.node(fault.nodes[1]));
                return;
            case FaultKind::loss:
                losses_[node.index()] = 0;
                set_weather(node);
                return;
            case FaultKind::latency:
                latencies_[node.index()] = 0;
                set_weather(node);
                return;
            case FaultKind::clock_drift:
                node.set_clock_drift(node.options().clock_drift);
                return;
            case FaultKind::disk_full:
                node.disk().set_full(false);
                return;
            default:
                return;
        }
    }

    void divide(const Fault& fault) {
        std::size_t groups = 0;
        for (const std::size_t group : fault.group_of) groups = std::max(groups, group + 1);
        std::vector<std::vector<std::string>> names(groups);
        for (std::size_t i = 0; i < fault.group_of.size(); ++i)
            names[fault.group_of[i]].push_back(world_.node(i).name());
        world_.partition(names);
    }

    void set_weather(SimNode& node) {
        node.set_weather(losses_[node.index()], from_seconds(latencies_[node.index()]));
    }

    // Everything that a fault may have left behind is set right.
    void quiet() {
        for (std::size_t i = 0; i < world_.nodes_count(); ++i) {
            SimNode& node = world_.node(i);
            node.thaw();
            node.disk().crash_at_next_write(false);
        }
        world_.heal();
        world_.note("faults are over");
    }

    void died(SimNode& node) {
        world_.scope().spawn("restart " + node.name(), revive(shared_from_this(), node));
    }

    static Task<void> revive(std::shared_ptr<Player> self, SimNode& node) {
        if (self->hooks_.teardown) co_await self->hooks_.teardown(node);
        co_await node.host().stop();
        const Death death = self->deaths_[node.index()];
        if (death.restart_at > self->world_.now())
            co_await self->world_.sleep_until(death.restart_at);
        node.restart(death.lose_disk);
        self->deaths_[node.index()] = Death();
        ++self->played_.restarts;
        if (self->hooks_.restarted) self->hooks_.restarted(node, death.lose_disk);
    }

    World& world_;
    FaultScript script_;
    FaultHooks hooks_;
    TimePoint start_;
    std::vector<Death> deaths_;
    std::vector<double> losses_;
    std::vector<double> latencies_;
    FaultsPlayed played_;
};

}  // namespace

std::shared_ptr<const FaultsPlayed> play_faults(World& world,
                                                FaultScript script,
                                                FaultHooks hooks) {
    auto player = std::make_shared<Player>(world, std::move(script), std::move(hooks));
    player->begin();
    return std::shared_ptr<const FaultsPlayed>(player, &player->played());
}

}  // namespace dedloc::sim
