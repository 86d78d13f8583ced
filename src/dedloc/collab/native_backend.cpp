#include "dedloc/collab/native_backend.h"

#include <algorithm>

#include "dedloc/allreduce/plan_check.h"
#include "dedloc/collab/round_options.h"
#include "dedloc/wire/message.h"

namespace dedloc::collab {

namespace {

std::vector<robust::Order> orders_of(const std::optional<consensus::Decision>& newest,
                                     std::uint64_t step) {
    if (!newest) return {};
    robust::Orders orders(newest->orders);
    orders.forget_before(step);
    return orders.list();
}

// A run that goes on still knows of honest steps what it knew then.
consensus::Protection protection_of(const std::optional<consensus::Decision>& newest) {
    consensus::Protection protection;
    if (!newest) return protection;
    protection.standings = newest->standings;
    protection.sizes = newest->sizes;
    return protection;
}

}  // namespace

Result<std::unique_ptr<AveragingBackend>> NativeBackend::make(BackendContext context) {
    auto made = std::make_unique<NativeBackend>(std::move(context));
    DEDLOC_TRY_VOID(made->prepare());
    return std::unique_ptr<AveragingBackend>(std::move(made));
}

NativeBackend::NativeBackend(BackendContext context)
    : context_(std::move(context)),
      ledger_(context_.verifier,
              std::max<std::size_t>(context_.options.kept_steps, 4),
              context_.planted.bugs),
      orders_(context_.host.id(), ledger_, context_.membership, context_.teller),
      roster_(context_, ledger_, orders_),
      books_(context_),
      pace_(context_),
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
    DEDLOC_TRY_VOID(replica::check_fragments(context_.options.run, context_.options.layout));
    DEDLOC_TRY(engine_,
               averaging::Coordinator::make(
                   round_environment(context_, ledger_, parts_, roster_, *this, judge_)));
    roster_.is_engine(*engine_);
    follower_ = std::make_unique<replica::ChainFollower>(*engine_,
                                                         store_,
                                                         context_.membership,
                                                         context_.options.run,
                                                         context_.options.layout,
                                                         follower_callbacks());
    roster_.is_follower(*follower_);
    if (context_.options.run.is_checked())
        checks_ = std::make_unique<GradientChecks>(context_, *engine_, roster_, orders_);
    return {};
}

validation::GradientValidators* NativeBackend::checks() const {
    return checks_ ? &checks_->validators() : nullptr;
}

replica::ChainFollower::Callbacks NativeBackend::follower_callbacks() {
    replica::ChainFollower::Callbacks callbacks;
    callbacks.on_applied = [this](const consensus::Decision& decision,
                                  const consensus::RoundPlan& plan,
                                  const optim::UpdateReport& optimizer) {
        take_newest_state();
        events::StepMade made = books_.applied(decision, plan, optimizer, told_.hash);
        // A robust step tells how long it was averaged, before it is made shorter.
        if (decision.size.length > 0) made.gradient_norm = decision.size.length;
        if (context_.options.run.robust) {
            made.at_work = ledger_.base().protection.at_work(decision.number).size();
            made.tau = plan.tau;
        }
        context_.listener.applied(made);
    };
    callbacks.on_expected = [this](std::shared_ptr<const state::Snapshot> state) {
        context_.listener.state_expected(std::move(state));
    };
    callbacks.on_replaced = [this](const std::string& why) {
        begin_anew();
        context_.teller.tell(events::Resynced{}, {}, "loaded the group's state: " + why);
    };
    callbacks.on_progress = [this](double progress) {
        context_.listener.download_progress(progress);
    };
    return callbacks;
}

// ---- life ---------------------------------------------------------------------------------------

