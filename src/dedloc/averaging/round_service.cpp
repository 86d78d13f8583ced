#include "dedloc/averaging/round_service.h"

#include <algorithm>

#include "dedloc/allreduce/plan_check.h"
#include "dedloc/averaging/parts_service.h"
#include "dedloc/consensus/compact_proposal.h"
#include "dedloc/links/messages.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// Reads a member's message; the member is told of it if it cannot be read.
template <typename Message>
Result<Message> read_from(const RoundParts& parts,
                          const PeerId& from,
                          ByteView bytes,
                          const char* what) {
    auto message = wire::decode<Message>(bytes);
    if (!message)
        parts.complaints.add(from, parts.environment.now(), consensus::unreadable(what).message());
    return message;
}

// Bytes of certificates in the answer to an announcement: it is waited for briefly, and passes what
// else goes over a slow link. A peer that gets none asks for them with a longer timeout.
constexpr std::size_t reply_bytes_max = 4000;

std::size_t bytes_of(const std::vector<Bytes>& messages) {
    std::size_t bytes = 0;
    for (const Bytes& message : messages) bytes += message.size();
    return bytes;
}

std::string full_round(const RoundOptions& options, bool aggregator) {
    if (aggregator)
        return fmt::format("this round has {} aggregators, as many as one may have",
                           aggregators_max);
    return fmt::format(
        "this round is full: {} trainers take part, as many as one may have. This "
        "peer keeps up with the run, but what it computes does not count until one "
        "of them leaves; it would help more as an aggregator (dedloc assist), or "
        "with a run of its own",
        options.members_max);
}

}  // namespace

RoundService::RoundService(RoundParts& parts)
    : parts_(parts), environment_(parts.environment), handlers_(parts.environment.host) {}

void RoundService::start(const Following& following) {
    following_ = &following;
    handlers_.on_call(announce_method, [this](PeerId from, Bytes request) {
        return on_announce(from, std::move(request));
    });
    handlers_.on_call(plan_method, [this](PeerId from, Bytes request) {
        return on_plan(from, std::move(request));
    });
    handlers_.on_stream(links::probe_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
        return on_probe(std::move(stream));
    });
    handlers_.on_connection([this](const PeerId& peer, bool connected) {
        if (connected) return;
        parts_.announcements.erase(peer);
        parts_.open.changed().pulse();
    });
}

// Aggregators stand on no state; whoever says so may bring nothing, not even ranges without
// samples: a plan with such a link would be refused, and its leader blamed.
Ok RoundService::check_announcement(const PeerId& from,
                                    const consensus::Base& base,
                                    const Announce& announce) const {
    if (const robust::Order* const order = base.barring(from))
        return make_error(ErrorKind::denied, "you are {}", robust::in_words(*order));
    if (announce.aggregator && announce.input == consensus::MemberInput{}) return {};
    if (announce.aggregator)
        return make_error(ErrorKind::peer_broke_protocol, "an aggregator brings no contribution");
    if (announce.state != *base.state)
        return make_error(ErrorKind::conflict, "you stand on another state; load ours");
    DEDLOC_TRY_VOID(consensus::check_input(
        announce.input, environment_.options.vector_count, environment_.options.samples_max));
    DEDLOC_TRY_VOID(environment_.roster.check_samples(from, announce.input));
    return environment_.ledger.check_not_committed(
        from, announce.input, environment_.options.range_of(base.instance.step).offset);
}

