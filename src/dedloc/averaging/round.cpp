#include "dedloc/averaging/round.h"

#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// Exchanges of older plans that are kept so that slower members can still read from us.
constexpr std::size_t engine_exchanges_max = 6;
// So often in a row a leader that answers too late is given twice the time when it is asked again.
constexpr int late_answers_max = 4;
constexpr Duration sleep_min = 2s;  // without a look at the clock; shorter: busy

}  // namespace

Result<std::unique_ptr<RoundEngine>> RoundEngine::make(runtime::Node node,
                                                       p2p::Host& host,
                                                       const security::Signer& signer,
                                                       const security::Verifier& verifier,
                                                       consensus::Ledger& ledger,
                                                       allreduce::PartStore& parts,
                                                       const Roster& roster,
                                                       RoundListener& listener,
                                                       RoundOptions options) {
    RoundContext context{node, host, signer, verifier, ledger, parts, roster, listener, options};
    std::unique_ptr<RoundEngine> engine(new RoundEngine(std::move(context)));
    DEDLOC_TRY(engine->acceptor_, consensus::Acceptor::open(engine->consensus_));
    engine->proposer_ = std::make_unique<consensus::Proposer>(
        engine->consensus_, *engine->acceptor_, engine->proposer_hooks());
    consensus::RoundUnderWay& round = *engine;
    engine->service_ = std::make_unique<consensus::ConsensusService>(
        engine->consensus_, *engine->acceptor_, round);
    return engine;
}

RoundEngine::RoundEngine(RoundContext context)
    : context_(std::move(context)),
      reports_(context_),
      transfers_(transfer_environment(context_, reports_)),
      fetcher_(transfers_),
      averages_(context_, fetcher_),
      consensus_(consensus_environment(context_, averages_, reports_)),
      exchanges_(transfers_, engine_exchanges_max),
      line_(context_.node,
            context_.host,
            probe_options(context_, [this] { return !wanted_ && !exchanges_.in_round(); })),
      changed_(context_.node.executor),
      turn_over_(context_.node.executor),
      handlers_(context_.host),
      scope_(context_.node.executor) {
    averages_.read_kept();
}

consensus::ProposerHooks RoundEngine::proposer_hooks() {
    consensus::ProposerHooks hooks;
    hooks.is_suspected = [this](const PeerId& peer) { return suspected(peer); };
    hooks.take_certificates = [this](const PeerId& voter, const std::vector<Bytes>& certificates) {
        service_->take_certificates(voter, certificates);
    };
    hooks.audience = [this] { return audience(); };
    return hooks;
}

RoundEngine::~RoundEngine() = default;

void RoundEngine::start() {
    register_handlers();
    service_->start();
    fetcher_.wait_for_arrivals([this](consensus::FinishedPart part, TimePoint deadline) {
        return arrival(std::move(part), deadline);
    });
    averages_.ask_whether_checked([this](const consensus::FinishedPart& part) {
        const auto exchange = exchanges_.find(part.plan);
        return exchange && exchange->collected().has(part);
    });
    handlers_.on_connection([this](const PeerId& peer, bool connected) {
        if (connected) return;
        announced_.erase(peer);
        exchanges_.peer_gone(peer);
        changed_.pulse();
    });
    context_.ledger.on_decision([this](const consensus::Link& link) {
        const bool in_round = round_begun_.since_start.count() > 0;
        const Duration took = in_round ? context_.now() - round_begun_ : Duration(0);
        pace_.learn(took, context_.scores.learn(link.decision, link.plan.get()));
        ledger_moved();
    });
    context_.ledger.follow_branches_if(
        [this](const consensus::Decision& branch) { return may_follow(branch); });
    awake_at_ = context_.now();
    scope_.spawn("watch sleep", watch_sleep());
    scope_.spawn("drive rounds", drive());
    scope_.spawn("probe the line", line_.run());
}

Task<void> RoundEngine::stop() {
    co_await handlers_.stop();
    co_await service_->stop();
    co_await scope_.stop();
    co_await proposer_->stop();
    co_await exchanges_.stop();
    co_await averages_.stop();
    co_await acceptor_->stop();
}

