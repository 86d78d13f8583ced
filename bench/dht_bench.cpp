// A table of many nodes on real sockets, in one process: whole hosts, encrypted, each its own peer.
//
//   dht_bench --nodes 64 --keys 200 [--loops 2] [--security noise]
//
// Nodes start on so many threads, each with a loop, the next when the one before has joined. The
// last line is an object: start_s (wall time over nodes: host, identity, bootstrap), start_cpu_s
// (processor time of one, what the others spend on it included), first_store_s (of one key, median,
// by nodes drawn by chance, most replicas never met before), store_s (the same nodes store the same
// keys again), get_s (median, by nodes drawn by chance), bytes (resident, of one node), success.

// First, as in stream_bench.cpp.
#include "dedloc/runtime/pch.h"
//
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "dedloc/dht/node.h"
#include "dedloc/measure/need.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/msgpack.h"

#include "cpu_seconds.h"

namespace dedloc {
namespace {

using measure::need;

struct Arguments {
    std::size_t nodes = 64;
    std::size_t keys = 200;
    std::size_t loops = 2;
    std::string security = "tls";
};

constexpr Duration timeout = std::chrono::seconds(20);

double resident_bytes() {
    long pages = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct Member {
    Member(runtime::Loop& loop,
           runtime::Clock& clock,
           runtime::Network& network,
           Random& random,
           bool noise)
        : host(need(p2p::make_host(host_options(loop, clock, network, random, noise)))),
          table(*host, verifier) {
        table.start();
    }
    static p2p::HostOptions host_options(runtime::Loop& loop,
                                         runtime::Clock& clock,
                                         runtime::Network& network,
                                         Random& random,
                                         bool noise) {
        p2p::HostOptions options{.executor = loop.executor(),
                                 .clock = clock,
                                 .network = network,
                                 .random = Random(random.next()),
                                 .identity = security::Identity::generate(),
                                 .listen = {"/ip4/127.0.0.1/tcp/0"},
                                 .announce = {}};
        options.strangers = p2p::HostOptions::Strangers::welcome;
        if (noise) std::ranges::reverse(options.security.protocols);
        return options;
    }
    std::string address() const { return host->addresses().at(0); }

    security::IdentityVerifier verifier;
    std::unique_ptr<p2p::Host> host;
    dht::DhtNode table;
};

// Where one may join: known to all threads.
class Addresses {
  public:
    void add(const PeerId& id, const std::string& address) {
        const std::lock_guard lock(mutex_);
        all_.emplace_back(id, address);
    }
    std::optional<std::pair<PeerId, std::string>> any(Random& random) {
        const std::lock_guard lock(mutex_);
        if (all_.empty()) return std::nullopt;
        return all_[random.below(all_.size())];
    }

  private:
    std::mutex mutex_;
    std::vector<std::pair<PeerId, std::string>> all_;
};

double median_of(std::vector<double> values) {
    std::ranges::sort(values);
    return values.empty() ? 0 : values[values.size() / 2];
}

// The nodes of one thread.
class Part {
  public:
    Part(const Arguments& arguments, Addresses& addresses, std::uint64_t seed)
        : arguments_(arguments),
          addresses_(addresses),
          clock_(runtime::real_clock(loop_.executor())),
          network_(runtime::real_network(loop_.executor())),
          random_(seed),
          thread_([this] { loop_.run(); }) {}
    ~Part() {
        wait([this] { return stop(); });
        std::promise<void> gone;
        loop_.post([this, &gone] { clear(gone); });
        gone.get_future().get();
        loop_.stop();
        thread_.join();
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    std::future<void> start(std::function<Task<void>()> make) {
        auto done = std::make_shared<std::promise<void>>();
        std::future<void> future = done->get_future();
        loop_.post([this, make = std::move(make), done] {
            if (!scope_) scope_ = std::make_unique<runtime::Scope>(loop_.executor());
            scope_->spawn("measure", run(make, done));
        });
        return future;
    }
    void wait(std::function<Task<void>()> make) { start(std::move(make)).get(); }

    Task<void> add(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) co_await add_one();
    }
    Task<void> store(std::vector<double>& took_s, WallSeconds ttl) {
        for (std::size_t key = 0; key < arguments_.keys; ++key) {
            dht::DhtItem item;
            item.key = dht::DhtId::of_text("key " + std::to_string(key));
            item.value = wire::encode_msgpack(static_cast<std::int64_t>(key));
            item.expiration = clock_->wall_now() + ttl;
            const double begun = now();
            Member& member = *members_[key % members_.size()];
            const auto stored = co_await member.table.store(std::move(item), soon());
            if (stored) took_s.push_back(now() - begun);
        }
    }
    Task<void> get(std::vector<double>& took_s, std::size_t& found) {
        for (std::size_t key = 0; key < arguments_.keys; ++key) {
            const double begun = now();
            const dht::DhtId id = dht::DhtId::of_text("key " + std::to_string(key));
            Member& member = *members_[random_.below(members_.size())];
            const auto got = co_await member.table.get(id, dht::Freshness::any, soon());
            took_s.push_back(now() - begun);
            if (got && *got && (**got).regular &&
                (**got).regular->value == wire::encode_msgpack(static_cast<std::int64_t>(key)))
                ++found;
        }
    }

  private:
    static Task<void> run(std::function<Task<void>()> make,
                          std::shared_ptr<std::promise<void>> done) {
        co_await make();
        done->set_value();
    }
    // On the loop, once the last task's last instructions have run.
    void clear(std::promise<void>& gone) {
        if (scope_->running() > 0) {
            loop_.post([this, &gone] { clear(gone); });
            return;
        }
        scope_.reset();
        members_.clear();
        gone.set_value();
    }
    double now() const { return to_seconds(clock_->now() - TimePoint()); }
    TimePoint soon() const { return clock_->now() + timeout; }

    Task<void> add_one() {
        auto member = std::make_unique<Member>(
            loop_, *clock_, *network_, random_, arguments_.security == "noise");
        if (const auto known = addresses_.any(random_)) {
            std::vector<std::string> addresses{known->second};
            member->host->add_addresses(known->first, addresses);
            std::vector<PeerId> first{known->first};
            const auto joined = co_await member->table.bootstrap(std::move(first), soon());
            if (!joined) measure::fail(joined.error());
        }
        addresses_.add(member->host->id(), member->address());
        members_.push_back(std::move(member));
    }
    Task<void> stop() {
        for (auto& member : members_) co_await member->table.stop();
        for (auto& member : members_) co_await member->host->stop();
    }

    const Arguments& arguments_;
    Addresses& addresses_;
    runtime::Loop loop_;
    std::unique_ptr<runtime::Clock> clock_;
    std::unique_ptr<runtime::Network> network_;
    Random random_;
    std::unique_ptr<runtime::Scope> scope_;
    std::vector<std::unique_ptr<Member>> members_;
    std::thread thread_;
};

double wall_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

int measure_swarm(const Arguments& arguments) {
    Addresses addresses;
    std::vector<std::unique_ptr<Part>> parts;
    for (std::size_t i = 0; i < arguments.loops; ++i)
        parts.push_back(std::make_unique<Part>(arguments, addresses, 7 + i));
    Part& first = *parts.front();
    first.wait([&] { return first.add(1); });  // it warms the libraries
    const double bytes = resident_bytes();
    const double begun_s = wall_s();
    const double begun_cpu_s = bench::cpu_seconds();
    const std::size_t each = std::max<std::size_t>(1, arguments.nodes / arguments.loops);
    std::vector<std::future<void>> starts;
    for (auto& part : parts)
        starts.push_back(part->start([&part, each] { return part->add(each); }));
    for (auto& started : starts) started.get();
    const auto count = static_cast<double>(each * arguments.loops);
    const double start_s = (wall_s() - begun_s) / count;
    const double start_cpu_s = (bench::cpu_seconds() - begun_cpu_s) / count;
    const double bytes_each = (resident_bytes() - bytes) / count;
    std::vector<double> first_store_s;
    std::vector<double> store_s;
    std::vector<double> get_s;
    std::size_t found = 0;
    first.wait([&] { return first.store(first_store_s, 3600); });
    first.wait([&] { return first.store(store_s, 3700); });
    first.wait([&] { return first.get(get_s, found); });
    std::printf(
        "{\"start_s\": %.6f, \"start_cpu_s\": %.6f, \"first_store_s\": %.6f, \"store_s\": %.6f, "
        "\"get_s\": %.6f, \"bytes\": %.0f, \"success\": %.4f}\n",
        start_s,
        start_cpu_s,
        median_of(first_store_s),
        median_of(store_s),
        median_of(get_s),
        bytes_each,
        static_cast<double>(found) / static_cast<double>(arguments.keys));
    return 0;
}

}  // namespace
}  // namespace dedloc

int main(int argc, char** argv) {
    dedloc::Arguments arguments;
    CLI::App app("a table of many nodes on sockets");
    app.add_option("--nodes", arguments.nodes)->check(CLI::Range(2, 512));
    app.add_option("--loops", arguments.loops)->check(CLI::Range(1, 16));
    app.add_option("--security", arguments.security)->check(CLI::IsMember({"tls", "noise"}));
    app.add_option("--keys", arguments.keys)->check(CLI::Range(1, 100000));
    CLI11_PARSE(app, argc, argv);
    return dedloc::measure_swarm(arguments);
}
