#include "dedloc/collab/native_backend.h"

#include <algorithm>
#include <limits>

#include "dedloc/collab/round_options.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {

Result<std::unique_ptr<AveragingBackend>> NativeBackend::make(BackendContext context) {
    auto made = std::make_unique<NativeBackend>(std::move(context));
    DEDLOC_TRY_VOID(made->prepare());
    return std::unique_ptr<AveragingBackend>(std::move(made));
}

NativeBackend::NativeBackend(BackendContext context)
    : context_(std::move(context)),
      ledger_(context_.verifier,
              std::max<std::size_t>(context_.options.kept_steps, 4),
              context_.options.bugs),
      parts_(kept_bytes(context_.options)),
      store_(context_.node.clock),
      certificate_log_(context_.node),
      evidence_log_(context_.node),
      judge_(ledger_, context_.judge) {
    if (checks_newcomers(context_.options.run)) ledger_.let_newcomers_weigh_nothing();
    ledger_.protect(protection_rules(context_.options.run));
}

NativeBackend::~NativeBackend() = default;

Result<void> NativeBackend::prepare() {
    averaging::Environment environment{context_.node,
                                       context_.host,
                                       context_.signer,
                                       context_.verifier,
                                       ledger_,
                                       parts_,
                                       *this,
                                       *this,
                                       context_.teller,
                                       round_options(context_.options),
                                       judge_};
    DEDLOC_TRY(engine_, averaging::Coordinator::make(std::move(environment)));
    follower_ = std::make_unique<replica::ChainFollower>(*engine_,
                                                         store_,
                                                         context_.membership,
                                                         context_.options.run,
                                                         context_.options.layout,
                                                         follower_callbacks());
    if (context_.options.run.robust && context_.options.run.robust->check > 0) prepare_checks();
    return {};
}

void NativeBackend::prepare_checks() {
    const run::RobustConfig& robust = *context_.options.run.robust;
    validation::ValidatorOptions options;
    options.check = robust.check;
    options.tolerance = robust.tolerance_for(context_.options.run.task.precision);
    if (context_.options.bugs.loose_tolerance) options.tolerance *= 100;
    if (robust.probation > 0) options.right_needed = static_cast<std::uint32_t>(robust.probation);
    options.rule = engine_->environment().options.clip_rule;
    options.stubborn = context_.options.stubborn;
    validation::ValidatorHooks hooks;
    hooks.propose = [this](robust::Order order, Bytes evidence) {
        engine_->docket().add({std::move(order), std::move(evidence)});
    };
    hooks.audience = [this] { return live_trainers(); };
    hooks.name_of = [this](const PeerId& peer) { return name_of(peer); };
    hooks.tell = [this](events::Any what, PeerId peer, std::string text) {
        context_.teller.tell(std::move(what), std::move(peer), std::move(text));
    };
    validators_ = std::make_unique<validation::Validators>(context_.node,
                                                           context_.host,
                                                           context_.signer,
                                                           context_.verifier,
                                                           ledger_,
                                                           parts_,
                                                           engine_->evidence(),
                                                           options,
                                                           std::move(hooks));
    validation::GradientRules rules;
    rules.tolerance = options.tolerance;
    rules.right_needed = options.right_needed;
    validation::add_gradient_rules(engine_->docket().rules(), rules);
}

std::optional<validation::CheckJob> NativeBackend::take_check() {
    return validators_ ? validators_->take() : std::nullopt;
}

Task<void> NativeBackend::checked(validation::CheckResult result) {
    if (validators_) co_await validators_->checked(std::move(result));
}

void NativeBackend::order_proved(const robust::Order& order, const Bytes& evidence) {
    evidence_log_.add(order, evidence);
}

replica::ChainFollower::Callbacks NativeBackend::follower_callbacks() {
    replica::ChainFollower::Callbacks callbacks;
    callbacks.on_applied = [this](const consensus::Decision& decision,
                                  const consensus::Plan& plan,
                                  const optim::StepReport& optimizer) {
        on_applied(decision, plan, optimizer);
    };
    callbacks.on_replaced = [this](const std::string& why) {
        begin_anew();
        context_.teller.tell(events::Resynced{}, {}, "loaded the group's state: " + why);
    };
    callbacks.on_progress = [this](double progress) {
        context_.listener.download_progress(progress);
    };
    callbacks.note = [this](events::Any what, std::string text) {
        context_.teller.tell(std::move(what), {}, std::move(text));
    };
    return callbacks;
}