void RoundEngine::ledger_moved() {
    // Who was quick has announced itself for the new base already.
    const Digest& previous = context_.ledger.base().previous;
    std::erase_if(announced_, [&previous](const auto& entry) {
        return entry.second.announce.previous != previous;
    });
    const consensus::Instance& open = context_.ledger.base().instance;
    if (step_open_.first.step != open.step || step_open_.first.branch != open.branch) {
        step_open_ = {open, context_.now()};
        step_averaged_.reset();
    }
    learn_rates();
    learn_from_newest_commit();
    exchanges_.forget_inputs();
    suspects_.clear();
    told_.clear();
    asked_.reset();
    proposer_->ledger_moved();
    lonely_turns_ = 0;
    wanted_ = false;
    wanted_since_.reset();
    acceptor_->round_wanted_since(std::nullopt);
    round_begun_ = {};
    changed_.pulse();
    turn_over_.pulse();
}

// Whom we did not wait for once may have been in others' rounds since, and never announced to us.
// And how long rounds are also who comes while one is under way, or was in none for long, has to
// know: to take all who are in it for dead would be rash.
void RoundEngine::learn_from_newest_commit() {
    if (!context_.ledger.started()) return;
    const bool decided = context_.ledger.newest_decision().kind == consensus::DecisionKind::commit;
    const consensus::Link* const commit = context_.ledger.newest_commit();
    const bool knows_length = !decided && context_.patience.newest_round().count() > 0;
    if (!commit || (knows_length && not_waited_for_.empty())) return;
    const consensus::Plan* const plan = commit->plan.get();
    for (const consensus::PlanMember& member : plan->members) not_waited_for_.erase(member.peer);
    if (knows_length) return;
    context_.patience.is_told_of_round(plan->round_ms);
}

// A few who are out of reach of the others, or new, must not lead those away who have a majority,
// or whose chain has gone on.
bool RoundEngine::may_follow(const consensus::Decision& branch) const {
    const auto is_us = [this](const consensus::Voter& voter) {
        return voter.peer == context_.me();
    };
    if (std::ranges::any_of(branch.next_voters, is_us)) return true;
    const consensus::Base& base = context_.ledger.base();
    if (context_.roster.voters_of_our_branch(base) < consensus::majority(base.voters.size()) &&
        !context_.roster.chain_goes_on(base))
        return true;
    const Duration waited = wanted_since_ ? context_.now() - *wanted_since_ : Duration(0);
    return waited > context_.quorum_patience();
}

// The newest exchange has given all it will.
void RoundEngine::learn_rates() {
    const auto exchange = exchanges_.newest();
    if (!exchange || rates_learnt_ == exchange->digest()) return;
    rates_learnt_ = exchange->digest();
    const Duration predicted = std::chrono::milliseconds(exchange->plan().predicted_ms);
    const bool in_time =
        round_begun_.since_start.count() > 0 && context_.now() - round_begun_ < predicted * 3 / 2;
    line_.round_gave(exchange->end_measuring(), in_time);
    line_in_doubt_ = line_in_doubt_ && !exchange->contributes();
}

std::optional<TimePoint> RoundEngine::planned_at(const consensus::Decision& commit) const {
    const auto exchange = exchanges_.find(consensus::decision_digest(commit.plan));
    if (!exchange) return std::nullopt;
    return exchange->started();
}

double RoundEngine::upload_bytes_per_s() const {
    const RoundOptions& options = context_.options;
    if (options.granted_is_true) return options.upload_max;
    return links::capped(line_.upload_bytes_per_s(), options.upload_max);
}

// What came in is what others could send at least: a line takes as much as it gives, unless more
// was seen, or it was full and took less.
double RoundEngine::download_bytes_per_s() const {
    const RoundOptions& options = context_.options;
    if (options.granted_is_true) return options.download_max;
    const double measured = line_.download_bytes_per_s();
    const double assumed = line_.download_was_filled() ? 0 : line_.upload_bytes_per_s();
    return links::capped(std::max(measured, assumed), options.download_max);
}

void RoundEngine::set_caps(double upload_max, double download_max) {
    if (context_.set_caps(upload_max, download_max)) line_.ask_again();
}

void RoundEngine::set_left_out(bool left_out) {
    if (left_out) {
        probes_before_ = line_.probes();
        line_.ask_again();
    } else {
        line_in_doubt_ = line_.probes() == probes_before_;
    }
}

void RoundEngine::set_wanted(bool wanted) {
    if (wanted && !wanted_since_) {
        wanted_since_ = context_.now();
        acceptor_->round_wanted_since(wanted_since_);
    }
    if (wanted == wanted_) return;
    wanted_ = wanted;
    changed_.pulse();
}

