// What others ask of this peer in a round, at any time.

#include <algorithm>

#include "dedloc/allreduce/fetch.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/averaging/round.h"
#include "dedloc/base/counted.h"
#include "dedloc/consensus/compact_proposal.h"
#include "dedloc/links/messages.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// Of a member that is told of if it cannot be read.
template <typename Message>
Result<Message> read_from(Reports& reports, const PeerId& from, ByteView bytes, const char* what) {
    auto message = wire::decode<Message>(bytes);
    if (!message) reports.refuse_message(from, consensus::unreadable(what));
    return message;
}

// Of certificates in the answer to an announcement: it is waited for briefly, and passes what else
// goes over a slow line. Who gets none asks for them with more patience.
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

void RoundEngine::register_handlers() {
    handlers_.on_call(announce_method, [this](PeerId from, Bytes request) {
        return on_announce(from, std::move(request));
    });
    handlers_.on_call(plan_method, [this](PeerId from, Bytes request) {
        return on_plan(from, std::move(request));
    });
    handlers_.on_call(allreduce::repair_method, [this](PeerId from, Bytes request) {
        return on_repair(from, std::move(request));
    });
    handlers_.on_call(allreduce::fetch_method, [this](PeerId from, Bytes request) {
        return on_fetch(from, std::move(request));
    });
    handlers_.on_stream(
        allreduce::parts_method,
        [this](std::unique_ptr<p2p::MessageStream> stream) { return on_parts(std::move(stream)); });
    handlers_.on_stream(links::probe_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
        return on_probe(std::move(stream));
    });
}

// Aggregators stand on no state; whoever says so may bring nothing, not even ranges without
// samples: a plan with such a line would be refused, and its leader blamed.
Ok RoundEngine::check_announcement(const PeerId& from,
                                   const consensus::Base& base,
                                   const Announce& announce) const {
    if (announce.aggregator && announce.input == consensus::MemberInput{}) return {};
    if (announce.aggregator)
        return make_error(ErrorKind::peer_broke_protocol, "an aggregator brings no contribution");
    if (announce.state != *base.state)
        return make_error(ErrorKind::conflict, "you stand on another state; load ours");
    DEDLOC_TRY_VOID(consensus::check_input(
        announce.input, context_.options.vector_count, context_.options.samples_max));
    DEDLOC_TRY_VOID(context_.roster.check_samples(from, announce.input));
    return context_.ledger.check_not_committed(from, announce.input);
}

// Of a plan of ours. Who may vote has a place before who may not: it stays among the members, and
// the same ones are left out of every round.
bool RoundEngine::make_room_for(const PeerId& from, bool aggregator) {
    if (announced_.contains(from)) return true;
    const auto alike =
        static_cast<std::size_t>(std::ranges::count_if(announced_, [aggregator](const auto& entry) {
            return entry.second.announce.aggregator == aggregator;
        }));
    if (aggregator) return alike < aggregators_max;
    if (alike + 1 < context_.options.members_max) return true;  // one is our own
    const consensus::Base& base = context_.ledger.base();
    if (!base.is_voter(from)) return false;
    const auto other = std::ranges::find_if(announced_, [&base](const auto& entry) {
        return !entry.second.announce.aggregator && !base.is_voter(entry.first);
    });
    if (other == announced_.end()) return false;
    not_waited_for_.insert(other->first);
    announced_.erase(other);
    return true;
}

// Kept also by one who does not lead: if the leader fails, it knows who is there. False: there is
// no room.
bool RoundEngine::keep_announcement(const PeerId& from, Announce announce) {
    if (announce.aggregator && announce.leaving) {
        announced_.erase(from);
        return true;
    }
    if (!make_room_for(from, announce.aggregator)) {
        not_waited_for_.insert(from);
        return false;
    }
    announced_[from] = Announced{std::move(announce), context_.now()};
    not_waited_for_.erase(from);
    return true;
}

