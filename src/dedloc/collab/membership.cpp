#include "dedloc/collab/membership.h"

#include <algorithm>
#include <cmath>

#include "dedloc/base/log.h"
#include "dedloc/base/printable.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {
namespace {

constexpr std::string_view status_domain = "dedloc-status";
constexpr Duration call_patience = 2s;
constexpr Duration hello_patience = 5s;
constexpr Duration meet_again_after = 2s;
constexpr Duration overloaded_pause = 5s;  // until one that knows enough peers is asked again
constexpr std::size_t told_at_once = 2;    // statuses in a reply
constexpr Duration told_pause = 1s;        // between two of others
constexpr Duration newcomer_for = 5s;      // told of before others
constexpr Duration own_status_age_max = 50ms;
// An honest one has less than 3 KiB: its addresses.
constexpr std::size_t signed_status_bytes_max = 6u << 10;
constexpr std::size_t told_at_hello_bytes_max = 3u << 20;  // statuses; an answer holds 4 MiB
constexpr std::size_t name_letters_max = 32;               // of a peer, and of its version
// In a join string, which people send each other.
constexpr std::size_t own_direct_told = 4;
constexpr std::size_t own_relayed_told = 2;
constexpr Duration heard_of_for = 120s;    // one that never proved itself is known
constexpr Duration member_for = 24h;       // one that did, and is out of reach
constexpr Duration meet_again_most = 60s;  // between two tries to reach it
constexpr Duration alone_most = 10s;       // the same, where no member is in reach
// Statuses of one process may overtake each other, but not by so many.
constexpr std::uint64_t restart_distance = 1000;

bool is_relayed(std::string_view address) {
    return address.find("/p2p-circuit") != std::string_view::npos;
}

// What tells whether a status is news: most of what peers tell of others is not.
struct StatusHead {
    PeerId peer;
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.peer);
        visit(2, self.incarnation);
        visit(3, self.sequence);
    }
};

// What is no number, or none that an honest peer tells, must not reach sums and comparisons.
void make_sound(Status& status) {
    for (double* value : {&status.branch_samples,
                          &status.samples_per_s,
                          &status.micro_batch_s,
                          &status.upload_bytes_per_s,
                          &status.download_bytes_per_s,
                          &status.round_trip_s,
                          &status.loss,
                          &status.accuracy,
                          &status.progress})
        if (!std::isfinite(*value) || *value < 0) *value = 0;
    for (double* part : {&status.accuracy, &status.progress}) *part = std::min(*part, 1.0);
    if (status.loss > loss_told_max) status.loss = 0;
    for (std::string* text : {&status.name, &status.version})
        *text = base::printable(*text, name_letters_max);
}

Error denied() {
    return make_error(ErrorKind::denied, "say hello first: this run does not know you");
}

Error knows_enough(std::size_t peers) {
    return make_error(ErrorKind::overloaded,
                      "this run is full: {} peers are known already, as many as one keeps in touch "
                      "with; try again when some have left, or start a run of your own",
                      peers);
}

}  // namespace

std::string_view to_string(Role role) {
    switch (role) {
        case Role::trainer:
            return "trainer";
        case Role::aggregator:
            return "aggregator";
        case Role::observer:
            return "observer";
        case Role::relay:
            return "relay";
    }
    return "unknown";
}

std::string_view to_string(Phase phase) {
    switch (phase) {
        case Phase::starting:
            return "starting";
        case Phase::downloading:
            return "downloading";
        case Phase::computing:
            return "computing";
        case Phase::averaging:
            return "averaging";
        case Phase::waiting:
            return "waiting";
        case Phase::leaving:
            return "leaving";
    }
    return "unknown";
}

