#include "tests/sim/dht_command.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

#include "dedloc/monitor/json_line.h"
#include "dedloc/wire/dht_messages.h"
#include "dedloc/wire/msgpack.h"

#include "tests/common/exit_codes.h"
#include "tests/sim/table_world.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t keys_count = 500;
constexpr double killed_part = 0.1;
constexpr Duration wire_latency = std::chrono::milliseconds(50);
constexpr std::size_t flooded_records = 20'000;

std::string name_of(std::size_t key) { return "key " + std::to_string(key); }

Task<void> store_one(TableWorld& table, std::size_t at, std::size_t key, int version) {
    dht::DhtItem item;
    item.key = dht::DhtId::of_text(name_of(key));
    item.value = wire::encode_msgpack(version);
    // The later expiration wins.
    item.expiration = table.machine(at).clock().wall_now() + 86400.0 + version;
    const TimePoint deadline = table.machine(at).clock().now() + 60s;
    (void)co_await table.node(at).store(std::move(item), deadline);
}

Task<void> get_one(
    TableWorld& table, std::size_t at, std::size_t key, int version, std::size_t& good) {
    const TimePoint deadline = table.machine(at).clock().now() + 60s;
    const auto found = co_await table.node(at).get(
        dht::DhtId::of_text(name_of(key)), dht::Freshness::latest, deadline);
    if (found && *found && (**found).regular &&
        (**found).regular->value == wire::encode_msgpack(version))
        ++good;
}

Task<void> locate_one(TableWorld& table,
                      std::size_t at,
                      dht::DhtId key,
                      std::vector<std::size_t>& hops) {
    const TimePoint deadline = table.machine(at).clock().now() + 60s;
    const auto report = co_await table.node(at).locate(key, deadline);
    hops.push_back(report.hops);
}

void store_all(TableWorld& table, Random& random, int version, std::size_t step) {
    std::vector<Task<void>> stores;
    for (std::size_t key = 0; key < keys_count; key += step)
        stores.push_back(store_one(table, table.any_alive(random), key, version));
    table.run_all(std::move(stores));
}

// Returns the share of living nodes' gets that find the last version of their key.
double success(TableWorld& table, Random& random, const std::vector<int>& versions) {
    std::size_t good = 0;
    std::size_t asked = 0;
    std::vector<Task<void>> gets;
    for (int turn = 0; turn < 2; ++turn)
        for (std::size_t key = 0; key < keys_count; ++key) {
            gets.push_back(get_one(table, table.any_alive(random), key, versions[key], good));
            ++asked;
        }
    table.run_all(std::move(gets));
    return static_cast<double>(good) / static_cast<double>(asked);
}

double mean_hops(TableWorld& table, Random& random) {
    std::vector<std::size_t> hops;
    std::vector<Task<void>> tasks;
    for (int i = 0; i < 100; ++i)
        tasks.push_back(
            locate_one(table, table.any_alive(random), dht::DhtId::random(random), hops));
    table.run_all(std::move(tasks));
    double sum = 0;
    for (const std::size_t count : hops) sum += static_cast<double>(count);
    return sum / static_cast<double>(hops.size());
}

// One member stores as much as it can, forges subkeys and answers finds with garbage.
Task<void> flood(TableWorld& table, std::size_t at, std::size_t victim) {
    sim::SimNode& machine = table.machine(at);
    for (std::size_t i = 0; i < flooded_records; i += 256) {
        wire::StoreRequest request;
        for (std::size_t j = i; j < i + 256; ++j) {
            request.keys.push_back(
                to_bytes(dht::DhtId::of_text("flood " + std::to_string(j)).view()));
            request.subkeys.push_back(j % 2 ? dht::subkey_of(table.machine(victim).id())
                                            : wire::encode_msgpack(wire::MsgpackValue()));
            request.values.push_back(Bytes(4096, static_cast<std::uint8_t>(j)));
            request.expiration_times.push_back(machine.clock().wall_now() + 86400.0);
            request.in_cache.push_back(false);
        }
        const TimePoint deadline = machine.clock().now() + 20s;
        (void)co_await machine.host().call(
            table.machine(victim).id(), dht::store_method, wire::encode(request), deadline);
    }
}

struct TableOutcome {
    double success = 0;
    double success_under_attack = 0;
    std::size_t most_records = 0;  // that the flooded node holds
    std::uint64_t forged = 0;      // records it refused
    std::map<std::size_t, double> hops;
    std::uint64_t trace = 0;
};

TableOutcome run_once(const DhtCommand& command, std::size_t nodes) {
    TableWorld table(command.seed, wire_latency);
    Random random = table.world.random("lab dht");
    TableOutcome outcome;
    for (const std::size_t size : {std::size_t{100}, std::size_t{1000}, nodes}) {
        if (size > nodes) continue;
        table.grow(size);
        outcome.hops[size] = mean_hops(table, random);
    }
    store_all(table, random, 1, 1);
    // A tenth dies, and meanwhile half of the keys are written again.
    const auto deaths = static_cast<std::size_t>(killed_part * static_cast<double>(nodes));
    for (std::size_t i = 0; i < deaths; ++i) {
        table.kill(table.any_alive(random));
        if (i == deaths / 2) store_all(table, random, 2, 2);
    }
    table.world.run_for(60s);
    std::vector<int> versions(keys_count, 1);
    for (std::size_t key = 0; key < keys_count; key += 2) versions[key] = 2;
    outcome.success = success(table, random, versions);

    const std::size_t enemy = table.any_alive(random);
    std::size_t victim = table.any_alive(random);
    while (victim == enemy) victim = table.any_alive(random);
    std::vector<Task<void>> floods;
    floods.push_back(flood(table, enemy, victim));
    table.run_all(std::move(floods));
    table.world.on_send([&table, enemy](const sim::World::Outgoing& sent) {
        if (sent.from == table.machine(enemy).index() && sent.is_answer)
            std::fill(sent.payload.begin(), sent.payload.end(), std::uint8_t{0xff});
    });
    outcome.success_under_attack = success(table, random, versions);
    outcome.most_records = table.node(victim).records();
    outcome.forged = table.node(victim).forged();
    outcome.trace = table.world.trace_hash();
    return outcome;
}

