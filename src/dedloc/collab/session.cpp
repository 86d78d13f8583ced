#include "dedloc/collab/session.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "dedloc/collab/membership.h"
#include "dedloc/collab/peers_to_dial.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/p2p/relay_keeper.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/runtime/router_port_mapper.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/remembering_verifier.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {

namespace {

// Some of the peers that a join string names may be gone: nobody waits for them.
constexpr Duration next_one_after = 300ms;
constexpr std::size_t workers_max = 8;
constexpr auto goes_on_interval = std::chrono::milliseconds(250);

std::size_t workers_wanted(std::size_t given) {
    if (given == 0) given = runtime::usable_processors();
    return std::clamp<std::size_t>(given, 1, workers_max);
}

// Whoever was given a string with such addresses alone is mostly not in that network.
std::string what_may_help(const std::vector<std::string>& addresses) {
    if (std::ranges::any_of(addresses, leads_out))
        return "\nA fresh join string (`dedloc invite` on a machine of the run) may help.";
    return "\nThese are private addresses, which lead there only from the same network. A fresh "
           "join string (`dedloc invite` on a machine of the run) may have others; docs/nat.md "
           "says what else helps.";
}

Error other_version(const PeerId& peer, std::string_view why) {
    return make_error(ErrorKind::conflict,
                      "peer {} answers, but its run file is of another version of dedloc ({}): "
                      "build the version that the host has",
                      peer.short_text(),
                      why);
}

// What a peer of our own version sends can be read here, and is then written as it came: to_toml()
// names every key.
Task<Result<RunFile>> ask_run_file(
    p2p::Host& host, std::string address, Digest run, Bytes secret, TimePoint deadline) {
    auto peer = co_await host.dial(address, deadline);
    if (!peer) co_return std::move(peer).error();
    const PeerId id = *peer;
    Bytes nonce = security::secure_random(hello_nonce_bytes);
    auto said = co_await say_hello(host, id, std::move(secret), std::move(nonce), deadline);
    if (!said) co_return std::move(said).error();
    HelloMessage question = *std::move(said);
    question.run = run;
    question.wants_run_file = 1;
    std::string method = prove_method;
    Bytes bytes = wire::encode(question);
    auto answer_bytes = co_await host.call(id, std::move(method), std::move(bytes), deadline);
    if (!answer_bytes) co_return std::move(answer_bytes).error();
    DEDLOC_CO_TRY(const HelloMessage answer, wire::decode<HelloMessage>(*answer_bytes));
    auto parsed = parse_run_file(answer.run_file, "its run file");
    if (!parsed) co_return other_version(id, parsed.error().message());
    if (run_hash(*parsed) == run) co_return *std::move(parsed);
    if (security::sha256(as_bytes(answer.run_file)) == run)
        co_return other_version(id, "this one writes the same run differently");
    co_return make_error(ErrorKind::conflict,
                         "peer {} trains another run than the join string names; ask for a fresh "
                         "join string",
                         id.short_text());
}

struct RunFileSearch {
    explicit RunFileSearch(runtime::Executor executor) : ended(executor) {}
    runtime::Event ended;  // `found` is there
    std::optional<RunFile> found;
    Error last = make_error(ErrorKind::bad_input, "the join string names no address");
    std::string reasons;
};

Task<void> ask_in_turn(p2p::Host& host,
                       runtime::Clock& clock,
                       std::string address,
                       Digest run,
                       Bytes secret,
                       TimePoint turn,
                       TimePoint deadline,
                       RunFileSearch& search) {
    co_await clock.sleep_until(turn);
    auto answer = co_await ask_run_file(host, address, run, std::move(secret), deadline);
    if (answer) {
        search.found = *std::move(answer);
        search.ended.set();
        co_return;
    }
    search.reasons += fmt::format("\n  {}: {}", address, answer.error().message());
    // That one of them trains another run by now, or is of another version, says most, if none
    // has this one's file.
    const ErrorKind before = search.last.kind();
    const bool says_less =
        before != ErrorKind::conflict &&
        (before != ErrorKind::denied || answer.error().kind() == ErrorKind::conflict);
    if (says_less) search.last = std::move(answer).error();
}

std::uint64_t random_seed() {
    std::uint64_t seed = 0;
    security::secure_random(std::span(reinterpret_cast<std::uint8_t*>(&seed), sizeof seed));
    return seed;
}

}  // namespace