Membership::Membership(runtime::Node node,
                       p2p::Host& host,
                       const security::Signer& signer,
                       const security::Verifier& verifier,
                       const RunFile& run,
                       Bytes secret,
                       Duration status_interval,
                       std::size_t peers_most,
                       Callbacks callbacks)
    : node_(node),
      host_(host),
      signer_(signer),
      verifier_(verifier),
      run_(run),
      run_hash_(run_hash(run)),
      secret_(std::move(secret)),
      status_interval_(status_interval),
      peers_most_(peers_most),
      callbacks_(std::move(callbacks)),
      random_(node.random.fork("hello nonces")),
      wake_(node.executor),
      handlers_(host),
      scope_(node.executor) {}

Membership::~Membership() = default;

void Membership::start() {
    handlers_.on_call(hello_method, [this](PeerId from, Bytes request) {
        return on_hello(from, std::move(request));
    });
    handlers_.on_call(prove_method, [this](PeerId from, Bytes request) {
        return on_prove(from, std::move(request));
    });
    handlers_.on_call(status_method, [this](PeerId from, Bytes request) {
        return on_status(from, std::move(request));
    });
    handlers_.on_call(run_file_method, [this](PeerId from, Bytes request) {
        return on_run_file(from, std::move(request));
    });
    handlers_.on_connection([this](const PeerId& peer, bool connected) {
        if (connected) return;
        const auto known = peers_.find(peer);
        if (known == peers_.end() || !known->second.member) return;
        set_member(known->second, false);
        // Try at once: a broken connection to a live peer is mended before a round misses it.
        meeting_[peer] = node_.clock.now();
        callbacks_.on_lost(known->second.status, known->second.status.phase == Phase::leaving);
        wake_.pulse();
    });
    scope_.spawn("push statuses", push_loop());
}

Task<void> Membership::stop() {
    co_await handlers_.stop();
    co_await scope_.stop();
}

// ---- hello --------------------------------------------------------------------------------------

Error Membership::different_run(const PeerId& peer, std::string_view their_run_file) const {
    const auto theirs = parse_run_file(their_run_file, "their run file");
    std::string text;
    if (theirs)
        for (const std::string& difference : differences(run_, *theirs))
            text += "\n  " + difference;
    return make_error(ErrorKind::conflict,
                      "peer {} trains another run; both must use the same run file. Differences "
                      "(here, there):{}",
                      peer.short_text(),
                      text.empty() ? " its run file cannot be read" : text);
}

Task<Result<PeerId>> Membership::meet(std::string multiaddr, TimePoint deadline) {
    auto peer = co_await host_.dial(multiaddr, deadline);
    if (!peer) co_return std::move(peer).error();
    const PeerId id = *peer;
    Result<void> greeted = co_await hello(id, deadline);
    if (!greeted) co_return std::move(greeted).error();
    co_return id;
}

Task<Result<void>> Membership::hello(PeerId peer, TimePoint deadline) {
    Bytes nonce = random_.bytes(hello_nonce_bytes);
    auto said = co_await say_hello(host_, peer, secret_, std::move(nonce), deadline);
    if (!said) co_return std::move(said).error();
    HelloMessage prove = *std::move(said);
    prove.run = run_hash_;
    prove.statuses.push_back(own_signed_status());
    Bytes prove_bytes = wire::encode(prove);
    auto welcome = co_await host_.call(peer, prove_method, std::move(prove_bytes), deadline);
    if (!welcome) co_return std::move(welcome).error();
    DEDLOC_CO_TRY(const HelloMessage others, wire::decode<HelloMessage>(*welcome));
    if (!others.run_file.empty()) co_return different_run(peer, others.run_file);
    for (const Bytes& status : others.statuses) (void)take_status(status, nullptr);
    admit(peer);
    if (!is_member(peer)) co_return knows_enough(peers_most_);
    wake_.pulse();
    co_return Result<void>();
}