// ---- life ---------------------------------------------------------------------------------------

void NativeBackend::start() {
    certificate_log_.start();
    if (context_.options.run.robust) evidence_log_.begin(run::to_toml(context_.options.run));
    if (validators_) validators_->start();
    ledger_.on_decision([this](const consensus::Link& link) {
        on_decision(link);         // contributions, orders, the log, while the round is still known
        engine_->decided(link);    // which forgets the round; the next one begins
        follower_->decided(link);  // and the state follows
    });
    engine_->start();
    follower_->start();
    state_server_ =
        std::make_unique<state::StateServer>(context_.host, store_, [this](const PeerId& peer) {
            return context_.membership.is_member(peer);
        });
}

Task<Result<void>> NativeBackend::host(std::shared_ptr<const state::Snapshot> initial) {
    DEDLOC_CO_TRY_VOID(
        replica::check_state(context_.options.run, context_.options.layout, *initial));
    auto published = co_await state::publish(context_.node.workers, initial);
    store_.put(published);
    const consensus::Voter self = as_voter();
    const Bytes genesis = consensus::make_genesis(run::run_hash(context_.options.run),
                                                  published->root(),
                                                  self,
                                                  context_.signer,
                                                  initial->step(),
                                                  static_cast<double>(initial->info().samples),
                                                  orders_before(initial->step()),
                                                  protection_before());
    DEDLOC_CO_TRY_VOID(follower_->begin(genesis, published->root()));
    engine_->begin_run();
    certificate_log_.add(genesis);
    take_newest();
    context_.teller.tell(
        events::RunStarted{}, {}, fmt::format("hosting from step {}", initial->step()));
    co_return Result<void>();
}

// The newest of the certificates beside the checkpoint that the run goes on from. Chains that
// nobody signed have none.
std::optional<consensus::Decision> NativeBackend::decision_before() const {
    const auto tail = wire::decode<consensus::CertificatesReply>(context_.options.chain);
    if (!tail || tail->certificates.empty()) return std::nullopt;
    auto newest = ledger_.check_start(tail->certificates.back());
    if (!newest || newest->run != run::run_hash(context_.options.run)) return std::nullopt;
    return *std::move(newest);
}

std::vector<robust::Order> NativeBackend::orders_before(std::uint64_t step) const {
    const auto newest = decision_before();
    if (!newest) return {};
    robust::Orders orders(newest->orders);
    orders.forget_before(step);
    return orders.list();
}

// The run still knows of honest steps what it knew then.
consensus::Protection NativeBackend::protection_before() const {
    consensus::Protection protection;
    const auto newest = decision_before();
    if (!newest) return protection;
    protection.standings = newest->standings;
    protection.sizes = newest->sizes;
    return protection;
}

Task<Result<void>> NativeBackend::join(TimePoint deadline) {
    DEDLOC_CO_TRY_VOID(co_await follower_->join(deadline));
    engine_->ledger_moved();
    const auto newest = store_.newest();
    DEDLOC_CHECK(newest != nullptr);
    take_newest();
    context_.teller.tell(
        events::Joined{}, {}, fmt::format("joined at step {}", newest->snapshot->step()));
    co_return Result<void>();
}

Task<void> NativeBackend::stop() {
    co_await engine_->stop();
    co_await follower_->stop();
    if (validators_) co_await validators_->stop();
    co_await evidence_log_.stop();
    state_server_.reset();
    co_await certificate_log_.stop();
}

// ---- the open step ------------------------------------------------------------------------------

std::uint64_t NativeBackend::open_step() const {
    return ledger_.started() ? ledger_.base().instance.step : 0;
}

bool NativeBackend::has_open_state() const {
    return ledger_.base().state && follower_->up_to_date();
}

// By step rather than by certificate: a peer that has not heard of an aborted attempt or a new
// branch yet will in a moment.
bool NativeBackend::works_on_open_step(const membership::Status& status) const {
    const consensus::Base& base = ledger_.base();
    return (status.branch == base.instance.branch && status.step == base.instance.step &&
            !status.certificate.is_zero()) ||
           (base.is_voter(status.peer) && status.step == base.instance.step);
}

