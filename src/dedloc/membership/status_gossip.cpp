#include "dedloc/membership/status_gossip.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dedloc/base/fields.h"
#include "dedloc/base/printable.h"
#include "dedloc/membership/hello_message.h"
#include "dedloc/membership/peers_to_dial.h"
#include "dedloc/wire/message.h"

namespace dedloc::membership {
namespace {

constexpr std::string_view status_domain = "dedloc-status";
constexpr Duration push_timeout = 2s;
constexpr Duration between_steps = 2ms;   // at most, from one applied to the next one begun
constexpr std::size_t told_at_once = 2;   // statuses in a reply
constexpr Duration newcomers_pause = 1s;  // between two newcomers that somebody is told of
constexpr Duration others_pause = 2s;     // between two of others
constexpr Duration newcomer_for = 5s;     // told of before others
constexpr Duration own_status_age_max = 50ms;
// An honest one has less than 3 KiB: its addresses.
constexpr std::size_t signed_status_bytes_max = 6u << 10;
// Statuses of one process may overtake each other, but not by so many.
constexpr std::uint64_t restart_distance = 1000;
// A process that was started again, with a clock that was set back, says older things once.
constexpr Duration falls_again_within = 60s;
constexpr Duration is_two_for = 10s;

// The head tells whether a status is news: most of what peers tell of others is not.
struct StatusHead {
    PeerId peer;
    std::uint64_t incarnation = 0;
    std::uint64_t sequence = 0;
    DEDLOC_FIELDS(peer, incarnation, sequence)
};

// A value that is no number, or none that an honest peer tells, must not reach sums and
// comparisons.
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
        *text = base::printable(*text, status_name_bytes_max);
}

}  // namespace

StatusGossip::StatusGossip(runtime::Node node,
                           p2p::Host& host,
                           const security::Signer& signer,
                           const security::Verifier& verifier,
                           PeerTable& table,
                           Random& random,
                           runtime::Scope& scope,
                           Duration interval,
                           Callbacks callbacks)
    : node_(node),
      host_(host),
      signer_(signer),
      verifier_(verifier),
      table_(table),
      random_(random),
      scope_(scope),
      told_lately_(interval / 10),
      callbacks_(std::move(callbacks)) {}

const Bytes& StatusGossip::own_signed_status() {
    if (!own_status_.empty() && node_.clock.now() - own_status_at_ <= own_status_age_max)
        return own_status_;
    SignedStatus message;
    own_ = callbacks_.own_status();
    message.payload = wire::encode(own_);
    message.signature = signer_.sign(status_domain, message.payload);
    own_status_ = wire::encode(message);
    own_status_at_ = node_.clock.now();
    return own_status_;
}

// A peer that says so itself may have been started again with a clock that was set back.
bool StatusGossip::is_old(const KnownPeer& known,
                          std::uint64_t incarnation,
                          std::uint64_t sequence,
                          bool from_itself) const {
    if (known.signed_status.empty() || known.status.incarnation != incarnation) return false;
    if (sequence > known.status.sequence) return false;
    return !from_itself || known.status.sequence - sequence < restart_distance;
}

Ok StatusGossip::take(ByteView signed_status, const PeerId* from) {
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
    if (!table_.make_room_for(head.peer, heard_of_for)) return {};
    KnownPeer* const known = table_.find(head.peer);
    if (known != nullptr && is_old(*known, head.incarnation, head.sequence, from != nullptr)) {
        if (from != nullptr) known->received = node_.clock.now();
        return {};
    }
    if (known != nullptr && from != nullptr && !known->signed_status.empty())
        find_a_second(*known, head.sequence);
    DEDLOC_TRY(Status status, wire::decode<Status>(message.payload));
    make_sound(status);
    if (!verifier_.verify(status.peer, status_domain, message.payload, message.signature))
        return make_error(ErrorKind::peer_broke_protocol, "a status with a wrong signature");
    KnownPeer& entry = table_.entry_of(status.peer);
    // Nobody dials a peer that is connected: the same addresses once more can wait.
    if (status.addresses != entry.status.addresses || !host_.is_connected(status.peer))
        host_.add_addresses(status.peer, addresses_to_dial(status.addresses, host_.addresses()));
    const Status before = std::exchange(entry.status, std::move(status));
    entry.note_speed();
    entry.signed_status = to_bytes(signed_status);
    entry.status_at = node_.clock.now();
    // A peer's own word makes it live; what others tell of it does not.
    if (from != nullptr) entry.received = node_.clock.now();
    if (entry.member) callbacks_.on_status(before, entry.status);
    return {};
}

// Each process counts on from the milliseconds of its start: two that speak in turn go back and
// forth between two counts.
void StatusGossip::find_a_second(KnownPeer& known, std::uint64_t sequence) const {
    if (sequence + restart_distance > known.status.sequence) return;
    const TimePoint now = node_.clock.now();
    const bool again = known.fell_back > TimePoint{} && now - known.fell_back < falls_again_within;
    known.fell_back = now;
    if (again) known.is_two_until = now + is_two_for;
}