Task<void> RoundEngine::participate(std::shared_ptr<const allreduce::RoundInput> input) {
    const consensus::Instance open = context_.ledger.base().instance;
    const auto is_open = [this, open] {
        const consensus::Instance& now = context_.ledger.base().instance;
        return now.step == open.step && now.branch == open.branch;
    };
    input_ = std::move(input);
    reports_.is_handed_in();
    // Who brings nothing waits for those who bring something; when they do not come, it had better
    // compute. (If all waited for each other with empty hands, nobody ever would.)
    const TimePoint give_up =
        input_->input.is_empty() ? context_.now() + usual_deadline() * 3 : TimePoint::never();
    changed_.pulse();
    // Brought again, what nobody can take would bring about the same abort, as fast as votes are
    // written down.
    const auto in_vain = [this, open] {
        return reports_.own_refused() && context_.ledger.base().instance.attempt != open.attempt;
    };
    while (is_open() && context_.now() < give_up && !in_vain()) {
        // Again after an aborted attempt, which clears the wish; not for the step that follows.
        if (input_) set_wanted(true);
        (void)co_await changed_.wait_until(context_.node.clock, give_up);
    }
    input_.reset();
}

// ---- the driver ---------------------------------------------------------------------------------

Task<void> RoundEngine::drive() {
    for (;;) {
        const consensus::Base base = context_.ledger.base();
        const bool offered =
            std::any_of(announced_.begin(), announced_.end(), [](const auto& entry) {
                return !entry.second.announce.input.is_empty();
            });
        const bool something = input_ || wanted_ || offered;
        if (!base.state || !something) {
            co_await changed_.wait();
            continue;
        }
        set_wanted(true);
        Task<void> turn = one_turn(base);
        Task<void> advanced = until_advanced(base.previous);
        co_await runtime::first_of(std::move(turn), std::move(advanced));
    }
}

Task<void> RoundEngine::until_advanced(Digest previous) {
    while (context_.ledger.base().previous == previous) co_await turn_over_.wait();
}

Task<void> RoundEngine::pause(Duration duration) {
    const TimePoint until = context_.now() + duration;
    (void)co_await changed_.wait_until(context_.node.clock, until);
}

Task<void> RoundEngine::one_turn(consensus::Base base) {
    const auto leader = pick_leader(base);
    if (!leader) {
        co_await pause(context_.options.announce_interval);
    } else if (*leader == context_.me()) {
        co_await lead(base);
    } else if (input_) {
        co_await follow(base, *leader);
    } else {
        co_await pause(context_.options.announce_interval);
    }
}

bool RoundEngine::suspected(const PeerId& peer) const {
    const auto found = suspects_.find(peer);
    return found != suspects_.end() && found->second > context_.now();
}

// A process that is killed loses its connections, long before it has failed to answer anything.
bool RoundEngine::is_here(const PeerId& peer) const {
    return peer == context_.me() || context_.host.is_connected(peer);
}

void RoundEngine::suspect(const PeerId& peer, std::string why) {
    suspects_[peer] = context_.now() + suspicion_of_leaders;
    const RoundNote note{RoundNote::Kind::leader_suspected, peer, std::move(why)};
    context_.listener.note(note);
}

// A leader that sends such a plan brings no round about: the next one is asked at once.
void RoundEngine::refuse_plan(const PeerId& leader, const Error& why) {
    reports_.refuse_message(leader, why);
    if (why.kind() != ErrorKind::peer_broke_protocol) return;
    suspect(leader, why.message());
    changed_.pulse();
}

bool RoundEngine::slept() const { return context_.now() - awake_at_ > sleep_min; }

// A machine that was asleep, or a stopped process, has not waited for anybody meanwhile: what the
// others did is about to be heard of.
Task<void> RoundEngine::watch_sleep() {
    for (;;) {
        if (slept() && wanted_since_) {
            wanted_since_ = context_.now();
            acceptor_->round_wanted_since(wanted_since_);
        }
        awake_at_ = context_.now();
        look_at_line();
        acceptor_->look_at_disk();
        co_await context_.node.clock.sleep_for(sleep_min / 4);
    }
}

// Lost means gone: as long as a majority of voters is heard of, or somebody tells of a step that we
// have missed, we try again, for a long time, before we part from the others.
bool RoundEngine::quorum_is_lost() const {
    if (!wanted_since_ || slept()) return false;
    const Duration waited = context_.now() - *wanted_since_;
    const Duration timeout = context_.quorum_patience();
    if (waited <= timeout || context_.roster.loads_state()) return false;
    return !consensus::lives(context_.roster, context_.ledger.base()) || waited > timeout * 3;
}