Task<Result<RunFile>> fetch_run_file(p2p::Host& host,
                                     runtime::Clock& clock,
                                     JoinString join,
                                     TimePoint deadline) {
    RunFileSearch search(host.executor());
    std::vector<Task<void>> asks;
    TimePoint turn = clock.now();
    for (const std::string& address : peers_to_dial(host, join.addresses)) {
        asks.push_back(
            ask_in_turn(host, clock, address, join.run, join.secret, turn, deadline, search));
        turn = turn + next_one_after;
    }
    Task<void> all = runtime::all_of(std::move(asks));
    co_await runtime::first_of(std::move(all), search.ended.wait());
    if (search.found) co_return *std::move(search.found);
    const ErrorKind kind = search.last.kind();
    if (kind == ErrorKind::conflict || kind == ErrorKind::denied) co_return std::move(search.last);
    co_return make_error(search.last.kind(),
                         "no peer of the run gave its run file; is one running, and can this "
                         "machine reach it?{}{}",
                         search.reasons,
                         what_may_help(join.addresses));
}

struct Session::State {
    explicit State(SessionOptions given, p2p::LockedIdentity identity)
        : options(std::move(given)),
          locked(std::move(identity)),
          identity_signer(locked.identity()) {}

    // A network whose caps are looked at, or without caps the line itself.
    runtime::Network& network() {
        if (limited) return *limited;
        return *line;
    }
    void look_at_caps();
    void set_planned_caps();
    Task<void> keep_to_caps();

    SessionOptions options;
    p2p::LockedIdentity locked;
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
    std::unique_ptr<Collaboration> collaboration;
    std::thread thread;
};

void Session::State::look_at_caps() {
    const runtime::LineCaps caps = options.caps(clock->wall_now());
    if (caps == limited->caps()) return;
    limited->set_caps(caps);
    if (collaboration) set_planned_caps();
}

void Session::State::set_planned_caps() {
    const runtime::LineCaps& caps = limited->caps();
    collaboration->set_caps(caps.up * planned_share_of_cap, caps.down * planned_share_of_cap);
}

// A wait for the next change would miss that somebody sets the clock, or that summer ends.
Task<void> Session::State::keep_to_caps() {
    for (;;) {
        co_await clock->sleep_for(caps_look_interval);
        look_at_caps();
    }
}

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
    if (!options.congestion_control.empty())
        DEDLOC_TRY_VOID(runtime::may_use_congestion_control(options.congestion_control));
    DEDLOC_TRY(auto disk, runtime::real_disk(options.directory));
    DEDLOC_TRY(p2p::LockedIdentity identity, p2p::load_or_create_identity(options.directory));
    auto state = std::make_unique<State>(std::move(options), std::move(identity));
    const runtime::Executor executor = state->loop.executor();
    state->disk = std::move(disk);
    state->clock = runtime::real_clock(executor);
    state->line = runtime::real_network(executor, state->options.congestion_control);
    if (state->options.caps) {
        state->limited = std::make_unique<runtime::LimitedNetwork>(*state->line, *state->clock);
        state->look_at_caps();
    }
    state->port_mapper = runtime::router_port_mapper(executor, *state->clock);
    state->workers = runtime::real_workers(executor, workers_wanted(state->options.workers_count));
    state->scope = std::make_unique<runtime::Scope>(executor);
    state->spawn = runtime::spawner(state->loop, *state->scope);
    state->thread = std::thread([loop = &state->loop] {
        runtime::raise_thread_priority();
        loop->run();
    });
    std::unique_ptr<Session> session(new Session(std::move(state)));
    State& s = *session->state_;
    DEDLOC_TRY_VOID(session->there([&s]() -> Result<void> {
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
        if (s.limited) s.scope->spawn("keep to the caps", s.keep_to_caps());
        for (const std::string& relay : s.options.relays)
            s.scope->spawn("stay connected to a relay", p2p::keep_connected(*s.host, relay));
        return {};
    }));
    return session;
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}