Task<Result<Bytes>> RoundEngine::on_announce(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(context_.gate(from));
    DEDLOC_CO_TRY(Announce announce, read_from<Announce>(reports_, from, request, "announcement"));
    const consensus::Base& base = context_.ledger.base();
    AnnounceReply reply;
    // Another peer had the new state sooner than we: it need not ask twice.
    const TimePoint patience = context_.now() + context_.patience.with_answer() / 2;
    while (announce.previous == base.previous && !base.state && !announce.aggregator &&
           context_.now() < patience)
        co_await context_.node.clock.sleep_for(5ms);
    if (announce.previous != base.previous) {
        std::vector<Bytes> certificates = acceptor_->certificates_after(announce.previous);
        const bool foreign = certificates.empty();
        reply.verdict = foreign ? Verdict::i_am_behind : Verdict::you_are_behind;
        if (bytes_of(certificates) <= reply_bytes_max) reply.certificates = std::move(certificates);
        if (foreign) context_.listener.behind(from);
        co_return wire::encode(reply);
    }
    if (!base.state && !announce.aggregator) {  // still computing the state; ask again soon
        co_return wire::encode(reply);
    }
    if (const Ok sound = check_announcement(from, base, announce); !sound) {
        if (sound.error().kind() == ErrorKind::overloaded) co_return wire::encode(reply);
        if (sound.error().kind() == ErrorKind::peer_broke_protocol) {
            announced_.erase(from);
            not_waited_for_.insert(from);  // until it announces what can be taken
            reports_.refused_input(from, sound.error().message());
            context_.scores.complaints().bar(from, context_.now());
            changed_.pulse();
        }
        reply.verdict = Verdict::refused;
        reply.reason = sound.error().message();
        co_return wire::encode(reply);
    }
    const auto leader = pick_leader(base);
    if (leader && *leader != context_.me()) {
        reply.verdict = Verdict::redirect;
        reply.leader = *leader;
    }
    if (exchanges_.in_round()) reply.round_ms = exchanges_.newest()->plan().round_ms;
    const bool brings_something = !announce.input.is_empty();
    const bool aggregates = announce.aggregator;
    if (!keep_announcement(from, std::move(announce))) {
        if (reply.verdict == Verdict::accepted) {
            reply.verdict = Verdict::full;
            reply.reason = full_round(context_.options, aggregates);
        }
        changed_.pulse();
        co_return wire::encode(reply);
    }
    if (brings_something) {
        context_.listener.round_wanted();
        set_wanted(true);
    }
    changed_.pulse();
    co_return wire::encode(reply);
}

std::shared_ptr<allreduce::Exchange> RoundEngine::begin_exchange(consensus::Plan plan,
                                                                 Digest digest) {
    auto exchange = exchanges_.begin(std::move(plan), digest, input_);
    round_begun_ = context_.now();
    if (!step_averaged_) step_averaged_ = round_begun_;
    changed_.pulse();
    return exchange;
}

Task<Result<Bytes>> RoundEngine::on_plan(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(context_.gate(from));
    Result<void> taken = take_plan(from, request);
    if (!taken) {
        refuse_plan(from, taken.error());
        co_return std::move(taken).error();
    }
    co_return Bytes{};
}

Result<void> RoundEngine::take_plan(const PeerId& from, ByteView request) {
    const auto message = wire::decode<allreduce::Signed>(request);
    if (!message) return consensus::unreadable("plan");
    auto decoded = wire::decode<consensus::Plan>(message->payload);
    if (!decoded) return consensus::unreadable("plan");
    consensus::Plan plan = *std::move(decoded);
    const consensus::Base& base = context_.ledger.base();
    if (plan.run != base.run || plan.previous != base.previous || plan.instance != base.instance ||
        !base.state || plan.state != *base.state)
        return make_error(ErrorKind::conflict, "the plan is not for the step that is open here");
    if (plan.leader != from || !consensus::owns_ballot(base, from, plan.ballot) ||
        !context_.verifier.verify(
            from, consensus::plan_domain, message->payload, message->signature))
        return make_error(ErrorKind::peer_broke_protocol, "the plan is not signed by its leader");
    DEDLOC_TRY_VOID(allreduce::check_plan(plan, context_.options));
    const Digest digest = consensus::decision_digest(message->payload);
    if (exchanges_.find(digest)) return {};
    DEDLOC_TRY_VOID(exchanges_.check_turn(plan, digest));
    DEDLOC_TRY_VOID(check_leaders_line(plan));
    DEDLOC_TRY_VOID(check_own_line(plan, base));
    (void)begin_exchange(std::move(plan), digest);
    return {};
}

// Everybody else's samples were its to check.
Ok RoundEngine::check_leaders_line(const consensus::Plan& plan) const {
    for (const consensus::PlanMember& member : plan.members) {
        if (member.peer != plan.leader) continue;
        Ok sound = context_.roster.check_samples(member.peer, member.input);
        if (!sound && sound.error().kind() == ErrorKind::peer_broke_protocol) return sound;
    }
    return {};
}