int run_sizes(const DhtCommand& command) {
    const TableOutcome outcome = run_once(command, command.nodes);
    // The same again; of a large table, a small one.
    const std::size_t small = std::min<std::size_t>(command.nodes, 100);
    const bool repeats = run_once(command, small).trace == run_once(command, small).trace;
    nlohmann::ordered_json hops;
    for (const auto& [size, mean] : outcome.hops) {
        hops[std::to_string(size)] = mean;
        fmt::print("{:>6} nodes: {:.2f} hops\n", size, mean);
    }
    fmt::print("{:.2f} % of gets return the last value after {:.0f} % of the nodes have died\n",
               100 * outcome.success,
               100 * killed_part);
    fmt::print(
        "{:.2f} % while one floods and answers garbage; the flooded one holds {} records and "
        "refused {} forged ones\n",
        100 * outcome.success_under_attack,
        outcome.most_records,
        outcome.forged);
    const dht::StorageLimits limits;
    const bool good =
        all_hold("dht",
                 {at_least("success", outcome.success, 0.999),
                  at_least("success_under_attack", outcome.success_under_attack, 0.99),
                  at_most("flooded_records",
                          static_cast<double>(outcome.most_records),
                          static_cast<double>(limits.records_per_owner_max + keys_count)),
                  at_least("same_trace", repeats ? 1 : 0, 1)});
    if (command.json) {
        const nlohmann::ordered_json line{{"nodes", command.nodes},
                                          {"success", outcome.success},
                                          {"success_under_attack", outcome.success_under_attack},
                                          {"hops", hops},
                                          {"flooded_records", outcome.most_records},
                                          {"forged_refused", outcome.forged},
                                          {"same_trace", repeats},
                                          {"trace", fmt::format("{:016x}", outcome.trace)},
                                          {"ok", good}};
        fmt::print("{}\n", line.dump());
    }
    return good ? 0 : exit_check_failed;
}

// Nodes that one can get to from the first, by the tables of all.
std::size_t reachable(TableWorld& table) {
    std::map<PeerId, std::size_t> index;
    for (std::size_t i = 0; i < table.size(); ++i) index[table.machine(i).id()] = i;
    std::set<std::size_t> seen{0};
    std::vector<std::size_t> to_visit{0};
    while (!to_visit.empty()) {
        const std::size_t at = to_visit.back();
        to_visit.pop_back();
        for (const dht::Contact& contact : table.node(at).table().all())
            if (const auto found = index.find(contact.peer);
                found != index.end() && seen.insert(found->second).second)
                to_visit.push_back(found->second);
    }
    return seen.size();
}

// All start within two seconds and know the same four, which start with them.
bool starts_as_one(const DhtCommand& command, std::uint64_t seed) {
    TableWorld table(seed, wire_latency);
    Random random = table.world.random("start");
    std::vector<PeerId> first;
    for (std::size_t i = 0; i < command.start; ++i) {
        table.add();
        if (i < 4) first.push_back(table.machine(i).id());
    }
    for (std::size_t i = 0; i < command.start; ++i)
        table.world.after(random.duration(Duration(0), 2s), [&table, &first, i] {
            std::vector<PeerId> peers = first;
            table.node(i).stay_joined(std::move(peers));
        });
    table.world.run_for(30s);
    if (reachable(table) != command.start) return false;
    store_all(table, random, 1, 10);
    std::size_t good = 0;
    std::vector<Task<void>> gets;
    for (std::size_t key = 0; key < keys_count; key += 10)
        gets.push_back(get_one(table, table.any_alive(random), key, 1, good));
    table.run_all(std::move(gets));
    return good == keys_count / 10;
}

int run_starts(const DhtCommand& command) {
    std::size_t one_swarm = 0;
    for (std::size_t i = 0; i < command.repeat; ++i)
        one_swarm += starts_as_one(command, command.seed + i) ? 1 : 0;
    fmt::print(
        "{} of {} times all {} nodes are one swarm\n", one_swarm, command.repeat, command.start);
    const bool good = one_swarm == command.repeat;
    if (command.json) {
        const nlohmann::ordered_json line{{"start", command.start},
                                          {"repeat", command.repeat},
                                          {"one_swarm", one_swarm},
                                          {"ok", good}};
        fmt::print("{}\n", line.dump());
    }
    return good ? 0 : exit_check_failed;
}

}  // namespace

int run_dht(const DhtCommand& command) {
    return command.start > 0 ? run_starts(command) : run_sizes(command);
}

}  // namespace dedloc::lab