std::optional<PeerId> RoundEngine::pick_leader(const consensus::Base& base) const {
    std::optional<PeerId> left_over;
    for (const PeerId& candidate : consensus::leader_order(base.previous, base.voters)) {
        if (candidate == context_.me() ? !acceptor_->may_lead() : suspected(candidate)) continue;
        if (context_.scores.may_lead(candidate)) return candidate;
        if (!left_over) left_over = candidate;
    }
    if (left_over) return left_over;
    if (!quorum_is_lost()) return std::nullopt;
    // No voter answers and has not for long: whoever is left of the trainers may open a branch. Not
    // who has no state to begin it with.
    const std::vector<PeerId> newcomers = context_.roster.newcomers();
    std::vector<consensus::Voter> left{{context_.me(), 0, true}};
    for (const PeerId& peer : context_.roster.live_trainers())
        if (std::ranges::find(newcomers, peer) == newcomers.end()) left.push_back({peer, 0, true});
    for (const PeerId& candidate : consensus::leader_order(base.previous, left))
        if (candidate == context_.me() || !suspected(candidate)) return candidate;
    return std::nullopt;
}

Announce RoundEngine::own_announcement(const consensus::Base& base) {
    Announce announce;
    announce.instance = base.instance;
    announce.previous = base.previous;
    announce.state = base.state.value_or(Digest{});
    announce.incarnation = acceptor_->incarnation();
    if (input_) announce.input = input_->input;
    // Of a line in doubt only the user's word is sure.
    const RoundOptions& options = context_.options;
    announce.upload_bytes_per_s = line_in_doubt_ ? options.upload_max : upload_bytes_per_s();
    announce.download_bytes_per_s = line_in_doubt_ ? options.download_max : download_bytes_per_s();
    announce.dialable = !context_.host.addresses().empty();
    announce.leaving = leaving_;
    announce.unreachable = exchanges_.state().unreachable.list(context_.host, context_.now());
    return announce;
}

Duration RoundEngine::patience_with_leader() const {
    const double micro_batch = std::clamp(context_.roster.micro_batch_s(), 0.0, 60.0);
    return usual_deadline() * 4 + from_seconds(micro_batch * 2) +
           context_.patience.with_answer() * 2;
}

// For longer than that, and nobody else meanwhile.
bool RoundEngine::has_followed(const consensus::Base& base,
                               const PeerId& leader,
                               Duration duration) {
    if (followed_ != std::make_pair(base.previous, leader)) {
        followed_ = {base.previous, leader};
        followed_since_ = context_.now();
    }
    return context_.now() - followed_since_ > duration;
}

Task<void> RoundEngine::follow(consensus::Base base, PeerId leader) {
    const Announce announce = own_announcement(base);
    if (std::find(told_.begin(), told_.end(), announce.input) == told_.end())
        told_.push_back(announce.input);
    Bytes request = wire::encode(announce);
    const auto told = std::make_shared<Result<Bytes>>(
        make_error(ErrorKind::timeout, "its averages are due, and it is silent"));
    Task<void> asking = ask_leader(leader, std::move(request), told);
    Task<void> overdue = until_overdue(leader);
    asked_ = {leader, context_.now()};
    co_await runtime::first_of(std::move(asking), std::move(overdue));
    asked_.reset();
    const Result<Bytes>& answer = *told;
    if (!answer) {
        // It has begun again, perhaps, and is about to say hello.
        if (answer.error().kind() == ErrorKind::denied &&
            !has_followed(base, leader, context_.patience.with_answer())) {
            co_await pause(context_.options.announce_interval);
            co_return;
        }
        suspect(leader, answer.error().message());
        not_waited_for_.insert(leader);  // should we lead next: it has cost its deadline
        co_return;
    }
    auto reply = wire::decode<AnnounceReply>(*answer);
    if (!reply) {
        suspect(leader, "its answer cannot be read");
        co_return;
    }
    context_.patience.is_told_of_longer_round(reply->round_ms);
    switch (reply->verdict) {
        case Verdict::accepted:
            break;
        case Verdict::redirect:
            // It does not lead: it may not vote, or believes in a leader before it. If that one has
            // just failed us, it will find out as well; otherwise that is the one to ask.
            if (!suspected(reply->leader))
                suspects_[leader] = context_.now() + suspicion_of_leaders;
            else if (has_followed(base, leader, context_.patience.with_answer() * 4))
                suspect(leader, "it sends us to a leader who is gone");
            break;
        case Verdict::you_are_behind:
            service_->take_certificates(leader, reply->certificates);
            if (reply->certificates.empty()) context_.listener.behind(leader);
            break;
        case Verdict::i_am_behind: {
            const TimePoint until = context_.now() + context_.patience.with_answer();
            auto certificates = context_.ledger.tail(4);
            for (Bytes& certificate : certificates)
                if (context_.now() < until)
                    co_await send(leader, consensus::certificate_method, std::move(certificate));
            break;
        }
        case Verdict::refused:
            suspect(leader, "it refused our announcement: " + reply->reason);
            break;
        case Verdict::full:
            reports_.round_is_full(leader, std::move(reply->reason));
            co_await context_.node.clock.sleep_for(full_round_pause);
            break;
    }
    // Where it redirects, has its own patience.
    if (reply->verdict != Verdict::redirect) pass_over_if_idle(base, leader);
    co_await pause_following(base, leader);
}

