// A table of many nodes on real sockets, in one process: whole hosts, encrypted, each its own peer.
//
//   dht_bench --nodes 64 --keys 200
//
// The last line is an object: start_s (of one node: host, identity, bootstrap), store_s and get_s
// (of one key, median, by nodes drawn by chance), bytes (resident, of one node), success.

// First, as in stream_bench.cpp.
#include "dedloc/runtime/pch.h"
//
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <unistd.h>
#include <vector>

#include "dedloc/dht/node.h"
#include "dedloc/measure/need.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc {
namespace {

using measure::need;

struct Arguments {
    std::size_t nodes = 64;
    std::size_t keys = 200;
};

constexpr Duration patience = std::chrono::seconds(20);
constexpr std::size_t first_peers = 2;

double resident_bytes() {
    long pages = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct Member {
    Member(runtime::Loop& loop, runtime::Clock& clock, runtime::Network& network, Random& random)
        : host(need(p2p::make_host(host_options(loop, clock, network, random)))),
          table(*host, verifier) {
        table.start();
    }
    static p2p::HostOptions host_options(runtime::Loop& loop,
                                         runtime::Clock& clock,
                                         runtime::Network& network,
                                         Random& random) {
        p2p::HostOptions options{.executor = loop.executor(),
                                 .clock = clock,
                                 .network = network,
                                 .random = Random(random.next()),
                                 .identity = security::Identity::generate(),
                                 .listen = {"/ip4/127.0.0.1/tcp/0"},
                                 .announce = {}};
        options.strangers = p2p::HostOptions::Strangers::welcome;
        return options;
    }
    std::string address() const { return host->addresses().at(0); }

    security::IdentityVerifier verifier;
    std::unique_ptr<p2p::Host> host;
    dht::DhtNode table;
};

struct Figures {
    double start_s = 0;
    std::vector<double> store_s;
    std::vector<double> get_s;
    std::size_t found = 0;
    double bytes = 0;
};

class Swarm {
  public:
    explicit Swarm(Arguments arguments)
        : arguments_(arguments),
          clock_(runtime::real_clock(loop_.executor())),
          network_(runtime::real_network(loop_.executor())) {}

    int run() {
        runtime::Scope scope(loop_.executor());
        scope.spawn("measure", measure());
        loop_.run();
        std::ranges::sort(figures_.store_s);
        std::ranges::sort(figures_.get_s);
        std::printf(
            "{\"start_s\": %.6f, \"store_s\": %.6f, \"get_s\": %.6f, \"bytes\": %.0f, "
            "\"success\": %.4f}\n",
            figures_.start_s,
            figures_.store_s.at(figures_.store_s.size() / 2),
            figures_.get_s.at(figures_.get_s.size() / 2),
            figures_.bytes,
            static_cast<double>(figures_.found) / static_cast<double>(arguments_.keys));
        return 0;
    }

  private:
    double now() const { return to_seconds(clock_->now() - TimePoint()); }
    TimePoint soon() const { return clock_->now() + patience; }
    Member& any() { return *members_[random_.below(members_.size())]; }

    Task<void> add() {
        auto member = std::make_unique<Member>(loop_, *clock_, *network_, random_);
        std::vector<PeerId> first;
        for (std::size_t i = 0; i < std::min(first_peers, members_.size()); ++i) {
            const Member& known = any();
            std::vector<std::string> addresses{known.address()};
            member->host->add_addresses(known.host->id(), addresses);
            first.push_back(known.host->id());
        }
        if (!first.empty()) {
            const auto joined = co_await member->table.bootstrap(std::move(first), soon());
            if (!joined) measure::fail(joined.error());
        }
        members_.push_back(std::move(member));
    }

    Task<void> store_one(std::size_t key) {
        dht::DhtItem item;
        item.key = dht::DhtId::of_text("key " + std::to_string(key));
        item.value = wire::encode_msgpack(static_cast<std::int64_t>(key));
        item.expiration = clock_->wall_now() + 3600;
        const double begun = now();
        const auto stored = co_await any().table.store(std::move(item), soon());
        if (stored) figures_.store_s.push_back(now() - begun);
    }

    Task<void> get_one(std::size_t key) {
        const double begun = now();
        const dht::DhtId id = dht::DhtId::of_text("key " + std::to_string(key));
        const auto got = co_await any().table.get(id, dht::Freshness::any, soon());
        figures_.get_s.push_back(now() - begun);
        if (got && *got && (**got).regular &&
            (**got).regular->value == wire::encode_msgpack(static_cast<std::int64_t>(key)))
            ++figures_.found;
    }

    Task<void> measure() {
        co_await add();  // it warms the libraries
        const double bytes = resident_bytes();
        const double begun = now();
        for (std::size_t i = 1; i < arguments_.nodes; ++i) co_await add();
        const auto count = static_cast<double>(arguments_.nodes - 1);
        figures_.start_s = (now() - begun) / count;
        figures_.bytes = (resident_bytes() - bytes) / count;
        for (std::size_t key = 0; key < arguments_.keys; ++key) co_await store_one(key);
        for (std::size_t key = 0; key < arguments_.keys; ++key) co_await get_one(key);
        for (auto& member : members_) co_await member->table.stop();
        for (auto& member : members_) co_await member->host->stop();
        loop_.stop();
    }

    Arguments arguments_;
    runtime::Loop loop_;
    std::unique_ptr<runtime::Clock> clock_;
    std::unique_ptr<runtime::Network> network_;
    Random random_{7};
    std::vector<std::unique_ptr<Member>> members_;
    Figures figures_;
};

}  // namespace
}  // namespace dedloc

int main(int argc, char** argv) {
    dedloc::Arguments arguments;
    CLI::App app("a table of many nodes on sockets");
    app.add_option("--nodes", arguments.nodes)->check(CLI::Range(2, 512));
    app.add_option("--keys", arguments.keys)->check(CLI::Range(1, 100000));
    CLI11_PARSE(app, argc, argv);
    return dedloc::Swarm(arguments).run();
}