Task<Result<Bytes>> Membership::on_hello(PeerId from, Bytes request) {
    DEDLOC_CO_TRY(const HelloMessage hello, wire::decode<HelloMessage>(request));
    if (hello.nonce.size() != hello_nonce_bytes)
        co_return make_error(ErrorKind::peer_broke_protocol, "a hello needs a nonce of 16 bytes");
    HelloMessage reply;
    const auto own = pending_.find(from);
    if (own != pending_.end() && own->second.size() == hellos_of_one_max)
        forget_oldest(own);
    else if (pending_count_ == pending_hellos_max)
        forget_a_hello();
    reply.nonce = random_.bytes(hello_nonce_bytes);
    reply.proof = hello_proof(secret_, host_.id(), from, hello.nonce, reply.nonce);
    pending_[from].push_back(Pending{reply.nonce, hello.nonce, hello.run, node_.clock.now()});
    ++pending_count_;
    co_return wire::encode(reply);
}

// The oldest of the peer that has most of them. Who means it proves within a round trip: however
// many hellos of a stranger come to nothing, they shut nobody else out.
void Membership::forget_a_hello() {
    const auto most = std::ranges::max_element(pending_, {}, [](const auto& entry) {
        return std::pair(entry.second.size(), -entry.second.front().at.since_start);
    });
    forget_oldest(most);
}

void Membership::forget_oldest(std::map<PeerId, std::deque<Pending>>::iterator of_peer) {
    of_peer->second.pop_front();
    --pending_count_;
    if (of_peer->second.empty()) pending_.erase(of_peer);
}

// The hello that we answered with `nonce_ours`; it is good for once.
std::optional<Membership::Pending> Membership::take_pending(const PeerId& peer,
                                                            const Bytes& nonce_ours) {
    const auto of_peer = pending_.find(peer);
    if (of_peer == pending_.end()) return std::nullopt;
    const auto pending = std::ranges::find(of_peer->second, nonce_ours, &Pending::nonce_ours);
    if (pending == of_peer->second.end()) return std::nullopt;
    Pending hello = std::move(*pending);
    of_peer->second.erase(pending);
    --pending_count_;
    if (of_peer->second.empty()) pending_.erase(of_peer);
    return hello;
}

Task<Result<Bytes>> Membership::on_prove(PeerId from, Bytes request) {
    DEDLOC_CO_TRY(const HelloMessage prove, wire::decode<HelloMessage>(request));
    const auto hello = take_pending(from, prove.nonce);
    if (!hello) co_return make_error(ErrorKind::overloaded, "that hello has expired; say it again");
    const Bytes expected = hello_proof(secret_, from, host_.id(), hello->nonce_theirs, prove.nonce);
    if (!security::equal_in_constant_time(prove.proof, expected))
        co_return make_error(ErrorKind::denied,
                             "the run's secret in your join string is not this run's; ask for a "
                             "fresh join string");
    host_.vouch(from);
    HelloMessage reply;
    const Digest& theirs = prove.run == Digest{} ? hello->run : prove.run;
    if (theirs != run_hash_ || prove.wants_run_file != 0) {
        reply.run = run_hash_;
        reply.run_file = to_toml(run_);
        co_return wire::encode(reply);
    }
    if (!make_room_for_member(from)) co_return knows_enough(peers_most_);
    reply.statuses.push_back(own_signed_status());
    std::size_t bytes = 0;
    for (const auto& [peer, known] : peers_) {
        if (!known.member || peer == from || !fresh(known)) continue;
        bytes += known.signed_status.size();
        if (bytes > told_at_hello_bytes_max) break;  // it hears of the others soon
        reply.statuses.push_back(known.signed_status);
    }
    for (const Bytes& status : prove.statuses) (void)take_status(status, &from);
    admit(from);
    co_return wire::encode(reply);
}

// In the place of one that is out of reach and silent for so long: who never proved itself first.
bool Membership::make_room_for(const PeerId& peer, Duration silent_for) {
    if (peers_.size() < peers_most_ || peers_.contains(peer)) return true;
    const TimePoint heard_before = node_.clock.now() - silent_for;
    const auto goes_before = [](const KnownPeer& left, const KnownPeer& right) {
        if (left.was_member != right.was_member) return right.was_member;
        return left.received < right.received;
    };
    auto goes = peers_.end();
    for (auto entry = peers_.begin(); entry != peers_.end(); ++entry) {
        const KnownPeer& known = entry->second;
        if (known.member || known.received > heard_before) continue;
        if (goes == peers_.end() || goes_before(known, goes->second)) goes = entry;
    }
    if (goes == peers_.end()) return false;
    meeting_.erase(goes->first);
    peers_.erase(goes);
    return true;
}

