#include "dedloc/collab/node.h"

#include <algorithm>
#include <ranges>
#include <thread>

#include "dedloc/p2p/gate.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/p2p/relay_keeper.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/runtime/router_port_mapper.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/remembering_verifier.h"

namespace dedloc::collab {

namespace {

constexpr std::size_t workers_max = 8;
constexpr Duration table_look_interval = 1s;  // while the table is empty
constexpr Duration table_meet_interval = 20s;
constexpr Duration table_answer_max = 5s;

std::size_t workers_wanted(std::size_t given) {
    if (given == 0) given = runtime::usable_processors();
    return std::clamp<std::size_t>(given, 1, workers_max);
}

std::uint64_t random_seed() {
    std::uint64_t seed = 0;
    security::secure_random(std::span(reinterpret_cast<std::uint8_t*>(&seed), sizeof seed));
    return seed;
}

}  // namespace

struct Node::State {
    explicit State(NodeOptions given, security::LockedIdentity identity)
        : options(std::move(given)),
          locked(std::move(identity)),
          identity_signer(locked.identity()) {}

    // A network whose caps are looked at, or without caps the line itself.
    runtime::Network& network() {
        if (limited) return *limited;
        return *line;
    }
    void check_caps();
    void tell_caps(Service& service) const;
    Task<void> keep_to_caps();
    Task<void> stay_in_table();