// The plan must name what we bring now. What we announced before is an old plan, not a lie.
Ok RoundEngine::check_own_line(const consensus::Plan& plan, const consensus::Base& base) {
    const Announce mine = own_announcement(base);
    for (const consensus::PlanMember& member : plan.members) {
        if (member.peer != context_.me()) continue;
        if (member.incarnation == mine.incarnation && !member.aggregator &&
            (member.input == mine.input || plan.leaves_out(member.peer)))
            return {};
        if (std::find(told_.begin(), told_.end(), member.input) == told_.end())
            return make_error(ErrorKind::peer_broke_protocol,
                              "a plan is refused: it gives us a weight that we never announced");
    }
    return make_error(ErrorKind::conflict, "the plan names another contribution than ours");
}

Task<Result<Bytes>> RoundEngine::on_repair(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(context_.gate(from));
    Result<Bytes> taken = exchanges_.take_repair(from, request);
    if (!taken) reports_.refuse_message(from, taken.error());
    co_return taken;
}

// Whom every answer reaches late takes all leaders for dead, and would outbid one round after
// another. Not to promise is always allowed; it ends with the round, when we suspect its leader, or
// when our connection to it is lost.
bool RoundEngine::keeps_to_round(const PeerId& from, const consensus::Prepare& prepare) const {
    const std::shared_ptr<allreduce::Exchange> exchange = exchanges_.newest();
    if (!exchange || context_.now() >= exchange->round_deadline()) return false;
    const consensus::Plan& plan = exchange->plan();
    return plan.instance == prepare.instance && plan.previous == prepare.previous &&
           plan.leader != from && !suspected(plan.leader) && is_here(plan.leader) &&
           context_.now() < overdue_at(plan.leader, silence_of_the_dead() / 2) &&
           plan.ballot >= acceptor_->promised(plan.previous);
}

void RoundEngine::is_proposed_to(const PeerId& leader) {
    const auto exchange = exchanges_.newest();
    if (exchange && exchange->plan().leader == leader) exchange->leader_spoke();
}

void RoundEngine::unreadable_proposal(const PeerId& from, const Error& why) {
    refuse_plan(from, why);
}

void RoundEngine::untrue_proposal(const PeerId& from, const std::string& why) {
    suspect(from, why);
    changed_.pulse();
}

// The averages of a proposal may be a little behind it.
Task<Result<Bytes>> RoundEngine::whole_proposal(consensus::Propose propose) {
    const std::shared_ptr<allreduce::Exchange> exchange = exchanges_.find(propose.plan);
    if (!exchange) co_return make_error(ErrorKind::not_found, "no such plan here");
    while (!exchange->complete()) {
        const TimePoint until =
            std::min(exchange->collected().missing_awaited_until(), exchange->round_deadline());
        if (context_.now() >= until) break;
        (void)co_await exchange->changed().wait_until(context_.node.clock, until);
    }
    co_return consensus::whole_decision(propose, exchange->plan(), exchange->finished());
}

Task<Result<Bytes>> RoundEngine::on_fetch(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(context_.gate(from));
    co_return allreduce::answer_fetch(context_.parts, request);
}

// Whoever lacks a part when the others decide gets it in a moment: to ask for it would be to have
// it twice over a line that is full.
Task<void> RoundEngine::arrival(consensus::FinishedPart part, TimePoint deadline) {
    const std::shared_ptr<allreduce::Exchange> exchange = exchanges_.find(part.plan);
    if (!exchange) co_return;
    for (;;) {
        const TimePoint until = std::min(deadline, exchange->collected().awaited_until(part.part));
        if (context_.now() >= until) co_return;
        (void)co_await exchange->changed().wait_until(context_.node.clock, until);
    }
}

Task<void> RoundEngine::on_probe(std::unique_ptr<p2p::MessageStream> stream) {
    if (!context_.roster.allowed(stream->remote())) co_return;
    co_await line_.serve(std::move(stream));
}

Task<void> RoundEngine::on_parts(std::unique_ptr<p2p::MessageStream> owned) {
    if (!context_.roster.allowed(owned->remote())) co_return;
    co_await exchanges_.serve(std::move(owned));
}

}  // namespace dedloc::averaging