// One that has proved itself has a place before those that are only heard of.
bool Membership::make_room_for_member(const PeerId& peer) {
    return make_room_for(peer, Duration(0));
}

void Membership::admit(const PeerId& peer) {
    if (!make_room_for_member(peer)) return;
    const bool is_new = !peers_.contains(peer);
    KnownPeer& known = peers_[peer];
    known.status.peer = peer;
    known.received = node_.clock.now();
    if (is_new) known.first_heard_of = node_.clock.now();
    meeting_.erase(peer);
    if (known.member) return;
    set_member(known, true);
    callbacks_.on_joined(known.status);
}

void Membership::set_member(KnownPeer& known, bool member) {
    known.member = member;
    if (member) known.was_member = true;
    host_.protect(known.status.peer, member);
}

Task<Result<Bytes>> Membership::on_run_file(PeerId from, Bytes) {
    if (!is_member(from)) co_return denied();
    co_return to_bytes(to_toml(run_));
}

// ---- statuses -----------------------------------------------------------------------------------

const Bytes& Membership::own_signed_status() {
    if (!own_status_.empty() && node_.clock.now() - own_status_at_ <= own_status_age_max)
        return own_status_;
    SignedStatus message;
    message.payload = wire::encode(callbacks_.own_status());
    message.signature = signer_.sign(status_domain, message.payload);
    own_status_ = wire::encode(message);
    own_status_at_ = node_.clock.now();
    return own_status_;
}

// A peer that says so itself may have been started again with a clock that was set back.
bool Membership::is_old(const KnownPeer& known,
                        std::uint64_t incarnation,
                        std::uint64_t sequence,
                        bool from_itself) const {
    if (known.signed_status.empty() || known.status.incarnation != incarnation) return false;
    if (sequence > known.status.sequence) return false;
    return !from_itself || known.status.sequence - sequence < restart_distance;
}

Ok Membership::take_status(ByteView signed_status, const PeerId* from) {
    if (signed_status.size() > signed_status_bytes_max)
        return make_error(ErrorKind::peer_broke_protocol,
                          "a status of {} bytes, more than {}",
                          signed_status.size(),
                          signed_status_bytes_max);
    DEDLOC_TRY(const SignedStatus message, wire::decode<SignedStatus>(signed_status));
    DEDLOC_TRY(const StatusHead head, wire::decode<StatusHead>(message.payload));
    if (head.peer == host_.id() || head.peer.is_empty()) return {};
    if (from != nullptr && head.peer != *from)
        return make_error(ErrorKind::peer_broke_protocol, "a status of somebody else");
    const auto known = peers_.find(head.peer);
    if (!make_room_for(head.peer, heard_of_for)) return {};
    if (known != peers_.end() &&
        is_old(known->second, head.incarnation, head.sequence, from != nullptr)) {
        if (from != nullptr) known->second.received = node_.clock.now();
        return {};
    }
    DEDLOC_TRY(Status status, wire::decode<Status>(message.payload));
    make_sound(status);
    if (!verifier_.verify(status.peer, status_domain, message.payload, message.signature))
        return make_error(ErrorKind::peer_broke_protocol, "a status with a wrong signature");
    const bool is_new = known == peers_.end();
    KnownPeer& entry = peers_[status.peer];
    const Status before = entry.status;
    host_.add_addresses(status.peer, status.addresses);
    entry.status = std::move(status);
    entry.samples_per_s_most = std::max(entry.samples_per_s_most, entry.status.samples_per_s);
    entry.signed_status = to_bytes(signed_status);
    entry.status_at = node_.clock.now();
    // What others tell of a peer does not make it live; its own word does. A peer that is news
    // starts its time until drop_stale() now: the real clock does not begin at zero.
    if (from != nullptr || is_new) entry.received = node_.clock.now();
    if (is_new) entry.first_heard_of = node_.clock.now();
    if (entry.member) callbacks_.on_status(before, entry.status);
    return {};
}

