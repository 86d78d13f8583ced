#include "dedloc/consensus/proposer.h"

#include <algorithm>
#include <map>

#include "dedloc/base/log.h"
#include "dedloc/consensus/compact_proposal.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

constexpr Duration prepare_pause_max = 3s;
constexpr std::size_t unvotable_max = 64;

// A decision that a voter has accepted is proposed again: it must be an answer to the same
// question.
bool fits_question(const Prepare& question, const ConsensusReply& reply) {
    if (reply.answer != Answer::yes || !reply.has_accepted) return true;
    const auto decision = wire::decode<Decision>(reply.accepted_decision);
    return decision && decision->previous == question.previous &&
           decision->instance == question.instance;
}

}  // namespace

struct Proposer::Poll {
    Poll(const Base& base, PlantedBugs bugs, runtime::Executor executor)
        : tally(base.voters, bugs, base.voters_may_lie),
          may_say_yes(base.voters.size()),
          enough(executor) {}
    void answered(const PeerId& voter, bool yes) {
        if (awaited.erase(voter) > 0 && awaited.empty() && refused) enough.set();
        // Lost: what the others say changes nothing.
        if (!yes && --may_say_yes < tally.promises_needed()) enough.set();
    }
    Tally tally;
    std::size_t answers = 0;
    std::size_t late = 0;  // that have not come in time
    std::size_t may_say_yes;
    // When these have answered, and not all of them yes, the rest is not waited for.
    std::set<PeerId> awaited;
    bool refused = false;
    runtime::Event enough;
};

struct Proposer::Question {
    Question(std::uint32_t of_ballot, const Bytes& decision)
        : digest(decision_digest(decision)),
          ballot(of_ballot),
          whole(wire::encode(Propose{of_ballot, decision, {}, {}, {}})) {
        const Propose brief = compact_proposal(of_ballot, decision);
        if (!brief.compact_decision.empty()) compact = wire::encode(brief);
    }
    Digest digest;  // of the decision
    std::uint32_t ballot = 0;
    Bytes whole;    // the proposal
    Bytes compact;  // the same without what voters hold; empty: there is none
};

Proposer::Proposer(const ConsensusEnvironment& environment, Acceptor& acceptor, ProposerHooks hooks)
    : environment_(environment),
      acceptor_(acceptor),
      hooks_(std::move(hooks)),
      scope_(environment.node.executor) {}

void Proposer::ledger_moved() {
    ballot_round_ = 0;
    unanswered_prepares_ = 0;
    outbid_ = 0;
    unvotable_.clear();
}

void Proposer::learn_from(const PeerId& voter, const ConsensusReply& reply) {
    if (reply.answer == Answer::outbid)
        outbid_ = std::max(outbid_, std::min(reply.ballot, ballot_max));
    if (reply.answer == Answer::you_are_behind)
        hooks_.receive_certificates(voter, reply.certificates);
}

std::uint32_t Proposer::next_ballot(const Base& base) {
    outbid_ = std::max(outbid_, acceptor_.promised(base.previous));
    const std::vector<PeerId> order = leader_order(base.previous, base.voters);
    const auto n = static_cast<std::uint32_t>(order.size());
    const auto place = static_cast<std::uint32_t>(
        std::find(order.begin(), order.end(), environment_.me()) - order.begin());
    if (const std::uint32_t ballot = place + ballot_round_ * n; ballot < outbid_)
        ballot_round_ += (outbid_ - ballot + n - 1) / n;
    return place + n * ballot_round_++;
}

Task<bool> Proposer::prepare(Base base, std::uint32_t ballot, Duration timeout) {
    auto poll = std::make_shared<Poll>(base, environment_.options.bugs, environment_.node.executor);
    Prepare request{base.instance, base.previous, ballot};
    // A leader that stopped answers nobody. Who refuses now, as it has not missed it yet, may
    // promise when it is asked again.
    for (const Voter& voter : base.voters)
        if (!hooks_.is_suspected(voter.peer)) poll->awaited.insert(voter.peer);
    if (poll->awaited.size() < base.quorum()) poll->awaited.clear();
    std::vector<Task<void>> asks;
    for (const Voter& voter : base.voters) asks.push_back(ask_promise(voter.peer, request, poll));
    Task<void> all = runtime::all_of(std::move(asks));
    co_await runtime::first_of(std::move(all), poll->enough.wait());
    const bool slow = poll->late > 0 && poll->answers < base.quorum();
    unanswered_prepares_ = slow ? unanswered_prepares_ + 1 : 0;
    if (!poll->tally.promised()) co_return false;
    if (poll->tally.value_to_keep()) {
        Bytes decision = *poll->tally.value_to_keep();
        (void)co_await propose(base, ballot, std::move(decision), timeout);
        co_return false;
    }
    co_return true;
}

