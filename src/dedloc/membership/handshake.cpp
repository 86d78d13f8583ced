#include "dedloc/membership/handshake.h"

#include <algorithm>

#include "dedloc/wire/message.h"

namespace dedloc::membership {
namespace {

constexpr Duration proved_within = 30s;
constexpr std::size_t told_at_hello_bytes_max = 3u << 20;  // statuses; an answer holds 4 MiB

Error knows_enough(std::size_t peers) {
    return make_error(ErrorKind::overloaded,
                      "this run is full: {} peers are known already, as many as one keeps in touch "
                      "with; try again when some have left, or start a run of your own",
                      peers);
}

Error too_many_newcomers() {
    return make_error(ErrorKind::overloaded,
                      "many peers join this run just now, and so many are admitted a second; try "
                      "again in a few seconds");
}

}  // namespace

Handshake::Handshake(runtime::Clock& clock,
                     p2p::Host& host,
                     const run::RunFile& run,
                     Authorizer& authorizer,
                     PeerTable& table,
                     StatusGossip& gossip,
                     Random& random,
                     Callbacks callbacks)
    : clock_(clock),
      host_(host),
      run_(run),
      run_hash_(run::run_hash(run)),
      authorizer_(authorizer),
      table_(table),
      gossip_(gossip),
      random_(random),
      callbacks_(std::move(callbacks)) {}

Error Handshake::different_run(const PeerId& peer, std::string_view their_run_file) const {
    const auto theirs = run::parse_run_file(their_run_file, "their run file");
    std::string text;
    if (theirs)
        for (const std::string& difference : run::differences(run_, *theirs))
            text += "\n  " + difference;
    return make_error(ErrorKind::conflict,
                      "peer {} trains another run; both must use the same run file. Differences "
                      "(here, there):{}",
                      peer.short_text(),
                      text.empty() ? " its run file cannot be read" : text);
}

Task<Result<Greeting>> say_hello(
    p2p::Host& host, PeerId peer, Authorizer& authorizer, Bytes nonce, TimePoint deadline) {
    HelloMessage request;
    request.nonce = nonce;
    request.set_protocols(own_protocols());
    Bytes bytes = wire::encode(request);
    auto answer = co_await host.call(peer, hello_method, std::move(bytes), deadline);
    if (!answer) co_return std::move(answer).error();
    DEDLOC_CO_TRY(const HelloMessage reply, wire::decode<HelloMessage>(*answer));
    // First: another version may prove itself in another way.
    Greeting greeting{.prove = {}, .protocol = 0, .protocols = reply.protocols()};
    DEDLOC_CO_TRY(greeting.protocol, agree_on_protocol(own_protocols(), greeting.protocols, peer));
    const Meeting meeting{.caller = host.id(),
                          .callee = peer,
                          .nonce_caller = std::move(nonce),
                          .nonce_callee = reply.nonce};
    // Without a nonce of its own it could show what it heard elsewhere.
    const bool is_whole = reply.nonce.size() == hello_nonce_bytes;
    const ByteView shown = is_whole ? ByteView(reply.proof) : ByteView();
    DEDLOC_CO_TRY_VOID(authorizer.check(meeting, Side::callee, shown));
    greeting.prove.nonce = reply.nonce;
    greeting.prove.proof = authorizer.credential(meeting, Side::caller);
    greeting.prove.oldest_protocol = greeting.prove.newest_protocol = greeting.protocol;
    co_return greeting;
}

Ok Handshake::check_orders(const PeerId& peer) const {
    const std::string why = callbacks_.why_kept_out(peer);
    if (why.empty()) return {};
    return make_error(ErrorKind::denied, "{}", why);
}

Task<Result<void>> Handshake::greet(PeerId peer, TimePoint deadline) {
    DEDLOC_CO_TRY_VOID(check_orders(peer));
    Bytes nonce = random_.bytes(hello_nonce_bytes);
    auto said = co_await say_hello(host_, peer, authorizer_, std::move(nonce), deadline);
    if (!said) co_return std::move(said).error();
    const std::uint64_t protocol = said->protocol;
    HelloMessage prove = std::move(said->prove);
    prove.run = run_hash_;
    prove.statuses.push_back(gossip_.own_signed_status());
    Bytes prove_bytes = wire::encode(prove);
    auto welcome = co_await host_.call(peer, prove_method, std::move(prove_bytes), deadline);
    if (!welcome) co_return std::move(welcome).error();
    DEDLOC_CO_TRY(const HelloMessage others, wire::decode<HelloMessage>(*welcome));
    if (!others.run_file.empty()) co_return different_run(peer, others.run_file);
    for (const Bytes& status : others.statuses) (void)gossip_.take(status, nullptr);
    admit(peer, protocol);
    if (!table_.is_member(peer)) co_return knows_enough(table_.peers_most());
    callbacks_.on_greeted();
    co_return Result<void>();
}

Task<Result<Bytes>> Handshake::on_hello(PeerId from, Bytes request) {
    DEDLOC_CO_TRY(const HelloMessage hello, wire::decode<HelloMessage>(request));
    if (hello.nonce.size() != hello_nonce_bytes)
        co_return make_error(ErrorKind::peer_broke_protocol, "a hello needs a nonce of 16 bytes");
    const auto protocol = agree_on_protocol(hello.protocols(), own_protocols(), host_.id());
    if (!protocol) {
        callbacks_.on_refused(from, protocol.error());
        co_return protocol.error();
    }
    HelloMessage reply;
    reply.nonce = random_.bytes(hello_nonce_bytes);
    reply.set_protocols(own_protocols());
    const Meeting meeting{.caller = from,
                          .callee = host_.id(),
                          .nonce_caller = hello.nonce,
                          .nonce_callee = reply.nonce};
    reply.proof = authorizer_.credential(meeting, Side::callee);
    Pending pending{.nonce_ours = reply.nonce,
                    .nonce_theirs = hello.nonce,
                    .run = hello.run,
                    .at = clock_.now()};
    remember(from, std::move(pending));
    co_return wire::encode(reply);
}

void Handshake::remember(const PeerId& from, Pending hello) {
    const auto own = pending_.find(from);
    if (own != pending_.end() && own->second.size() == hellos_of_one_max)
        forget_oldest(own);
    else if (pending_count_ == pending_hellos_max)
        forget_a_hello();
    pending_[from].push_back(std::move(hello));
    ++pending_count_;
}

// The oldest of the peer that has most of them. A peer that means it proves within a round trip:
// however many hellos of a stranger come to nothing, they shut nobody else out.
void Handshake::forget_a_hello() {
    const auto most = std::ranges::max_element(pending_, {}, [](const auto& entry) {
        return std::pair(entry.second.size(), -entry.second.front().at.since_start);
    });
    forget_oldest(most);
}

void Handshake::forget_oldest(PendingOfPeer of_peer) {
    of_peer->second.pop_front();
    --pending_count_;
    if (of_peer->second.empty()) pending_.erase(of_peer);
}

void Handshake::forget_expired() {
    const TimePoint now = clock_.now();
    for (auto entry = pending_.begin(); entry != pending_.end();) {
        pending_count_ -= std::erase_if(
            entry->second, [now](const Pending& hello) { return now - hello.at > proved_within; });
        entry = entry->second.empty() ? pending_.erase(entry) : std::next(entry);
    }
}

// The hello that we answered with `nonce_ours`; it is good for once.
std::optional<Handshake::Pending> Handshake::take_pending(const PeerId& peer,
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

Task<Result<Bytes>> Handshake::on_prove(PeerId from, Bytes request) {
    DEDLOC_CO_TRY(const HelloMessage prove, wire::decode<HelloMessage>(request));
    const auto hello = take_pending(from, prove.nonce);
    if (!hello) co_return make_error(ErrorKind::overloaded, "that hello has expired; say it again");
    DEDLOC_CO_TRY(const std::uint64_t protocol,
                  agree_on_protocol(prove.protocols(), own_protocols(), host_.id()));
    const Meeting meeting{.caller = from,
                          .callee = host_.id(),
                          .nonce_caller = hello->nonce_theirs,
                          .nonce_callee = prove.nonce};
    if (const Ok admitted = authorizer_.check(meeting, Side::caller, prove.proof); !admitted) {
        callbacks_.on_refused(from, admitted.error());
        co_return admitted.error();
    }
    DEDLOC_CO_TRY_VOID(check_orders(from));
    host_.vouch(from);
    HelloMessage reply;
    const Digest& theirs = prove.run == Digest{} ? hello->run : prove.run;
    if (theirs != run_hash_ || prove.wants_run_file != 0) {
        reply.run = run_hash_;
        reply.run_file = run::to_toml(run_);
        co_return wire::encode(reply);
    }
    if (!table_.may_admit(from)) co_return too_many_newcomers();
    if (!table_.make_room_for_member(from)) co_return knows_enough(table_.peers_most());
    reply.statuses.push_back(gossip_.own_signed_status());
    std::size_t bytes = 0;
    for (const auto& [peer, known] : table_.all()) {
        if (!known.member || peer == from || !table_.is_fresh(known)) continue;
        bytes += known.signed_status.size();
        if (bytes > told_at_hello_bytes_max) break;  // it hears of the others soon
        reply.statuses.push_back(known.signed_status);
    }
    for (const Bytes& status : prove.statuses) (void)gossip_.take(status, &from);
    if (auto twice = gossip_.key_used_twice(from)) co_return *std::move(twice);
    admit(from, protocol);
    co_return wire::encode(reply);
}

void Handshake::admit(const PeerId& peer, std::uint64_t protocol) {
    const bool is_new = table_.admit(peer);
    KnownPeer* const known = table_.find(peer);
    if (known != nullptr) known->protocol = protocol;
    if (is_new) callbacks_.on_joined(known->status);
}

}  // namespace dedloc::membership