Task<Result<Bytes>> Membership::on_status(PeerId from, Bytes request) {
    if (!is_member(from)) co_return denied();
    DEDLOC_CO_TRY_VOID(take_status(request, &from));
    const TimePoint now = node_.clock.now();
    KnownPeer& asker = peers_[from];
    HelloMessage reply;
    reply.statuses.push_back(own_signed_status());
    if (now >= asker.told_of_another + told_pause) {
        if (const Bytes* another = status_to_tell(from)) reply.statuses.push_back(*another);
        asker.told_of_another = now;
    }
    co_return wire::encode(reply);
}

// Of a newcomer, if there is one, else of any other member. Drawn, as who asks in turn and is
// answered in turn might hear of the same few for ever.
const Bytes* Membership::status_to_tell(const PeerId& asker) {
    const TimePoint now = node_.clock.now();
    std::vector<const Bytes*> newcomers;
    std::vector<const Bytes*> others;
    for (const auto& [peer, known] : peers_) {
        if (!known.member || peer == asker || known.signed_status.empty()) continue;
        const bool is_new = now < known.first_heard_of + newcomer_for;
        (is_new ? newcomers : others).push_back(&known.signed_status);
    }
    const std::vector<const Bytes*>& from = newcomers.empty() ? others : newcomers;
    return from.empty() ? nullptr : from[random_.below(from.size())];
}

void Membership::take_statuses(ByteView reply, const PeerId& from) {
    const auto statuses = wire::decode<HelloMessage>(reply);
    if (!statuses) return;
    for (std::size_t i = 0; i < statuses->statuses.size() && i < told_at_once; ++i)
        (void)take_status(statuses->statuses[i], i == 0 ? &from : nullptr);
}

bool Membership::fresh(const KnownPeer& peer) const {
    const Duration age_max = std::max<Duration>(status_interval_ * 6, 3s);
    return node_.clock.now() - peer.received < age_max;
}

bool Membership::is_member(const PeerId& peer) const {
    const auto known = peers_.find(peer);
    return known != peers_.end() && known->second.member;
}

const KnownPeer* Membership::find(const PeerId& peer) const {
    const auto known = peers_.find(peer);
    return known == peers_.end() ? nullptr : &known->second;
}

std::vector<const KnownPeer*> Membership::live() const {
    std::vector<const KnownPeer*> live;
    for (const auto& [peer, known] : peers_)
        if (known.member && fresh(known)) live.push_back(&known);
    return live;
}

std::vector<std::string> Membership::known_addresses(std::size_t peers_told) const {
    std::vector<std::string> all;
    const auto add = [&all](const std::vector<std::string>& addresses,
                            const PeerId& peer,
                            std::size_t direct_max,
                            std::size_t relayed_max) {
        for (const std::string& address : addresses) {
            std::size_t& left = is_relayed(address) ? relayed_max : direct_max;
            if (left == 0) continue;
            --left;
            all.push_back(address + "/p2p/" + peer.text());
        }
    };
    add(host_.addresses(), host_.id(), own_direct_told, own_relayed_told);
    std::vector<const KnownPeer*> others = live();
    std::erase_if(others, [](const KnownPeer* peer) {
        return peer->status.addresses.empty() || peer->status.role == Role::observer;
    });
    std::ranges::stable_sort(others, {}, [](const KnownPeer* peer) {
        const bool relayed = std::ranges::any_of(peer->status.addresses, is_relayed);
        return std::make_pair(peer->status.role != Role::relay, relayed);
    });
    for (std::size_t i = 0; i < others.size() && i + 1 < peers_told; ++i)
        add(others[i]->status.addresses, others[i]->status.peer, 1, 1);
    return all;
}

// ---- the loop -----------------------------------------------------------------------------------

void Membership::push_now() {
    if (!scope_.stopping()) push_to_all();
}