std::optional<Error> StatusGossip::key_used_twice(const PeerId& peer) const {
    const KnownPeer* const known = table_.find(peer);
    if (known == nullptr || known->is_two_until <= node_.clock.now()) return std::nullopt;
    return make_error(
        ErrorKind::conflict,
        "the key of {} is used by two processes at once: a peer's folder was copied, "
        "perhaps. Neither can take part like that: end one of them, and give it a "
        "folder of its own (--dir), and a token of its own where the run asks for one",
        peer.short_text());
}

Task<Result<Bytes>> StatusGossip::on_push(PeerId from, Bytes request) {
    if (!table_.is_member(from)) co_return not_greeted();
    DEDLOC_CO_TRY_VOID(take(request, &from));
    if (auto twice = key_used_twice(from)) co_return *std::move(twice);
    KnownPeer& asker = table_.entry_of(from);
    const Bytes* const another = status_to_tell(asker);
    HelloMessage reply;
    if (another != nullptr || !knows_already(asker)) reply.statuses.push_back(own_signed_status());
    if (another != nullptr) reply.statuses.push_back(*another);
    co_return wire::encode(reply);
}

bool StatusGossip::knows_already(const KnownPeer& asker) {
    if (!asker.told || node_.clock.now() - asker.told->at >= told_lately_) return false;
    (void)own_signed_status();
    return asker.told->status.says_as_much_as(own_);
}

// Picks a newcomer's, if there is one, else any other member's. Drawn, as a peer that asks in turn
// and is answered in turn might hear of the same few for ever.
const Bytes* StatusGossip::status_to_tell(KnownPeer& asker) {
    const TimePoint now = node_.clock.now();
    if (now < asker.told_of_another + newcomers_pause) return nullptr;
    std::vector<const Bytes*> newcomers;
    std::vector<const Bytes*> others;
    for (const auto& [peer, known] : table_.all()) {
        if (!known.member || &known == &asker || known.signed_status.empty()) continue;
        const bool is_new = now < known.first_heard_of + newcomer_for;
        (is_new ? newcomers : others).push_back(&known.signed_status);
    }
    if (newcomers.empty() && now < asker.told_of_another + others_pause) return nullptr;
    asker.told_of_another = now;
    const std::vector<const Bytes*>& from = newcomers.empty() ? others : newcomers;
    return from.empty() ? nullptr : from[random_.below(from.size())];
}

// Until the push has failed the member has it: it is on its way.
void StatusGossip::note_told(const PeerId& peer) {
    if (KnownPeer* const known = table_.find(peer)) known->told = {own_, node_.clock.now()};
}

void StatusGossip::receive_reply(ByteView reply, const PeerId& from) {
    const auto statuses = wire::decode<HelloMessage>(reply);
    if (!statuses) return;
    // Even a reply with nothing new says that the peer is there.
    if (KnownPeer* const known = table_.find(from)) known->received = node_.clock.now();
    for (std::size_t i = 0; i < statuses->statuses.size() && i < told_at_once; ++i)
        (void)take(statuses->statuses[i], i == 0 ? &from : nullptr);
}

// A step is applied in one moment and the next one begun in the next: that is one thing to tell.
// News of samples is never late, as a contribution is judged by it.
void StatusGossip::push_to_all() {
    const Status status = callbacks_.own_status();
    const bool goes_on_at_once = own_.phase == Phase::averaging &&
                                 status.phase == Phase::averaging && status.step > own_.step;
    if (!goes_on_at_once) return push_to_each();
    own_status_.clear();
    if (!std::exchange(push_is_due_, true)) scope_.spawn("push soon", push_soon());
}

Task<void> StatusGossip::push_soon() {
    co_await node_.clock.sleep_for(between_steps);
    if (push_is_due_) push_to_each();
}

// Signed when there is somebody to be told: alone, phases change many times a second.
void StatusGossip::push_to_each() {
    push_is_due_ = false;
    own_status_.clear();
    for (const auto& [peer, known] : table_.all()) {
        if (!known.member) continue;
        const auto [pushing, first] = pushing_.emplace(peer, false);
        if (first)
            scope_.spawn("push status", push_to(peer));
        else
            pushing->second = true;
    }
}

Task<void> StatusGossip::push_to(PeerId peer) {
    bool again = true;
    while (again) {
        pushing_[peer] = false;
        Bytes status = own_signed_status();
        note_told(peer);
        const TimePoint deadline = node_.clock.now() + push_timeout;
        auto reply = co_await host_.call(peer, status_method, std::move(status), deadline);
        again = pushing_[peer] && reply.has_value();
        if (reply) {
            receive_reply(*reply, peer);
            continue;
        }
        if (KnownPeer* const known = table_.find(peer)) known->told.reset();
        if (reply.error().kind() == ErrorKind::denied)
            callbacks_.on_forgotten_by(peer);
        else if (reply.error().kind() == ErrorKind::conflict)
            callbacks_.on_key_used_twice(reply.error());
    }
    pushing_.erase(peer);
}

}  // namespace dedloc::membership