// A leader that answers, whatever it says, and brings no round about is passed over for a while.
void RoundEngine::pass_over_if_idle(const consensus::Base& base, const PeerId& leader) {
    if (context_.ledger.base().previous != base.previous ||
        !has_followed(base, leader, patience_with_leader()))
        return;
    suspect(leader, "it answers, but its round does not come about");
    followed_since_ = context_.now();
}

Task<void> RoundEngine::ask_leader(PeerId leader,
                                   Bytes request,
                                   std::shared_ptr<Result<Bytes>> answer) {
    const TimePoint asked = context_.now();
    // Where nobody else could lead, a line that is full of what it brings newcomers is waited for.
    const bool no_other = context_.ledger.base().voters.size() == 1;
    const int late = no_other ? std::min(late_answers_[leader], late_answers_max) : 0;
    const Duration patience =
        std::min(context_.patience.with_answer() * (1 << late), links::patience_max);
    *answer =
        co_await context_.host.call(leader, announce_method, std::move(request), asked + patience);
    if (*answer || answer->error().kind() != ErrorKind::timeout)
        late_answers_.erase(leader);
    else
        ++late_answers_[leader];
    answers_in_ = std::max<Duration>(context_.now() - asked, answers_in_ * 3 / 4);
}

// When a leader that we asked, and that does not answer, is taken for gone before the call ends:
// the round should be over by now, and nothing comes from it. One whose line is slow sends
// something meanwhile.
TimePoint RoundEngine::overdue_at(const PeerId& leader, Duration silence) const {
    const auto exchange = exchanges_.newest();
    if (!asked_ || asked_->first != leader || !exchange || exchange->plan().leader != leader ||
        exchange->plan().previous != context_.ledger.base().previous)
        return TimePoint::never();
    const TimePoint heard = std::max(asked_->second, exchange->leader_heard_at());
    return std::max(heard + silence, exchange->usual_end());
}

// Where answers come late, whoever leads, silence means less.
Duration RoundEngine::silence_of_the_dead() const {
    const Duration patience = context_.patience.with_answer();
    return std::clamp<Duration>(answers_in_ * 3 / 2, patience / 3, patience);
}

Task<void> RoundEngine::until_overdue(PeerId leader) {
    for (;;) {
        const TimePoint at = overdue_at(leader, silence_of_the_dead());
        if (context_.now() >= at) co_return;
        (void)co_await changed_.wait_until(context_.node.clock, at);
    }
}

// Of forty members who each look four times a second a slow leader's line has little left for the
// averages, which tell that the round goes on. One whose connection is lost is asked at once.
Task<void> RoundEngine::pause_following(consensus::Base base, PeerId leader) {
    const TimePoint until = context_.now() + context_.patience.with_answer() / 2;
    Duration next = context_.options.announce_interval;
    do {
        co_await pause(next);
        next = std::min(next, until - context_.now());
    } while (context_.now() < until && awaits_averages(base) && is_here(leader));
}

bool RoundEngine::awaits_averages(const consensus::Base& base) const {
    const auto exchange = exchanges_.newest();
    return exchange && exchange->plan().previous == base.previous && !exchange->complete() &&
           context_.now() < exchange->round_deadline();
}

}  // namespace dedloc::averaging