// Signed when there is somebody to be told: alone, phases change many times a second.
void Membership::push_to_all() {
    own_status_.clear();
    next_push_ = node_.clock.now() + status_interval_;
    for (const auto& [peer, known] : peers_) {
        if (!known.member) continue;
        const auto [pushing, first] = pushing_.emplace(peer, false);
        if (first)
            scope_.spawn("push status", push_to(peer));
        else
            pushing->second = true;
    }
}

// One push at a time to a peer; what became news meanwhile follows at once, and only the newest.
Task<void> Membership::push_to(PeerId peer) {
    bool again = true;
    while (again) {
        pushing_[peer] = false;
        Bytes status = own_signed_status();
        const TimePoint deadline = node_.clock.now() + call_patience;
        auto reply = co_await host_.call(peer, status_method, std::move(status), deadline);
        again = pushing_[peer] && reply.has_value();
        if (reply) {
            take_statuses(*reply, peer);
        } else if (reply.error().kind() == ErrorKind::denied) {
            // It restarted, or lost the connection that hello was said on.
            const auto known = peers_.find(peer);
            if (known != peers_.end()) set_member(known->second, false);
            meeting_[peer] = node_.clock.now();
        }
    }
    pushing_.erase(peer);
}

Task<void> Membership::meet_again(PeerId peer) {
    const TimePoint deadline = node_.clock.now() + hello_patience;
    const Result<void> greeted = co_await hello(peer, deadline);
    if (greeted) co_return;
    const bool overloaded = greeted.error().kind() == ErrorKind::overloaded;
    if (!peers_.contains(peer)) co_return;  // forgotten meanwhile
    meeting_[peer] =
        node_.clock.now() + (overloaded ? overloaded_pause : until_met_again(peers_.at(peer)));
}

// The longer nothing came, the rarer it is tried. Who is alone cannot wait to hear of the others.
Duration Membership::until_met_again(const KnownPeer& peer) const {
    const Duration silence = node_.clock.now() - peer.received;
    const Duration most = live().empty() ? alone_most : meet_again_most;
    return std::clamp<Duration>(silence / 4, meet_again_after, most);
}

void Membership::meet_unmet() {
    const TimePoint now = node_.clock.now();
    for (const auto& [peer, known] : peers_) {
        if (known.member || known.status.phase == Phase::leaving) continue;
        TimePoint& next = meeting_[peer];
        if (next > now) continue;
        next = now + hello_patience + meet_again_after;  // until the try has ended
        scope_.spawn("hello", meet_again(peer));
    }
    for (auto entry = pending_.begin(); entry != pending_.end();) {
        pending_count_ -= std::erase_if(
            entry->second, [now](const Pending& hello) { return now - hello.at > 30s; });
        entry = entry->second.empty() ? pending_.erase(entry) : std::next(entry);
    }
}

// Peers nobody has heard of for long are forgotten, so that the table stays small. Who was a member
// much later: networks fail for an hour, laptops sleep for a night, and who forgot each other would
// go on alone for ever.
void Membership::drop_stale() {
    const TimePoint now = node_.clock.now();
    for (auto entry = peers_.begin(); entry != peers_.end();) {
        const KnownPeer& known = entry->second;
        const bool comes_back = known.was_member && known.status.phase != Phase::leaving;
        const bool stale =
            !known.member && now - known.received > (comes_back ? member_for : heard_of_for);
        if (stale) meeting_.erase(entry->first);
        entry = stale ? peers_.erase(entry) : std::next(entry);
    }
}

Task<void> Membership::push_loop() {
    for (;;) {
        if (node_.clock.now() >= next_push_) push_to_all();  // or news was pushed meanwhile
        meet_unmet();
        drop_stale();
        const TimePoint next = next_push_;
        (void)co_await wake_.wait_until(node_.clock, next);
    }
}

Task<void> Membership::say_goodbye() {
    push_to_all();
    const TimePoint until = node_.clock.now() + 1s;
    while (!pushing_.empty() && node_.clock.now() < until) co_await node_.clock.sleep_for(10ms);
}

}  // namespace dedloc::collab