Task<Result<Bytes>> RoundService::on_announce(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    DEDLOC_CO_TRY(Announce announce, read_from<Announce>(parts_, from, request, "announcement"));
    const consensus::Base& base = environment_.ledger.base();
    AnnounceReply reply;
    // Another peer had the new state sooner than we: it need not ask twice.
    const TimePoint timeout = environment_.now() + parts_.timeouts.within_answer();
    while (announce.previous == base.previous && !base.state && !announce.aggregator &&
           environment_.now() < timeout)
        co_await environment_.node.clock.sleep_for(5ms);
    if (announce.previous != base.previous) {
        std::vector<Bytes> certificates = parts_.acceptor.certificates_after(announce.previous);
        const bool foreign = certificates.empty();
        reply.result = foreign ? AnnounceResult::i_am_behind : AnnounceResult::you_are_behind;
        if (bytes_of(certificates) <= reply_bytes_max) reply.certificates = std::move(certificates);
        if (foreign) environment_.listener.behind(from);
        co_return wire::encode(reply);
    }
    if (!base.state && !announce.aggregator) {  // still computing the state; ask again soon
        co_return wire::encode(reply);
    }
    if (const Ok sound = check_announcement(from, base, announce); !sound) {
        if (sound.error().kind() == ErrorKind::overloaded) co_return wire::encode(reply);
        if (sound.error().kind() == ErrorKind::peer_broke_protocol) {
            parts_.announcements.erase(from);
            parts_.announcements.do_not_wait_for(from);  // until it announces what can be taken
            const TimePoint now = environment_.now();
            parts_.complaints.add(from, now, sound.error().message(), events::InputRefused{});
            parts_.complaints.bar(from, now);
            parts_.open.changed().pulse();
        }
        reply.result = AnnounceResult::refused;
        reply.reason = sound.error().message();
        co_return wire::encode(reply);
    }
    const auto leader = parts_.election.pick(base);
    if (leader && *leader != environment_.me()) {
        reply.result = AnnounceResult::redirect;
        reply.leader = *leader;
    }
    if (parts_.exchanges.in_round()) reply.round_ms = parts_.exchanges.newest()->plan().round_ms;
    const bool brings_something = !announce.input.is_empty();
    const bool aggregates = announce.aggregator;
    if (!parts_.announcements.keep(from, std::move(announce))) {
        if (reply.result == AnnounceResult::accepted) {
            reply.result = AnnounceResult::full;
            reply.reason = full_round(environment_.options, aggregates);
        }
        parts_.open.changed().pulse();
        co_return wire::encode(reply);
    }
    if (brings_something) {
        environment_.listener.round_wanted();
        parts_.open.set_wanted(true);
    }
    parts_.open.changed().pulse();
    co_return wire::encode(reply);
}

Task<Result<Bytes>> RoundService::on_plan(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    Result<void> taken = receive_plan(from, request);
    if (!taken) {
        parts_.election.refuse_plan(from, taken.error());
        co_return std::move(taken).error();
    }
    co_return Bytes{};
}

Result<void> RoundService::receive_plan(const PeerId& from, ByteView request) {
    DEDLOC_TRY(SignedPlan read, read_plan(environment_, from, request, /*needs_state=*/true));
    consensus::RoundPlan& plan = read.plan;
    const Digest& digest = read.digest;
    const consensus::Base& base = environment_.ledger.base();
    DEDLOC_TRY_VOID(allreduce::check_plan(plan, environment_.options));
    DEDLOC_TRY_VOID(consensus::check_members_allowed(plan, base));
    if (parts_.exchanges.find(digest)) return {};
    DEDLOC_TRY_VOID(parts_.exchanges.check_turn(plan, digest));
    DEDLOC_TRY_VOID(check_leaders_member(plan));
    DEDLOC_TRY_VOID(check_own_member(plan, base));
    const std::shared_ptr<allreduce::Exchange> last = parts_.exchanges.newest();
    if (last && last->complete() && last->plan().leader == from &&
        last->plan().previous == plan.previous)
        parts_.election.was_fruitless(from);
    (void)begin_exchange(parts_, std::move(plan), digest);
    return {};
}