void NativeBackend::want_round() {
    if (ledger_.base().state) engine_->set_wanted(true);
}

Task<void> NativeBackend::average(std::shared_ptr<const allreduce::RoundInput> input) {
    co_await engine_->participate(std::move(input));
}

void NativeBackend::set_caps(double upload_max, double download_max) {
    engine_->link().set_caps(upload_max, download_max);
}

// ---- what happens -------------------------------------------------------------------------------

void NativeBackend::on_status(const membership::Status& before, const membership::Status& now) {
    look_at_pace();
    if (!ledger_.started()) return;
    const consensus::Base& base = ledger_.base();
    const bool same = now.certificate == base.previous;
    const bool elsewhere = now.branch != base.instance.branch && !now.branch.is_zero();
    if (!same && (replica::is_ahead(now, base) || elsewhere) &&
        now.role == membership::Role::trainer && now.phase != membership::Phase::downloading)
        follower_->look_at(now.peer);
    const bool told = before.certificate == now.certificate && before.state_hash == now.state_hash;
    if (same && base.state && now.state_hash != *base.state && !now.state_hash.is_zero() && !told)
        context_.teller.tell(events::StateDiffers{},
                             now.peer,
                             fmt::format("{} has another state at step {}", now.name, now.step));
    // A peer that averages for the step we stand on has seen the batch full: join at once.
    if (same && now.phase == membership::Phase::averaging && now.samples > 0)
        context_.listener.step_wanted();
}

// A peer whose line cannot bring it the others' steps would look as if it joined, or trained, for
// ever. What most of those who have a state say counts: one alone may lie about its step.
void NativeBackend::look_at_pace() {
    std::vector<std::uint64_t> steps;
    for (const membership::KnownPeer* peer : context_.membership.live())
        if (peer->status.role == membership::Role::trainer && !peer->status.certificate.is_zero())
            steps.push_back(peer->status.step);
    if (steps.empty()) return;
    std::ranges::sort(steps);
    const averaging::RoundOptions& options = engine_->environment().options;
    const auto slow =
        pace_.look(state_step_,
                   steps[(steps.size() - 1) / 2],
                   context_.host.traffic().received_bytes,
                   options.element_bytes() * static_cast<double>(options.vector_count),
                   context_.node.clock.now());
    if (!slow) return;
    constexpr double megabits = 8e-6;
    std::string text = fmt::format(
        "this peer cannot follow: the others make a step in {:.2g} s, which takes a line of "
        "{:.3g} Mb/s down, and as much up for what it brings; {:.2g} Mb/s came. Grant it more "
        "(--max-down, --max-up), take another line, or help with `dedloc assist`, which needs no "
        "state",
        slow->step_s,
        slow->needed_bytes_per_s * megabits,
        slow->came_bytes_per_s * megabits);
    if (slow->hopeless)
        follower_->give_up_joining(make_error(ErrorKind::cannot_compute, "{}", text));
    context_.teller.tell(events::CannotFollow{slow->needed_bytes_per_s, slow->came_bytes_per_s},
                         {},
                         std::move(text));
}

void NativeBackend::on_decision(const consensus::Link& link) {
    const consensus::Decision& decision = link.decision;
    const bool new_branch = decision.kind == consensus::DecisionKind::branch;
    context_.listener.certified(new_branch);
    context_.report.decided(context_.node.clock.now());
    certificate_log_.add(link.certificate);
    if (new_branch)
        context_.teller.tell(
            events::NewBranch{},
            {},
            fmt::format("{} peers go on as a new branch", decision.next_voters.size()));
    tell_of_orders(link.changes);
    if (validators_) {
        validators_->look_at_own_orders();
        validators_->look_at_voters(voters_);
    }
    voters_ = decision.next_voters;
    if (decision.kind != consensus::DecisionKind::commit) return;
    if (link.plan) on_commit(decision, link.plan);
}