Duration Proposer::pause_before_prepare() const {
    const Duration interval = environment_.options.announce_interval;
    if (unanswered_prepares_ == 0) return interval;
    const Duration longer =
        environment_.timeouts.answer() * (1 << std::min(unanswered_prepares_, 2));
    return std::clamp<Duration>(longer, interval, std::max(interval, prepare_pause_max));
}

Task<void> Proposer::ask_promise(PeerId voter, Prepare request, std::shared_ptr<Poll> poll) {
    const bool promised = co_await receive_promise(voter, std::move(request), poll);
    poll->answered(voter, promised);
}

Task<bool> Proposer::receive_promise(PeerId voter, Prepare request, std::shared_ptr<Poll> poll) {
    ConsensusReply reply;
    if (voter == environment_.me()) {
        reply = co_await acceptor_.on_prepare(voter, request);
    } else {
        Bytes bytes = wire::encode(request);
        const TimePoint deadline = environment_.now() + environment_.timeouts.answer();
        auto answer =
            co_await environment_.host.call(voter, prepare_method, std::move(bytes), deadline);
        if (!answer) {
            if (answer.error().kind() == ErrorKind::timeout) ++poll->late;
            co_return false;
        }
        auto decoded = wire::decode<ConsensusReply>(*answer);
        if (!decoded) co_return false;
        reply = *std::move(decoded);
    }
    if (!fits_question(request, reply)) {
        environment_.complain_of(voter, "a promise with a decision that is none of this step");
        co_return false;
    }
    if (reply.has_accepted && !unvotable_.empty() &&
        unvotable_.contains(decision_digest(reply.accepted_decision))) {
        if (reply.answer == Answer::yes) poll->tally.disown(voter);
        if (poll->tally.promised()) poll->enough.set();
        co_return false;
    }
    learn_from(voter, reply);
    ++poll->answers;
    poll->refused = poll->refused || reply.answer != Answer::yes;
    poll->tally.promise(voter, reply);
    if (poll->tally.promised()) poll->enough.set();
    co_return reply.answer == Answer::yes;
}

Task<bool> Proposer::propose(Base base, std::uint32_t ballot, Bytes decision, Duration timeout) {
    auto poll = std::make_shared<Poll>(base, environment_.options.bugs, environment_.node.executor);
    const auto question = std::make_shared<const Question>(ballot, decision);
    const TimePoint deadline =
        environment_.now() + std::max<Duration>(environment_.timeouts.answer(), timeout);
    // Our own vote first: once it is on disk, a restart cannot propose another value in this
    // ballot.
    co_await ask_vote(environment_.me(), question, deadline, poll);
    if (poll->tally.votes_count() == 0) {
        if (base.voters_may_lie && unvotable_.size() < unvotable_max)
            unvotable_.insert(question->digest);
        co_return false;
    }
    std::vector<Task<void>> asks;
    for (const Voter& voter : base.voters)
        if (voter.peer != environment_.me())
            asks.push_back(ask_vote(voter.peer, question, deadline, poll));
    Task<void> all = runtime::all_of(std::move(asks));
    co_await runtime::first_of(std::move(all), poll->enough.wait());
    if (!poll->tally.chosen()) co_return false;
    Certificate certificate;
    certificate.decision = std::move(decision);
    certificate.ballot = ballot;
    certificate.votes = poll->tally.votes();
    publish(base, certificate);
    co_return true;
}

Task<void> Proposer::ask_vote(PeerId voter,
                              std::shared_ptr<const Question> question,
                              TimePoint deadline,
                              std::shared_ptr<Poll> poll) {
    const bool voted = co_await receive_vote(voter, std::move(question), deadline, poll);
    poll->answered(voter, voted);
}

Task<bool> Proposer::receive_vote(PeerId voter,
                                  std::shared_ptr<const Question> question,
                                  TimePoint deadline,
                                  std::shared_ptr<Poll> poll) {
    ConsensusReply reply;
    if (voter == environment_.me()) {
        auto propose = wire::decode<Propose>(question->whole);
        DEDLOC_CHECK(propose.has_value());
        reply = co_await acceptor_.on_propose(voter, *std::move(propose));
    } else {
        auto answer = co_await call_for_vote(voter, question, deadline);
        if (!answer) co_return false;
        reply = *std::move(answer);
    }
    learn_from(voter, reply);
    if (reply.answer != Answer::yes) co_return false;
    if (!environment_.verifier.verify(
            voter, vote_domain, vote_bytes(question->digest, question->ballot), reply.signature)) {
        environment_.complain_of(voter, "a vote whose signature does not hold");
        co_return false;
    }
    poll->tally.vote(voter, std::move(reply.signature));
    if (poll->tally.chosen()) poll->enough.set();
    co_return true;
}