void NativeBackend::start() {
    certificate_log_.start();
    if (context_.options.run.robust) evidence_log_.begin(run::to_toml(context_.options.run));
    if (checks_) checks_->start();
    ledger_.on_decision([this](const consensus::Link& link) {
        receive_decision(link);    // books, orders and logs, while the round is still known
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
    const auto before = decision_before();
    const Bytes genesis = consensus::make_genesis(run::run_hash(context_.options.run),
                                                  published->root(),
                                                  self,
                                                  context_.signer,
                                                  initial->step(),
                                                  static_cast<double>(initial->info().samples),
                                                  orders_of(before, initial->step()),
                                                  protection_of(before));
    DEDLOC_CO_TRY_VOID(follower_->begin(genesis, published->root()));
    engine_->begin_run();
    certificate_log_.add(genesis);
    take_newest_state();
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

Task<Result<void>> NativeBackend::join(TimePoint deadline) {
    DEDLOC_CO_TRY_VOID(co_await follower_->join(deadline));
    engine_->ledger_moved();
    const auto newest = store_.newest();
    DEDLOC_CHECK(newest != nullptr);
    take_newest_state();
    context_.teller.tell(
        events::Joined{}, {}, fmt::format("joined at step {}", newest->snapshot->step()));
    co_return Result<void>();
}

Task<void> NativeBackend::stop() {
    co_await engine_->stop();
    co_await follower_->stop();
    if (checks_) co_await checks_->stop();
    co_await evidence_log_.stop();
    state_server_.reset();
    co_await certificate_log_.stop();
}

// ---- the open step ------------------------------------------------------------------------------

bool NativeBackend::has_open_state() const {
    return ledger_.base().state && follower_->up_to_date();
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
    poll_pace();
    if (!ledger_.started()) return;
    const consensus::Base& base = ledger_.base();
    const bool same = now.certificate == base.previous;
    const bool elsewhere = now.branch != base.instance.branch && !now.branch.is_zero();
    if (!same && (replica::is_ahead(now, base) || elsewhere) &&
        now.role == membership::Role::trainer && now.phase != membership::Phase::downloading)
        follower_->inspect(now.peer);
    const bool told = before.certificate == now.certificate && before.state_hash == now.state_hash;
    if (same && base.state && now.state_hash != *base.state && !now.state_hash.is_zero() && !told)
        context_.teller.tell(events::StateDiffers{},
                             now.peer,
                             fmt::format("{} has another state at step {}", now.name, now.step));
    // A peer that averages for the step we stand on has seen the batch full: join at once.
    if (same && now.phase == membership::Phase::averaging && now.samples > 0)
        context_.listener.step_wanted();
}

void NativeBackend::poll_pace() {
    const double average_bytes = engine_->environment().options.average_bytes();
    if (auto hopeless = pace_.observe(told_.step, average_bytes))
        follower_->give_up_joining(*std::move(hopeless));
}

void NativeBackend::receive_decision(const consensus::Link& link) {
    const consensus::Decision& decision = link.decision;
    const bool new_branch = decision.kind == consensus::DecisionKind::branch;
    context_.listener.certified(new_branch);
    context_.report.decided(context_.node.clock.now());
    certificate_log_.add(link.certificate);
    if (new_branch)
        context_.teller.tell(events::NewBranch{},
                             {},
                             fmt::format("{} peer{} go{} on as a new branch",
                                         decision.next_voters.size(),
                                         decision.next_voters.size() == 1 ? "" : "s",
                                         decision.next_voters.size() == 1 ? "es" : ""));
    orders_.tell(link.changes);
    if (std::string why = why_kept_out(context_.host.id()); !why.empty())
        context_.listener.kept_out(std::move(why));
    if (checks_) checks_->decided(decision);
    if (decision.kind != consensus::DecisionKind::commit || !link.plan) return;
    const auto began = store_.find(link.plan->state);
    if (checks_ && began &&
        allreduce::fits_commit(*link.plan,
                               consensus::decision_digest(decision.plan),
                               decision.parts,
                               engine_->environment().options))
        checks_->certified(link, began->snapshot);
    books_.committed(decision,
                     *link.plan,
                     engine_->planned_at(decision),
                     engine_->left_out(decision, *link.plan));
}

void NativeBackend::begin_anew() {
    books_.begin_anew();
    engine_->ledger_moved();
    if (store_.newest()) take_newest_state();
}

void NativeBackend::take_newest_state() {
    const auto newest = store_.newest();
    told_ = {newest->root(), newest->snapshot->step()};
    context_.listener.state_is(newest->snapshot);
}

consensus::Voter NativeBackend::as_voter() const {
    return {context_.host.id(), engine_->incarnation(), !context_.host.addresses().empty()};
}

void NativeBackend::poll() {
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
    status.step = told_.step;
    if (base.state && *base.state == told_.hash) status.certificate = base.previous;
    status.branch_samples = base.branch_samples;
    status.state_hash = told_.hash;
}

}  // namespace dedloc::collab