void NativeBackend::tell_of_orders(const robust::OrderChanges& changes) {
    const std::uint64_t step = ledger_.base().instance.step;
    for (const robust::Order& order : changes.added) {
        // Nobody need know that a peer is no newcomer; of persons others tell.
        if (order.kind == robust::OrderKind::vouch || robust::is_of_person(order.kind)) continue;
        const bool about_us = order.subject == context_.host.id();
        context_.teller.tell(events::OrderGiven{.order = std::string(to_string(order.kind)),
                                                .offence = std::string(to_string(order.offence)),
                                                .evidence = order.evidence.hex(),
                                                .about_us = about_us},
                             order.subject,
                             about_us ? order_for_us(order) : order_for_people(order));
        if (ledger_.base().orders.barring(order.subject, step) != nullptr)
            context_.membership.expel(order.subject);
    }
    for (const robust::Order& order : changes.ended) {
        if (order.kind != robust::OrderKind::probation) continue;
        const bool about_us = order.subject == context_.host.id();
        context_.teller.tell(
            events::OrderEnded{.order = std::string(to_string(order.kind))},
            order.subject,
            fmt::format("{} computed rightly again: what it brings counts as everybody's",
                        about_us ? std::string("this peer") : name_of(order.subject)));
    }
    const std::string why = why_kept_out(context_.host.id());
    if (!why.empty()) context_.listener.kept_out(why);
}

std::string NativeBackend::name_of(const PeerId& peer) const {
    const membership::KnownPeer* const known = context_.membership.find(peer);
    return known == nullptr || known->status.name.empty() ? peer.short_text() : known->status.name;
}

std::string NativeBackend::order_for_people(const robust::Order& order) const {
    return fmt::format("{} is {}", name_of(order.subject), robust::in_words(order));
}

// Says what the peer can do about it, too.
std::string NativeBackend::order_for_us(const robust::Order& order) const {
    if (order.kind != robust::OrderKind::probation)
        return fmt::format("this peer is {}", robust::in_words(order));
    return fmt::format(
        "this peer is {}. Look at its data (the same files, the same preparation?), its libraries "
        "and its memory; it takes part again when it has computed three contributions of others "
        "rightly, and others three of its own",
        robust::in_words(order));
}

std::string NativeBackend::why_kept_out(const PeerId& peer) const {
    if (!ledger_.started()) return {};
    const robust::Order* const order = ledger_.base().barring(peer);
    if (order == nullptr) return {};
    const bool about_us = peer == context_.host.id();
    return fmt::format("{} is {}; it does not come back with the same key",
                       about_us ? std::string("this peer") : name_of(peer),
                       robust::in_words(*order));
}

void NativeBackend::on_commit(const consensus::Decision& decision,
                              std::shared_ptr<const consensus::Plan> whole_plan) {
    const consensus::Plan& plan = *whole_plan;
    if (const auto began = store_.find(plan.state); validators_ && began)
        validators_->certified(decision, whole_plan, began->snapshot);
    Contributions& ours = context_.contributions;
    const std::optional<std::size_t> mine = ours.place_in(plan, context_.host.id());
    if (const auto planned = engine_->planned_at(decision))
        context_.report.planned(decision.instance, *planned, ours.fresh_handed_in_at());
    context_.listener.decided(fate_of(plan, decision, mine), plan.leader);
    context_.claims.committed(ours.handed_in_at(mine));
    ours.committed(plan, decision, mine);
}

// The fate of our contribution, which is number `mine` of the plan.
BackOff::Fate NativeBackend::fate_of(const consensus::Plan& plan,
                                     const consensus::Decision& decision,
                                     std::optional<std::size_t> mine) const {
    using Fate = BackOff::Fate;
    const auto& handed_in = context_.contributions.handed_in();
    if (!handed_in || handed_in->is_empty()) return Fate::missing;
    if (!mine) return plan.leaves_out(context_.host.id()) ? Fate::left_out : Fate::missing;
    return consensus::has_reached_others(plan, decision, *mine).value_or(true) ? Fate::taken
                                                                               : Fate::late;
}