Task<Result<ConsensusReply>> Proposer::call_for_vote(PeerId voter,
                                                     std::shared_ptr<const Question> question,
                                                     TimePoint deadline) {
    for (const bool whole : {false, true}) {
        Bytes request = whole ? question->whole : question->compact;
        if (request.empty()) continue;
        auto answer =
            co_await environment_.host.call(voter, propose_method, std::move(request), deadline);
        if (!answer) co_return std::move(answer).error();
        auto reply = wire::decode<ConsensusReply>(*answer);
        if (!reply) {
            environment_.complain_of(voter, "a vote that cannot be read");
            co_return std::move(reply).error();
        }
        if (reply->answer != Answer::send_whole) co_return reply;
    }
    co_return make_error(ErrorKind::peer_broke_protocol, "it does not take the whole decision");
}

// Voters hold the decision: they were asked.
void Proposer::publish(const Base& base, const Certificate& certificate) {
    const Bytes whole = wire::encode(certificate);
    const Bytes certified = wire::encode(
        Certified{decision_digest(certificate.decision), certificate.ballot, certificate.votes});
    std::set<PeerId> recipients = hooks_.audience();
    for (const Voter& voter : base.voters) recipients.insert(voter.peer);
    recipients.erase(environment_.me());
    for (const PeerId& peer : recipients)
        if (environment_.host.is_connected(peer))
            scope_.spawn("send certificate",
                         send_certificate(peer, base.is_voter(peer) ? certified : Bytes{}, whole));
    const auto accepted = environment_.ledger.accept(whole);
    if (!accepted)
        log(LogLevel::warning,
            "averaging",
            "own certificate refused: {}",
            accepted.error().message());
}

Task<void> Proposer::send_certificate(PeerId peer, Bytes certified, Bytes certificate) {
    if (!certified.empty()) {
        const TimePoint deadline = environment_.now() + environment_.timeouts.answer();
        const auto taken =
            co_await environment_.host.call(peer, certified_method, std::move(certified), deadline);
        if (taken || taken.error().kind() != ErrorKind::not_found) co_return;
    }
    const TimePoint deadline = environment_.now() + environment_.timeouts.answer();
    (void)co_await environment_.host.call(
        peer, certificate_method, std::move(certificate), deadline);
}

// ---- a new branch -------------------------------------------------------------------------------

Task<void> Proposer::open_branch(
    Base base, std::function<std::vector<Voter>(const std::set<PeerId>& refused)> survivors) {
    constexpr int tries_max = 4;
    auto refused = std::make_shared<std::set<PeerId>>();
    for (int tries = 0; tries < tries_max; ++tries) {
        std::vector<Voter> voters = survivors(*refused);
        const std::size_t refused_before = refused->size();
        co_await sign_branch(base, std::move(voters), refused);
        if (environment_.ledger.base().previous != base.previous) co_return;
        if (refused->size() == refused_before) co_return;
    }
}

Task<void> Proposer::sign_branch(Base base,
                                 std::vector<Voter> survivors,
                                 std::shared_ptr<std::set<PeerId>> refused) {
    Decision decision;
    decision.kind = DecisionKind::branch;
    decision.run = base.run;
    decision.instance = Instance{branch_id(base.previous, survivors), base.instance.step, 0};
    decision.previous = base.previous;
    decision.state_before = *base.state;
    decision.next_voters = survivors;
    decision.orders = carried_orders(base);
    decision.branch_samples = base.branch_samples;
    decision.number = base.number + 1;
    base.protection.carry_into(decision, nullptr);
    Base everyone = base;
    everyone.voters = survivors;
    auto poll = std::make_shared<Poll>(everyone, PlantedBugs{}, environment_.node.executor);
    Certificate certificate;
    certificate.decision = wire::encode(decision);
    const auto question = std::make_shared<const Question>(0, certificate.decision);
    const TimePoint deadline = environment_.now() + environment_.timeouts.answer();
    std::vector<Task<void>> asks;
    for (const Voter& voter : survivors)
        asks.push_back(ask_vote(voter.peer, question, deadline, poll));
    co_await runtime::all_of(std::move(asks));
    certificate.votes = poll->tally.votes();
    if (certificate.votes.size() == survivors.size()) {
        environment_.teller.tell(
            events::BranchOpened{},
            environment_.me(),
            fmt::format("no majority of voters for {:.0f} s: {} of us go{} on as a new branch",
                        to_seconds(environment_.options.quorum_timeout),
                        survivors.size(),
                        survivors.size() == 1 ? "es" : ""));
        publish(base, certificate);
        co_return;
    }
    for (const Voter& voter : survivors) {
        const bool signed_it =
            std::any_of(certificate.votes.begin(), certificate.votes.end(), [&](const Vote& vote) {
                return vote.voter == voter.peer;
            });
        if (!signed_it) refused->insert(voter.peer);
    }
}

}  // namespace dedloc::consensus
