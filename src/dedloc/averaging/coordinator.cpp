#include "dedloc/averaging/coordinator.h"

#include <algorithm>

#include "dedloc/averaging/decide_phase.h"
#include "dedloc/averaging/plan_phase.h"
#include "dedloc/averaging/reduce_phase.h"
#include "dedloc/base/log.h"
#include "dedloc/runtime/together.h"

namespace dedloc::averaging {
namespace {

// Exchanges of older plans that are kept so that slower members can still read from us.
constexpr std::size_t exchanges_max = 6;
// A peer that brings nothing waits for the others for so many of the usual deadlines. A robust step
// has a minimum, so that the others may be waiting for this very peer.
constexpr int deadlines_without_input = 3;
constexpr int robust_deadlines_without_input = 1;

void log_incomplete(const Phase& phase, const Attempt& attempt) {
    log(LogLevel::debug,
        "averaging",
        "step {}, attempt {}: {} ended with something missing, {} parts failed",
        attempt.base.instance.step + 1,
        attempt.base.instance.attempt,
        phase.name(),
        phase.failed_parts(attempt).size());
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::make(RoundEnvironment environment) {
    std::unique_ptr<Coordinator> coordinator(new Coordinator(std::move(environment)));
    DEDLOC_TRY(coordinator->acceptor_, consensus::Acceptor::open(coordinator->consensus_));
    coordinator->assemble();
    return coordinator;
}

Coordinator::Coordinator(RoundEnvironment environment)
    : environment_(std::move(environment)),
      timeouts_(environment_.options.call_timeout, environment_.options.deadline_max),
      complaints_(environment_.teller),
      transfers_(transfer_environment(environment_, scores_, timeouts_, complaints_)),
      exchanges_(transfers_, exchanges_max),
      fetcher_(transfers_),
      averages_(environment_, fetcher_),
      evidence_(environment_),
      pending_orders_(environment_, evidence_),
      consensus_(consensus_environment(
          environment_, scores_, timeouts_, averages_, complaints_, pending_orders_)),
      open_(environment_, timeouts_),
      announcements_(environment_, timeouts_),
      link_(environment_, [this] { return !open_.wanted() && !exchanges_.in_round(); }),
      parts_service_(environment_, exchanges_, complaints_),
      turn_over_(environment_.node.executor),
      scope_(environment_.node.executor) {
    averages_.read_kept();
    if (environment_.options.byzantine_quorum) environment_.ledger.expect_lying_voters();
}

Coordinator::~Coordinator() = default;

void Coordinator::assemble() {
    open_.on_wanted(
        [this](std::optional<TimePoint> since) { acceptor_->round_wanted_since(since); });
    election_ = std::make_unique<LeaderElection>(
        environment_, scores_, timeouts_, open_, *acceptor_, complaints_);
    parts_ = std::make_unique<RoundParts>(RoundParts{environment_,
                                                     transfers_,
                                                     scores_,
                                                     timeouts_,
                                                     complaints_,
                                                     exchanges_,
                                                     *acceptor_,
                                                     open_,
                                                     announcements_,
                                                     link_,
                                                     *election_,
                                                     scope_});
    proposer_ = std::make_unique<consensus::Proposer>(consensus_, *acceptor_, proposer_hooks());
    service_ = std::make_unique<RoundService>(*parts_);
    certificates_ =
        std::make_unique<consensus::ConsensusService>(consensus_, *acceptor_, *service_);
    following_ = std::make_unique<Following>(*parts_, *certificates_);
    phases_.push_back(std::make_unique<GatherPhase>(*parts_));
    phases_.push_back(std::make_unique<PlanPhase>(*parts_));
    phases_.push_back(std::make_unique<ReducePhase>(*parts_));
    if (environment_.options.proves) {
        proofs_ = std::make_unique<RoundProofs>(*parts_, averages_, evidence_, pending_orders_);
        certificates_->on_sent([this](ByteView certificate) { proofs_->inspect(certificate); });
        phases_.push_back(proofs_->make_phase());
    }
    phases_.push_back(std::make_unique<DecidePhase>(*parts_, *proposer_, pending_orders_));
}

consensus::ProposerHooks Coordinator::proposer_hooks() {
    consensus::ProposerHooks hooks;
    hooks.is_suspected = [this](const PeerId& peer) { return election_->suspected(peer); };
    hooks.receive_certificates = [this](const PeerId& voter,
                                        const std::vector<Bytes>& certificates) {
        certificates_->receive_certificates(voter, certificates);
    };
    hooks.audience = [this] { return audience(); };
    return hooks;
}

void Coordinator::start() {
    parts_service_.start();
    service_->start(*following_);
    certificates_->start();
    if (proofs_) {
        evidence_.start();
        pending_orders_.start();
        proofs_->start();
    }
    fetcher_.wait_for_arrivals([this](consensus::FinishedPart part, TimePoint deadline) {
        return service_->arrival(std::move(part), deadline);
    });
    averages_.ask_whether_checked([this](const consensus::FinishedPart& part) {
        const auto exchange = exchanges_.find(part.plan);
        return exchange && exchange->collected().has(part);
    });
    environment_.ledger.follow_branches_if(
        [this](const consensus::Decision& branch) { return election_->may_follow(branch); });
    election_->check_clock();
    scope_.spawn("watch sleep", watch_sleep());
    scope_.spawn("drive rounds", drive());
    scope_.spawn("probe the link", link_.run());
}

void Coordinator::decided(const consensus::Link& link) {
    if (proofs_) pending_orders_.forget_settled();
    open_.learn_pace(scores_.learn(link.decision, link.plan.get()));
    if (proofs_) proofs_->inspect(link.certificate);
    if (const auto proved = proofs_ ? proofs_->proved(link) : nullptr)
        environment_.listener.proved(*proved);
    ledger_moved();
}

Task<void> Coordinator::stop() {
    co_await parts_service_.stop();
    co_await service_->stop();
    if (proofs_) co_await proofs_->stop();
    co_await pending_orders_.stop();
    co_await evidence_.stop();
    co_await certificates_->stop();
    co_await scope_.stop();
    co_await proposer_->stop();
    co_await exchanges_.stop();
    co_await averages_.stop();
    co_await acceptor_->stop();
}

void Coordinator::set_leaving(bool leaving) {
    open_.set_leaving(leaving);
    acceptor_->set_leaving(leaving);
}

void Coordinator::ledger_moved() {
    const consensus::Base& base = environment_.ledger.base();
    announcements_.keep_only(base.previous);
    link_.learn_from(exchanges_.newest(), open_);
    learn_from_newest_commit();
    exchanges_.forget_inputs();
    election_->forget_suspects();
    following_->ledger_moved();
    proposer_->ledger_moved();
    for (const auto& phase : phases_) phase->ledger_moved();
    open_.ledger_moved(base.instance);
    open_.changed().pulse();
    turn_over_.pulse();
}

// A peer that we did not wait for once may have been in others' rounds since, and never announced
// to us. And how long rounds are, one that comes while one is under way, or was in none for long,
// has to know as well: to take all who are in it for dead would be rash.
void Coordinator::learn_from_newest_commit() {
    const consensus::Ledger& ledger = environment_.ledger;
    if (!ledger.started()) return;
    const bool decided = ledger.newest_decision().kind == consensus::DecisionKind::commit;
    const consensus::Link* const commit = ledger.newest_commit();
    const bool knows_length = !decided && timeouts_.newest_round().count() > 0;
    if (!commit || (knows_length && announcements_.waits_for_all())) return;
    announcements_.wait_for_members(*commit->plan);
    if (!knows_length) timeouts_.is_told_of_round(commit->plan->round_ms);
}

std::optional<TimePoint> Coordinator::planned_at(const consensus::Decision& commit) const {
    const auto exchange = exchanges_.find(consensus::decision_digest(commit.plan));
    if (!exchange) return std::nullopt;
    return exchange->started();
}

std::vector<allreduce::LeftOut> Coordinator::left_out(const consensus::Decision& commit,
                                                      const consensus::RoundPlan& plan) const {
    if (plan.sum_codec == 0) return {};
    return allreduce::left_out_of(plan,
                                  consensus::decision_digest(commit.plan),
                                  commit.parts,
                                  environment_.me(),
                                  incarnation(),
                                  exchanges_.state().rests);
}

Task<void> Coordinator::participate(std::shared_ptr<const allreduce::RoundInput> input) {
    const consensus::Instance open = environment_.ledger.base().instance;
    const auto is_open = [this, open] {
        const consensus::Instance& now = environment_.ledger.base().instance;
        return now.step == open.step && now.branch == open.branch;
    };
    open_.hand_in(std::move(input));
    exchanges_.state().own_refused = false;
    // A peer that brings nothing waits for those that bring something; when they do not come, it
    // had better compute. (If all waited for each other with empty hands, nobody ever would.)
    const int deadlines = environment_.ledger.base().protection.rules.on
                              ? robust_deadlines_without_input
                              : deadlines_without_input;
    const TimePoint give_up = open_.input()->input.is_empty()
                                  ? environment_.now() + open_.usual_deadline() * deadlines
                                  : TimePoint::never();
    open_.changed().pulse();
    // Brought again, what nobody can take would bring about the same abort, as fast as votes are
    // written down.
    const auto in_vain = [this, open] {
        return own_refused() && environment_.ledger.base().instance.attempt != open.attempt;
    };
    while (is_open() && environment_.now() < give_up && !in_vain()) {
        // Again after an aborted attempt, which clears the wish; not for the step that follows.
        if (open_.input()) open_.set_wanted(true);
        (void)co_await open_.changed().wait_until(environment_.node.clock, give_up);
    }
    open_.take_back();
}

// ---- the driver ---------------------------------------------------------------------------------

Task<void> Coordinator::drive() {
    for (;;) {
        const consensus::Base base = environment_.ledger.base();
        const bool offered = announcements_.offer_something();
        const bool something = open_.input() || open_.wanted() || offered;
        if (!base.state || !something) {
            co_await open_.changed().wait();
            continue;
        }
        open_.set_wanted(true);
        Task<void> turn = one_turn(base);
        Task<void> advanced = until_advanced(base.previous);
        co_await runtime::first_of(std::move(turn), std::move(advanced));
    }
}

Task<void> Coordinator::until_advanced(Digest previous) {
    while (environment_.ledger.base().previous == previous) co_await turn_over_.wait();
}

Task<void> Coordinator::one_turn(consensus::Base base) {
    const auto leader = election_->pick(base);
    if (!leader) {
        co_await open_.pause(environment_.options.announce_interval);
    } else if (*leader == environment_.me()) {
        co_await lead(base);
    } else if (open_.input()) {
        co_await following_->follow(base, *leader);
    } else {
        co_await open_.pause(environment_.options.announce_interval);
    }
}

// A machine that was asleep, or a stopped process, has not waited for anybody meanwhile: what the
// others did is about to be heard of.
Task<void> Coordinator::watch_sleep() {
    for (;;) {
        if (election_->slept() && open_.wanted_since()) open_.wait_anew();
        election_->check_clock();
        for (const auto& phase : phases_) phase->tick();
        acceptor_->check_disk();
        co_await environment_.node.clock.sleep_for(sleep_min / 4);
    }
}

// ---- leading ------------------------------------------------------------------------------------

Task<void> Coordinator::lead(consensus::Base base) {
    if (!base.is_voter(environment_.me())) {
        co_await open_branch(base);
        co_return;
    }
    const auto attempt = std::make_shared<Attempt>();
    attempt->base = base;
    attempt->ballot = proposer_->next_ballot(base);
    if (attempt->ballot > 0 && !environment_.options.bugs.skip_prepare) {
        const bool promised =
            co_await proposer_->prepare(base, attempt->ballot, open_.usual_deadline());
        if (!promised) {
            if (election_->quorum_is_lost()) co_await open_branch(base);
            // A newcomer that announces itself meanwhile is no reason to ask all voters again.
            co_await environment_.node.clock.sleep_for(proposer_->pause_before_prepare());
            co_return;
        }
    }
    for (const std::unique_ptr<Phase>& phase : phases_) {
        const PhaseEnd end = co_await phase->begin(attempt);
        if (!phase->complete(*attempt)) log_incomplete(*phase, *attempt);
        if (end == PhaseEnd::give_up) co_return;
    }
    if (attempt->decided) co_return;
    if (election_->quorum_is_lost()) co_await open_branch(base);
    co_await open_.pause(environment_.options.announce_interval);
}

Task<void> Coordinator::open_branch(consensus::Base base) {
    const bool kept_out = base.barring(environment_.me()) != nullptr;
    if (!election_->quorum_is_lost() || !base.state || kept_out) {
        co_await open_.pause(environment_.options.announce_interval);
        co_return;
    }
    std::function<std::vector<consensus::Voter>(const std::set<PeerId>&)> those_left =
        [this, base](const std::set<PeerId>& refused) { return survivors(base, refused); };
    co_await proposer_->open_branch(base, std::move(those_left));
    // Nobody opened one: at once it would be no better.
    if (environment_.ledger.base().previous == base.previous)
        co_await open_.pause(environment_.options.announce_interval);
}

// The peers that announced to us, and we.
std::vector<consensus::Voter> Coordinator::survivors(const consensus::Base& base,
                                                     const std::set<PeerId>& refused) const {
    std::map<PeerId, consensus::Voter> survivors = announcements_.survivors(base, refused);
    const PeerId& me = environment_.me();
    const bool dialable = !environment_.host.addresses().empty();
    survivors.try_emplace(me, consensus::Voter{me, acceptor_->incarnation(), dialable});
    std::vector<consensus::Voter> voters;
    for (auto& [peer, voter] : survivors)
        if (base.barring(peer) == nullptr && !environment_.roster.is_put_out(peer))
            voters.push_back(std::move(voter));
    return voters;
}

// Voters aside, those who want to hear of a certificate.
std::set<PeerId> Coordinator::audience() const {
    std::set<PeerId> audience;
    for (const auto& [peer, announced] : announcements_.all()) audience.insert(peer);
    for (const PeerId& peer : environment_.roster.live_trainers()) audience.insert(peer);
    return audience;
}

}  // namespace dedloc::averaging