// Everybody else's samples were its to check.
Ok RoundService::check_leaders_member(const consensus::RoundPlan& plan) const {
    for (const consensus::PlanMember& member : plan.members) {
        if (member.peer != plan.leader) continue;
        Ok sound = environment_.roster.check_samples(member.peer, member.input);
        if (!sound && sound.error().kind() == ErrorKind::peer_broke_protocol) return sound;
    }
    return {};
}

// The plan must name what we bring now. What we announced before is an old plan, not a lie.
Ok RoundService::check_own_member(const consensus::RoundPlan& plan, const consensus::Base& base) {
    const Announce mine = own_announcement(parts_, base);
    for (const consensus::PlanMember& member : plan.members) {
        if (member.peer != environment_.me()) continue;
        if (member.incarnation == mine.incarnation && !member.aggregator &&
            member.checks == mine.checks &&
            (member.input == mine.input || plan.leaves_out(member.peer)))
            return {};
        if (!following_->has_told(member.input))
            return make_error(ErrorKind::peer_broke_protocol,
                              "a plan is refused: it gives us a weight that we never announced");
    }
    return make_error(ErrorKind::conflict, "the plan names another contribution than ours");
}

// A peer that every answer reaches late takes all leaders for dead, and would outbid one round
// after another. Not to promise is always allowed; it ends with the round, when we suspect its
// leader, or when our connection to it is lost.
bool RoundService::keeps_to_round(const PeerId& from, const consensus::Prepare& prepare) const {
    const std::shared_ptr<allreduce::Exchange> exchange = parts_.exchanges.newest();
    if (!exchange || environment_.now() >= exchange->round_deadline()) return false;
    const consensus::RoundPlan& plan = exchange->plan();
    return plan.instance == prepare.instance && plan.previous == prepare.previous &&
           plan.leader != from && !parts_.election.suspected(plan.leader) &&
           parts_.election.is_here(plan.leader) && following_->hears_from(plan.leader) &&
           plan.ballot >= parts_.acceptor.promised(plan.previous);
}

void RoundService::is_proposed_to(const PeerId& leader) {
    const auto exchange = parts_.exchanges.newest();
    if (exchange && exchange->plan().leader == leader) exchange->leader_spoke();
}

void RoundService::untrue_proposal(const PeerId& from, const std::string& why) {
    parts_.election.suspect(from, why);
    parts_.open.changed().pulse();
}

void RoundService::unreadable_proposal(const PeerId& from, const Error& why) {
    parts_.election.refuse_plan(from, why);
}

// The averages of a proposal may be a little behind it.
Task<Result<Bytes>> RoundService::whole_proposal(consensus::Propose propose) {
    const std::shared_ptr<allreduce::Exchange> exchange = parts_.exchanges.find(propose.plan);
    if (!exchange) co_return make_error(ErrorKind::not_found, "no such plan here");
    while (!exchange->complete()) {
        const TimePoint until =
            std::min(exchange->collected().missing_awaited_until(), exchange->round_deadline());
        if (environment_.now() >= until) break;
        (void)co_await exchange->changed().wait_until(environment_.node.clock, until);
    }
    co_return consensus::whole_decision(propose, exchange->plan(), exchange->finished());
}

// A member that lacks a part when the others decide gets it in a moment: to ask for it would be to
// have it twice over a link that is full.
Task<void> RoundService::arrival(consensus::FinishedPart part, TimePoint deadline) {
    const std::shared_ptr<allreduce::Exchange> exchange = parts_.exchanges.find(part.plan);
    if (!exchange) co_return;
    for (;;) {
        const TimePoint until = std::min(deadline, exchange->collected().awaited_until(part.part));
        if (environment_.now() >= until) co_return;
        (void)co_await exchange->changed().wait_until(environment_.node.clock, until);
    }
}

Task<void> RoundService::on_probe(std::unique_ptr<p2p::MessageStream> stream) {
    if (!environment_.roster.allowed(stream->remote())) co_return;
    co_await parts_.link.serve(std::move(stream));
}

}  // namespace dedloc::averaging