void NativeBackend::on_applied(const consensus::Decision& decision,
                               const consensus::Plan& plan,
                               const optim::StepReport& optimizer) {
    take_newest();
    const Options& options = context_.options;
    events::StepMade made{
        .step = decision.instance.step + 1,
        .samples =
            consensus::committed_samples(plan, decision.parts, options.layout.vector_count()),
        .samples_total = decision.branch_samples,
        .members = static_cast<std::uint64_t>(std::ranges::count_if(
            plan.members, [](const auto& member) { return !member.aggregator; })),
        .contributors = 0,
        .left_out = plan.left_out.size(),
        .attempt = decision.instance.attempt,
        // A peer that slept applies many steps in a row: what it last handed in is in none of them.
        .loss = context_.contributions.loss_in(decision.instance)
                    .value_or(std::numeric_limits<double>::quiet_NaN()),
        .learning_rate = optimizer.learning_rate,
        .predicted_s = plan.predicted_ms / 1e3,
        .state_hash = state_hash_};
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        const consensus::PlanMember& member = plan.members[i];
        const bool is_in_it = is_in(decision, plan, i);
        if (is_in_it) ++made.contributors;
        if (is_in_it || member.aggregator) context_.membership.contributed(member.peer);
    }
    context_.claims.promises().step_made(
        [this](const PeerId& peer) { return has_contributed(peer); }, context_.node.clock.now());
    context_.report.applied(decision.instance, context_.node.clock.now(), made);
    // A robust step tells how long it was averaged, before it is made shorter.
    made.gradient_norm = decision.size.length > 0 ? decision.size.length : optimizer.gradient_norm;
    if (options.run.robust) {
        made.at_work = ledger_.base().protection.at_work(decision.number).size();
        made.tau = plan.tau;
    }
    context_.listener.applied(made);
}

// The chain is another one now; what was computed for the old one belongs nowhere.
void NativeBackend::begin_anew() {
    context_.contributions.forget();
    context_.claims.forget();
    context_.report.begin_anew(context_.node.clock.now());
    context_.listener.state_replaced();
    engine_->ledger_moved();
    if (store_.newest()) take_newest();
}

void NativeBackend::take_newest() {
    const auto newest = store_.newest();
    state_hash_ = newest->root();
    state_step_ = newest->snapshot->step();
    context_.listener.state_is(newest->snapshot);
}

consensus::Voter NativeBackend::as_voter() const {
    return {context_.host.id(), engine_->incarnation(), !context_.host.addresses().empty()};
}

void NativeBackend::look() {
    const std::uint64_t step = ledger_.base().instance.step;
    const consensus::Voter self = as_voter();
    const auto branch = follower_->part_from_lost(self);
    if (!branch) return;
    certificate_log_.add(*branch);
    begin_anew();
    context_.teller.tell(
        events::BranchOpened{},
        {},
        fmt::format("nobody has the state of step {} any more: we go on from step {} as a new "
                    "branch",
                    step,
                    ledger_.base().instance.step));
}

// ---- what others see ----------------------------------------------------------------------------

void NativeBackend::describe(membership::Status& status) const {
    status.incarnation = engine_->incarnation();
    status.upload_bytes_per_s = engine_->link().upload_bytes_per_s();
    status.download_bytes_per_s = engine_->link().download_bytes_per_s();
    if (!ledger_.started()) return;
    const consensus::Base& base = ledger_.base();
    status.branch = base.instance.branch;
    // A certificate that is not applied yet does not count: we do not stand there. Certificates
    // after a commit tell its state before we have computed it.
    status.step = state_step_;
    if (base.state && *base.state == state_hash_) status.certificate = base.previous;
    status.branch_samples = base.branch_samples;
    status.state_hash = state_hash_;
}

std::optional<run::Anchor> NativeBackend::anchor() const {
    if (!ledger_.started()) return std::nullopt;
    return run::Anchor{ledger_.base().previous, ledger_.base().instance.step};
}

// ---- averaging::Roster --------------------------------------------------------------------------

// One that is a step behind and speaks is making this step as well, over a slower link. If it were
// not waited for, it would come too late to every round that follows.
bool NativeBackend::arrives_at(const membership::KnownPeer& peer,
                               const consensus::Base& base) const {
    return peer.status.branch == base.instance.branch &&
           peer.status.step + 1 == base.instance.step &&
           peer.received > context_.report.decided_at();
}