    NodeOptions options;
    security::LockedIdentity locked;
    security::IdentitySigner identity_signer;
    security::IdentityVerifier identity_verifier;
    security::RememberingVerifier verifier{identity_verifier};
    security::RememberingSigner signer{identity_signer, verifier};
    Random random{random_seed()};
    runtime::Loop loop;
    std::unique_ptr<runtime::Clock> clock;
    std::unique_ptr<runtime::Network> line;
    std::unique_ptr<runtime::LimitedNetwork> limited;  // null: without caps
    std::unique_ptr<runtime::PortMapper> port_mapper;
    std::unique_ptr<runtime::Disk> disk;
    std::unique_ptr<runtime::Workers> workers;
    std::unique_ptr<runtime::Scope> scope;
    runtime::Spawn spawn;
    std::unique_ptr<p2p::Host> host;
    std::unique_ptr<dht::DhtNode> dht;  // null: without
    bool joins_table = false;
    std::vector<std::unique_ptr<Service>> services;
    std::thread thread;
};

void Node::State::check_caps() {
    const runtime::LineCaps caps = options.caps(clock->wall_now());
    if (caps == limited->caps()) return;
    limited->set_caps(caps);
    for (const auto& service : services) tell_caps(*service);
}

void Node::State::tell_caps(Service& service) const {
    if (!limited) return;
    const runtime::LineCaps& caps = limited->caps();
    service.set_caps(caps.up * planned_share_of_cap, caps.down * planned_share_of_cap);
}

// A wait for the next change would miss that somebody sets the clock, or that summer ends.
Task<void> Node::State::keep_to_caps() {
    for (;;) {
        co_await clock->sleep_for(caps_look_interval);
        check_caps();
    }
}

// Tables that began apart become one as soon as peers of both are connected.
Task<void> Node::State::stay_in_table() {
    TimePoint met{};
    for (;;) {
        std::vector<PeerId> peers = host->connected_peers();
        // In a run with a secret strangers have no part in the table.
        std::erase_if(peers, [this](const PeerId& peer) {
            return !p2p::gate_of(*host).may_speak(peer, dht::ping_method).has_value();
        });
        const bool is_alone = dht->table().all().empty();
        if (!peers.empty() && (is_alone || clock->now() - met >= table_meet_interval)) {
            met = clock->now();
            const TimePoint deadline = met + table_answer_max;
            (void)co_await dht->bootstrap(std::move(peers), deadline);
        }
        co_await clock->sleep_for(table_look_interval);
    }
}

Result<std::unique_ptr<Node>> Node::open(NodeOptions options) {
    if (!options.congestion_control.empty())
        DEDLOC_TRY_VOID(runtime::may_use_congestion_control(options.congestion_control));
    DEDLOC_TRY(auto disk, runtime::real_disk(options.directory));
    DEDLOC_TRY(security::LockedIdentity identity,
               security::load_or_create_identity(options.directory));
    auto state = std::make_unique<State>(std::move(options), std::move(identity));
    const runtime::Executor executor = state->loop.executor();
    state->disk = std::move(disk);
    state->clock = runtime::real_clock(executor);
    state->line = runtime::real_network(executor, state->options.congestion_control);
    if (state->options.caps) {
        state->limited = std::make_unique<runtime::LimitedNetwork>(*state->line, *state->clock);
        state->check_caps();
    }
    state->port_mapper = runtime::router_port_mapper(executor, *state->clock);
    state->workers = runtime::real_workers(executor, workers_wanted(state->options.workers_count));
    state->scope = std::make_unique<runtime::Scope>(executor);
    state->spawn = runtime::spawner(state->loop, *state->scope);
    state->thread = std::thread([loop = &state->loop] {
        runtime::raise_thread_priority();
        loop->run();
    });
    std::unique_ptr<Node> node(new Node(std::move(state)));
    State& s = *node->state_;
    DEDLOC_TRY_VOID(node->run_on_network_thread([&s]() -> Result<void> {
        p2p::HostOptions host{.executor = s.loop.executor(),
                              .clock = *s.clock,
                              .network = s.network(),
                              .random = s.random.fork("host"),
                              .identity = s.locked.identity(),
                              .listen = s.options.listen,
                              .announce = s.options.announce,
                              .nat = s.options.nat,
                              .port_mapper = s.port_mapper.get()};
        host.memory_bytes = runtime::memory_allowed();
        DEDLOC_TRY(s.host, p2p::make_host(std::move(host)));
        if (s.options.dht) {
            s.dht = std::make_unique<dht::DhtNode>(*s.host, s.verifier, *s.options.dht);
            s.dht->start();
        }
        if (s.limited) s.scope->spawn("keep to the caps", s.keep_to_caps());
        for (const std::string& relay : s.options.relays)
            s.scope->spawn("stay connected to a relay", p2p::keep_connected(*s.host, relay));
        return {};
    }));
    return node;
}

Node::Node(std::unique_ptr<State> state) : state_(std::move(state)) {}

namespace {

// The tasks of callers may wait inside a service: they end first.
Task<Result<void>> stop_all(runtime::Scope& scope,
                            std::vector<Service*> services,
                            dht::DhtNode* dht,
                            p2p::Host* host) {
    co_await scope.stop();
    for (Service* service : services) co_await service->stop();
    if (dht != nullptr) co_await dht->stop();
    if (host != nullptr) co_await host->stop();
    co_return Result<void>();
}

}  // namespace

Node::~Node() {
    State& s = *state_;
    // A scope of its own, because this task stops the other one.
    auto closing =
        run_on_network_thread([&s] { return std::make_unique<runtime::Scope>(s.loop.executor()); });
    std::vector<Service*> services;  // the newest first
    for (const auto& service : s.services | std::views::reverse) services.push_back(service.get());
    std::future<Result<void>> stopped =
        runtime::spawn_future(runtime::spawner(s.loop, *closing),
                              "stop",
                              stop_all(*s.scope, std::move(services), s.dht.get(), s.host.get()));
    stopped.wait();
    // The task's very last instructions run after its promise is kept.
    while (run_on_network_thread([&closing] { return closing->running(); }) > 0)
        std::this_thread::yield();
    run_on_network_thread([&s, &closing] {
        closing.reset();
        while (!s.services.empty()) s.services.pop_back();
        s.dht.reset();
        s.host.reset();
        s.scope.reset();
    });
    s.loop.stop();
    s.thread.join();
    s.workers.reset();
}

void Node::keep(std::unique_ptr<Service> service) {
    run_on_network_thread([&] { state_->services.push_back(std::move(service)); });
}

std::vector<membership::Role> Node::roles() const {
    return run_on_network_thread([this] {
        std::vector<membership::Role> roles;
        for (const auto& service : state_->services) roles.push_back(service->role());
        return roles;
    });
}

void Node::tell_caps(Service& service) const { state_->tell_caps(service); }

void Node::post(std::function<void()> work) const { state_->loop.post(std::move(work)); }

const PeerId& Node::id() const { return state_->signer.id(); }
runtime::Clock& Node::clock() const { return *state_->clock; }
runtime::Disk& Node::disk() const { return *state_->disk; }
const security::Signer& Node::signer() const { return state_->signer; }
const security::Verifier& Node::verifier() const { return state_->verifier; }
p2p::Host& Node::host() const { return *state_->host; }
dht::DhtNode* Node::dht() const { return state_->dht.get(); }
void Node::join_table() const {
    State& s = *state_;
    run_on_network_thread([&s] {
        if (!s.dht) {
            dht::DhtOptions options;
            options.client_mode = s.options.listen.empty();
            s.dht = std::make_unique<dht::DhtNode>(*s.host, s.verifier, options);
            s.dht->start();
        }
        if (!std::exchange(s.joins_table, true))
            s.scope->spawn("stay in the table", s.stay_in_table());
    });
}
runtime::LineCaps Node::caps() const {
    return state_->limited ? state_->limited->caps() : runtime::LineCaps{};
}
const runtime::Spawn& Node::spawn() const { return state_->spawn; }

runtime::Node Node::environment() const {
    return {.executor = state_->loop.executor(),
            .clock = *state_->clock,
            .disk = *state_->disk,
            .workers = *state_->workers,
            .random = state_->random.fork("node")};
}

}  // namespace dedloc::collab