namespace {

// The tasks of callers may wait inside the collaboration: they end first.
Task<Result<void>> stop_all(runtime::Scope& scope, Collaboration* collaboration, p2p::Host* host) {
    co_await scope.stop();
    if (collaboration != nullptr) co_await collaboration->stop();
    if (host != nullptr) co_await host->stop();
    co_return Result<void>();
}

}  // namespace

Session::~Session() {
    State& s = *state_;
    // A scope of its own, because this task stops the other one.
    auto closing = there([&s] { return std::make_unique<runtime::Scope>(s.loop.executor()); });
    std::future<Result<void>> stopped =
        runtime::spawn_future(runtime::spawner(s.loop, *closing),
                              "stop",
                              stop_all(*s.scope, s.collaboration.get(), s.host.get()));
    stopped.wait();
    // The task's very last instructions run after its promise is kept.
    while (there([&closing] { return closing->running(); }) > 0) std::this_thread::yield();
    there([&s, &closing] {
        closing.reset();
        s.collaboration.reset();
        s.host.reset();
        s.scope.reset();
    });
    s.loop.stop();
    s.thread.join();
    s.workers.reset();
}

void Session::post(std::function<void()> work) const { state_->loop.post(std::move(work)); }

const PeerId& Session::id() const { return state_->signer.id(); }
runtime::Clock& Session::clock() const { return *state_->clock; }
runtime::Disk& Session::disk() const { return *state_->disk; }
p2p::Host& Session::host() const { return *state_->host; }
runtime::LineCaps Session::caps() const {
    return state_->limited ? state_->limited->caps() : runtime::LineCaps{};
}
const runtime::Spawn& Session::spawn() const { return state_->spawn; }

runtime::Node Session::node() const {
    return {.executor = state_->loop.executor(),
            .clock = *state_->clock,
            .disk = *state_->disk,
            .workers = *state_->workers,
            .random = state_->random.fork("node")};
}

Result<Invitation> Session::invitation(const std::string& join_text, Duration patience) {
    DEDLOC_TRY(JoinString join, parse_join_string(join_text));
    Invitation invitation;
    invitation.secret = join.secret;
    invitation.bootstrap = join.addresses;
    DEDLOC_TRY(invitation.run,
               call("fetch the run file",
                    fetch_run_file(host(), clock(), std::move(join), clock().now() + patience)));
    return invitation;
}

Result<Bytes> Session::attachment(const Invitation& invitation,
                                  const Digest& hash,
                                  std::size_t bytes_max,
                                  Duration patience) {
    AttachmentWish wish{.run = run_hash(invitation.run),
                        .secret = invitation.secret,
                        .peers = invitation.bootstrap,
                        .hash = hash,
                        .bytes_max = bytes_max};
    return call("fetch a file of the run",
                fetch_attachment(host(), std::move(wish), clock().now() + patience));
}

namespace {

Task<Result<void>> start(Collaboration& collaboration) { co_return co_await collaboration.start(); }

Task<Result<void>> part(Collaboration& collaboration, Duration patience) {
    co_await collaboration.leave(patience);
    co_return Result<void>();
}

}  // namespace

Result<void> Session::begin(Options options,
                            EventSink* events,
                            const std::function<bool()>& goes_on) {
    State& s = *state_;
    DEDLOC_CHECK(!s.collaboration, "a session has one collaboration");
    DEDLOC_TRY_VOID(there([&]() -> Result<void> {
        DEDLOC_TRY(
            s.collaboration,
            Collaboration::make(node(), *s.host, s.signer, s.verifier, std::move(options), events));
        if (s.limited) s.set_planned_caps();
        return {};
    }));
    auto started = runtime::spawn_future(spawn(), "start", start(*s.collaboration));
    while (goes_on && started.wait_for(goes_on_interval) != std::future_status::ready)
        if (!goes_on())
            return make_error(ErrorKind::cancelled, "it was ended before it had the run's state");
    return runtime::wait_for_result(started);
}

Collaboration& Session::collaboration() const {
    DEDLOC_CHECK(state_->collaboration != nullptr, "begin() first");
    return *state_->collaboration;
}

void Session::leave(Duration patience) {
    const Result<void> left = call("leave", part(collaboration(), patience));
    (void)left;  // cancelled: somebody stopped the session meanwhile, which is leaving too
}

}  // namespace dedloc::collab