std::vector<PeerId> NativeBackend::expected(const consensus::Base& base) const {
    std::vector<PeerId> expected;
    for (const membership::KnownPeer* peer : context_.membership.live()) {
        const membership::Status& status = peer->status;
        if (status.is_training() && (works_on_open_step(status) || arrives_at(*peer, base)))
            expected.push_back(status.peer);
    }
    return expected;
}

bool NativeBackend::has_contributed(const PeerId& peer) const {
    const membership::KnownPeer* const known = context_.membership.find(peer);
    return known != nullptr && known->contributed;
}

std::vector<PeerId> NativeBackend::live_trainers() const {
    std::vector<PeerId> trainers;
    for (const membership::KnownPeer* peer : context_.membership.live())
        if (peer->status.role == membership::Role::trainer) trainers.push_back(peer->status.peer);
    return trainers;
}

std::vector<PeerId> NativeBackend::newcomers() const {
    const consensus::Instance& open = ledger_.base().instance;
    std::vector<PeerId> newcomers;
    for (const membership::KnownPeer* peer : context_.membership.live()) {
        const membership::Status& status = peer->status;
        const bool lags = status.branch == open.branch && status.step + 1 < open.step;
        if (status.role == membership::Role::trainer && (status.is_newcomer() || lags))
            newcomers.push_back(status.peer);
    }
    return newcomers;
}

// Live voters of `base` with their memory of votes, we among them, that `counts`.
std::size_t NativeBackend::count_voters(
    const consensus::Base& base,
    const std::function<bool(const membership::Status&)>& counts) const {
    const PeerId& us = context_.host.id();
    std::size_t count = base.voter_incarnation(us) == engine_->incarnation() ? 1 : 0;
    for (const membership::KnownPeer* peer : context_.membership.live())
        if (peer->status.role == membership::Role::trainer &&
            base.voter_incarnation(peer->status.peer) == peer->status.incarnation &&
            counts(peer->status))
            ++count;
    return count;
}

std::size_t NativeBackend::voters_heard_of(const consensus::Base& base) const {
    return count_voters(base, [](const membership::Status&) { return true; });
}

bool NativeBackend::chain_goes_on(const consensus::Base& base) const {
    return std::ranges::any_of(context_.membership.live(),
                               [&base](const membership::KnownPeer* peer) {
                                   return replica::is_ahead(peer->status, base);
                               });
}

std::size_t NativeBackend::voters_of_our_branch(const consensus::Base& base) const {
    return count_voters(base, [&base](const membership::Status& status) {
        return status.branch == base.instance.branch;
    });
}

bool NativeBackend::allowed(const PeerId& peer) const {
    return context_.membership.is_member(peer) && why_kept_out(peer).empty();
}

bool NativeBackend::is_put_out(const PeerId& peer) const {
    return context_.membership.authorizer().has_put_out(peer);
}

std::string NativeBackend::refusal(const PeerId& peer) const {
    std::string why = why_kept_out(peer);
    return why.empty() ? Electorate::refusal(peer) : why;
}

double NativeBackend::micro_batch_s() const {
    double longest = context_.progress.micro_batch_s();
    const TimePoint now = context_.node.clock.now();
    for (const membership::KnownPeer* peer : context_.membership.live())
        if (context_.claims.promises().are_believed(peer->contributed, now))
            longest = std::max(longest, peer->status.micro_batch_s);
    return longest;
}

double NativeBackend::upload_bytes_per_s(const PeerId& peer) const {
    const membership::KnownPeer* const known = context_.membership.find(peer);
    return known == nullptr ? 0 : known->status.upload_bytes_per_s;
}

Ok NativeBackend::check_samples(const PeerId& peer, const consensus::MemberInput& input) const {
    const membership::KnownPeer* const known = context_.membership.find(peer);
    if (known == nullptr) return {};
    const membership::Status& status = known->status;
    const consensus::Instance& open = ledger_.base().instance;
    // Its newest status is from when it had handed in, or later: so is the speed in it.
    const bool told_of_all = status.branch == open.branch && status.step == open.step &&
                             status.samples > 0 &&
                             (status.phase == membership::Phase::averaging ||
                              status.phase == membership::Phase::leaving);
    return context_.claims.check(*known, input, told_of_all, context_.node.clock.now());
}

}  // namespace dedloc::collab
