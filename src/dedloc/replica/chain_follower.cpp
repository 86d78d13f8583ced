#include "dedloc/replica/chain_follower.h"

#include <algorithm>
#include <functional>

#include "dedloc/allreduce/fetch.h"
#include "dedloc/base/log.h"
#include "dedloc/consensus/catch_up.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::replica {
namespace {

using consensus::Decision;
using consensus::decision_of;
using consensus::DecisionKind;

constexpr Duration fetch_timeout_min = 20s;  // without any part of an average
constexpr std::size_t unfit_passes_max = 2;  // over all who have a state, until one gives up

// Peers that may be loading the same state as we.
std::vector<PeerId> co_downloaders_among(const std::vector<const membership::KnownPeer*>& live) {
    std::vector<PeerId> co_downloaders;
    for (const membership::KnownPeer* peer : live)
        if (peer->status.role == membership::Role::trainer && peer->status.is_newcomer())
            co_downloaders.push_back(peer->status.peer);
    return co_downloaders;
}

}  // namespace

bool is_ahead(const membership::Status& status, const consensus::Base& base) {
    return status.role == membership::Role::trainer && status.branch == base.instance.branch &&
           (status.step > base.instance.step || status.branch_samples > base.branch_samples);
}

std::vector<PeerId> fastest_providers(const std::vector<const membership::KnownPeer*>& live,
                                      const PeerId& first) {
    std::vector<std::pair<double, PeerId>> ranked{{0, first}};
    for (const membership::KnownPeer* peer : live) {
        const double rate = std::max(peer->status.upload_bytes_per_s, 0.0);
        if (peer->status.peer == first)
            ranked.front().first = rate;
        else if (peer->status.role == membership::Role::trainer && !peer->status.is_newcomer())
            ranked.emplace_back(rate, peer->status.peer);
    }
    std::ranges::stable_sort(
        ranked, std::greater<>(), [](const auto& provider) { return provider.first; });
    std::vector<PeerId> providers;
    for (auto& [rate, peer] : ranked) providers.push_back(std::move(peer));
    return providers;
}

ChainFollower::ChainFollower(averaging::Coordinator& engine,
                             state::SnapshotStore& store,
                             membership::Membership& membership,
                             run::RunFile run,
                             run::Layout layout,
                             Callbacks callbacks)
    : context_(engine.environment()),
      timeouts_(engine.timeouts()),
      fetcher_(engine.fetcher()),
      store_(store),
      membership_(membership),
      run_(std::move(run)),
      layout_(std::move(layout)),
      computer_(context_.node.executor,
                context_.node.workers,
                context_.parts,
                run_,
                layout_,
                context_.options.bugs),
      callbacks_(std::move(callbacks)),
      sync_candidates_(context_.node.executor,
                       context_.node.clock,
                       {.ask = [this](const PeerId& peer) { return catch_up_with(peer); },
                        .timeout = [this] { return timeouts_.answer(); }}),
      catch_up_(context_.node.clock, context_.host, context_.ledger),
      wake_(context_.node.executor),
      changed_(context_.node.executor),
      scope_(context_.node.executor) {}

ChainFollower::~ChainFollower() = default;

void ChainFollower::start() {
    scope_.spawn("apply commits", work());
    scope_.spawn("look for a state", find_state());
    sync_candidates_.start();
}

void ChainFollower::decided(const consensus::Link& link) {
    const Decision& decision = link.decision;
    // A peer that loads a state begins anew from there: only the first of these is of any use.
    if (!need_.is_needed() || queue_.empty())
        queue_.push_back({decision, link.plan, link.certificate});
    const std::vector<consensus::Voter>& voters = decision.next_voters;
    if (decision.kind == DecisionKind::branch && voters.size() == 1 &&
        voters.front().peer == context_.me())
        opened_alone_.insert(decision.instance.branch);
    wake_.pulse();
}

Task<void> ChainFollower::stop() {
    co_await sync_candidates_.stop();
    co_await scope_.stop();
    co_await computer_.stop();
}

Ok ChainFollower::begin(ByteView certificate, const Digest& root) {
    DEDLOC_TRY_VOID(context_.ledger.start_from(certificate));
    context_.ledger.set_state(root);
    return {};
}

// ---- applying -----------------------------------------------------------------------------------

// Only what follows from the state that is here, with nothing still to apply before it. Where other
// voters may decide otherwise, nobody computes from a state that may never come to be.
void ChainFollower::expect(const consensus::Decision& decision) {
    const auto before = store_.newest();
    if (!up_to_date() || !before || before->root() != decision.state_before) return;
    const bool decides_alone = context_.ledger.base().voters.size() == 1;
    computer_.expect(
        decision, before, decides_alone ? callbacks_.on_expected : StepComputer::OnNext());
}

Task<void> ChainFollower::work() {
    for (;;) {
        if (queue_.empty() || need_.is_needed()) {
            co_await wake_.wait();
            continue;
        }
        co_await apply_next();
        joining_.extend(context_.now());
        changed_.pulse();
    }
}

Task<void> ChainFollower::apply_next() {
    const Entry entry = queue_.front();
    busy_ = true;
    Result<optim::UpdateReport> applied = optim::UpdateReport{};
    if (entry.decision.kind == DecisionKind::commit)
        applied = co_await apply_commit(entry.decision, entry.plan);
    busy_ = false;
    // The queue was replaced while we worked (another branch was adopted): this result is void.
    if (queue_.empty() || queue_.front().certificate != entry.certificate) co_return;
    if (!applied) {
        const auto newest = store_.newest();
        context_.teller.tell(events::ReplayFailed{}, {}, applied.error().message());
        need_.arise(newest && newest->root() != entry.decision.state_before);
        check_all();
        wake_.pulse();
        co_return;
    }
    queue_.pop_front();
    need_.advanced();
    settle();
    if (entry.plan) callbacks_.on_applied(entry.decision, *entry.plan, *applied);
}

// The ledger may go on once the newest state is the one its chain ends in.
void ChainFollower::settle() {
    if (!queue_.empty()) return;
    const auto newest = store_.newest();
    if (!newest || context_.ledger.base().state) return;
    context_.ledger.set_state(newest->root());
    changed_.pulse();
}

// As long as parts come. Newcomers of a group with slow lines ask for the same average at once, and
// whoever gave up here would load a whole state over the same lines, and be behind again.
Task<Result<void>> ChainFollower::fetch_average(const Decision& decision,
                                                allreduce::PartSources sources,
                                                Duration timeout) {
    const auto have = [&] {
        return std::ranges::count_if(decision.parts, [&](const consensus::FinishedPart& part) {
            return static_cast<bool>(context_.parts.find(part.digest));
        });
    };
    for (;;) {
        const auto before = have();
        const TimePoint deadline = context_.now() + timeout;
        Result<void> fetched = co_await fetcher_.fetch(decision.parts, sources, deadline);
        if (fetched || have() <= before) co_return fetched;
        joining_.extend(context_.now());
        changed_.pulse();
    }
}

Task<void> ChainFollower::fetch_average_into(std::shared_ptr<Result<void>> fetched,
                                             Decision decision,
                                             allreduce::PartSources sources,
                                             Duration timeout) {
    *fetched = co_await fetch_average(decision, std::move(sources), timeout);
}

Task<void> ChainFollower::until_replaced(std::shared_ptr<const state::PublishedState> stood_on) {
    while (store_.newest() == stood_on) co_await changed_.wait();
}

Task<Result<optim::UpdateReport>> ChainFollower::apply_commit(
    Decision decision, std::shared_ptr<const consensus::RoundPlan> decoded) {
    const consensus::RoundPlan& plan = *decoded;
    const auto before = store_.newest();
    if (!before || before->root() != decision.state_before)
        co_return make_error(ErrorKind::conflict,
                             "our state {} is not the group's {} before step {}",
                             before ? before->root().short_hex() : "-",
                             decision.state_before.short_hex(),
                             decision.instance.step);
    // A living contributor knows the average best; one that is gone without a word costs its
    // time-out.
    std::vector<PeerId> candidates;
    for (const membership::KnownPeer* peer : membership_.live())
        candidates.push_back(peer->status.peer);
    const auto is_member = [&](const PeerId& peer) {
        return std::any_of(plan.members.begin(), plan.members.end(), [&](const auto& member) {
            return member.peer == peer;
        });
    };
    // A peer that did not take part lacks the average as well.
    const auto others = std::stable_partition(candidates.begin(), candidates.end(), is_member);
    std::vector<PeerId> co_downloaders(others, candidates.end());
    for (const consensus::PlanMember& member : plan.members)
        if (std::find(candidates.begin(), candidates.end(), member.peer) == candidates.end())
            candidates.push_back(member.peer);
    // A group whose rounds may take minutes has lines on which a part may. And who gives up loads
    // the state again.
    const Duration timeout = std::max<Duration>(
        {fetch_timeout_min, std::chrono::milliseconds(plan.round_ms), state_took_});
    allreduce::PartSources sources{
        allreduce::peers_of(plan.members), std::move(candidates), std::move(co_downloaders)};
    // Nobody needs it any more where another state is adopted meanwhile.
    const auto fetched = std::make_shared<Result<void>>(
        make_error(ErrorKind::conflict, "the state was replaced while an average was fetched"));
    Task<void> fetching = fetch_average_into(fetched, decision, std::move(sources), timeout);
    Task<void> replaced = until_replaced(before);
    co_await runtime::first_of(std::move(fetching), std::move(replaced));
    DEDLOC_CO_TRY_VOID(std::move(*fetched));
    DEDLOC_CO_TRY(StepComputer::Stepped stepped, co_await computer_.step(decision, before));
    // Another state may have been adopted meanwhile.
    if (store_.newest() != before)
        co_return make_error(ErrorKind::conflict,
                             "the state was replaced while a step was applied");
    store_.put(std::move(stepped.state));
    if (stepped.facts.kept_back)
        context_.teller.tell(
            events::StepNotFinite{},
            {},
            fmt::format("step {} would have left the finite numbers; the state before it "
                        "stays. A lower learning rate may help",
                        decision.instance.step + 1));
    co_return stepped.facts.optimizer;
}

// ---- catching up --------------------------------------------------------------------------------

void ChainFollower::inspect(const PeerId& peer) {
    if (peer != context_.me()) sync_candidates_.add(peer);
}

void ChainFollower::check_all() {
    for (const membership::KnownPeer* peer : membership_.live()) inspect(peer->status.peer);
}

// A peer that needs a state may have known nobody when its replay failed, or asked in vain; never
// in a tight loop.
Task<void> ChainFollower::find_state() {
    for (;;) {
        if (!need_.is_needed()) {
            co_await wake_.wait();
            continue;
        }
        co_await context_.node.clock.sleep_for(500ms);
        if (need_.is_needed() && sync_candidates_.idle()) check_all();
    }
}

bool ChainFollower::better(const Decision& theirs) const {
    return consensus::is_better(context_.ledger.base(), theirs);
}

Task<void> ChainFollower::catch_up_with(PeerId peer) {
    if (!context_.ledger.started() || !membership_.is_member(peer)) co_return;
    // First the cheap way: certificates that follow ours, to be replayed.
    if (!need_.is_needed()) {
        const Digest previous = context_.ledger.base().previous;
        const auto level = co_await catch_up_.follow_chain(peer);
        if (context_.ledger.base().previous == previous) brings_nothing(peer);
        if (!level || *level) co_return;  // nothing newer
    }
    if (adopting_) co_return;  // what is on its way comes first
    auto newest = co_await catch_up_.newest_certificate(peer, TimePoint::never());
    if (!newest || newest->empty()) co_return;
    const Result<Decision> theirs = decision_of(*newest);
    if (!theirs || !brings_us_further(*theirs) || others_may_know_what_follows(*theirs)) co_return;
    const double ours = context_.ledger.base().branch_samples;
    const bool other_branch = theirs->instance.branch != context_.ledger.base().instance.branch;
    const bool differs = need_.differs() || is_contradicted_by(*theirs);
    const Result<bool> adopted = co_await adopt(peer, *newest);
    if (!adopted || !*adopted) co_return;
    callbacks_.on_replaced(other_branch
                               ? fmt::format("the branch of peer {} has more committed samples "
                                             "({:.0f}) than ours ({:.0f})",
                                             peer.short_text(),
                                             theirs->branch_samples,
                                             ours)
                           : differs ? "ours was another than its"
                                     : "we were too far behind to replay");
}

// The other chain goes on where we stand, from another state: that no replay mends.
bool ChainFollower::is_contradicted_by(const Decision& theirs) const {
    const consensus::Base& base = context_.ledger.base();
    return theirs.previous == base.previous && base.state && theirs.state_before != *base.state;
}

void ChainFollower::brings_nothing(const PeerId& peer) {
    const Digest& previous = context_.ledger.base().previous;
    if (std::exchange(nothing_after_, previous) != previous) bring_nothing_.clear();
    bring_nothing_.insert(peer);
}

// A peer that joined a while ago knows no certificates from before that. As long as another one is
// ahead that we have not asked for what follows ours, no state is loaded: that takes longer than a
// replay, and what we have handed in would be lost.
bool ChainFollower::others_may_know_what_follows(const Decision& theirs) {
    const consensus::Base& base = context_.ledger.base();
    if (need_.is_needed() || theirs.instance.branch != base.instance.branch) return false;
    bool others = false;
    for (const membership::KnownPeer* peer : membership_.live()) {
        if (!is_ahead(peer->status, base) ||
            (nothing_after_ == base.previous && bring_nothing_.contains(peer->status.peer)))
            continue;
        others = true;
        inspect(peer->status.peer);
    }
    return others;
}

bool ChainFollower::brings_us_further(const Decision& theirs) const {
    const consensus::Base& base = context_.ledger.base();
    if (!need_.is_needed() && !better(theirs)) return false;
    if (need_.is_needed() && theirs.number + 1 < base.number &&
        theirs.instance.branch == base.instance.branch)
        return false;  // it is further behind than we are
    return !leads_nowhere(theirs);
}

// One at a time: the chunks of a download belong to one state, and joining and following may both
// want one.
Task<Result<bool>> ChainFollower::adopt(PeerId peer, Bytes certificate) {
    while (adopting_) {
        const TimePoint next = context_.now() + Duration(100ms);
        (void)co_await changed_.wait_until(context_.node.clock, next);
    }
    struct Flag {
        explicit Flag(bool& flag) : flag_(flag) { flag_ = true; }
        ~Flag() { flag_ = false; }
        bool& flag_;
    };
    const Flag flag(adopting_);
    Result<bool> adopted = co_await adopt_alone(std::move(peer), std::move(certificate));
    co_return adopted;
}

// Downloads the state that a certificate starts from, then continues from that certificate: a
// commit is replayed on top, so that the state we end in is one that was certified. False: another
// one has brought us as far meanwhile.
Task<Result<bool>> ChainFollower::adopt_alone(PeerId peer, Bytes certificate) {
    DEDLOC_CO_TRY(const Decision decision, context_.ledger.check_start(certificate));
    DEDLOC_CO_TRY(std::shared_ptr<const consensus::RoundPlan> plan, consensus::plan_of(decision));
    if (decision.run != context_.ledger.base().run && context_.ledger.started())
        co_return make_error(ErrorKind::conflict, "the certificate belongs to another run");
    // We may have waited for another one that brought us further.
    if (context_.ledger.started() && !need_.is_needed() && !better(decision)) co_return false;
    auto state = store_.find(decision.state_before);
    if (!state) {
        if (!partial_ || partial_->root() != decision.state_before)
            partial_ = std::make_shared<state::PartialState>(decision.state_before);
        store_.set_arriving(partial_);
        state::DownloadOptions options;
        options.co_downloaders = [this] { return co_downloaders_among(membership_.live()); };
        options.stall_max = load_timeout;
        options.bytes_max = state_bytes_most(run_, layout_);
        options.progress = [this](const state::DownloadProgress& progress) {
            joining_.extend(context_.now());
            if (progress.bytes_total > 0)
                callbacks_.on_progress(static_cast<double>(progress.bytes_have) /
                                       static_cast<double>(progress.bytes_total));
        };
        const TimePoint begun = context_.now();
        auto downloaded = co_await state::download(context_.host,
                                                   context_.node.workers,
                                                   *partial_,
                                                   fastest_providers(membership_.live(), peer),
                                                   options);
        if (!downloaded) {
            if (downloaded.error().kind() == ErrorKind::bad_input)
                joining_.state_is_unfit(downloaded.error());
            co_return std::move(downloaded).error();
        }
        state = *std::move(downloaded);
        state_took_ = std::min(context_.now() - begun, load_timeout);
        partial_.reset();  // it is empty now
        if (Ok fits = check_state(run_, layout_, *state->snapshot); !fits) {
            joining_.state_is_unfit(fits.error());
            co_return std::move(fits).error();
        }
    }
    // The world may have moved while we downloaded: only ever forward.
    if (context_.ledger.started() && !need_.is_needed() && !better(decision)) co_return false;
    queue_.clear();
    const Result<void> started = context_.ledger.start_from(certificate);
    if (!started) co_return started.error();
    const auto before = store_.newest();
    store_.put(state);
    partial_.reset();  // of another state, maybe
    need_.state_was_loaded();
    // The same state once more is no step forward.
    if (!before || before->root() != state->root()) need_.advanced();
    if (decision.kind == DecisionKind::commit) {
        queue_.push_back({decision, std::move(plan), certificate});
    } else {
        need_.advanced();
        context_.ledger.set_state(state->root());
    }
    wake_.pulse();
    changed_.pulse();
    co_return true;
}

// ---- a state that is lost -----------------------------------------------------------------------

// Certificates are no state. Aggregators, and who waits for a lost average, still tell of a branch
// on which nobody stands: it must not lead us away from one that goes on; nor to the average that
// has been waited for in vain.
bool ChainFollower::leads_nowhere(const Decision& theirs) const {
    if (theirs.kind != DecisionKind::commit) return false;
    if (is_lost()) return theirs.state_before == store_.newest()->root();
    const Digest& branch = theirs.instance.branch;
    if (need_.is_needed() || branch == context_.ledger.base().instance.branch) return false;
    return std::ranges::none_of(membership_.live(), [&](const membership::KnownPeer* peer) {
        return peer->status.has_state() && peer->status.branch == branch;
    });
}

// The peer stands on a state that would bring us further.
bool ChainFollower::could_help(const membership::Status& status) const {
    if (!status.has_state()) return false;
    return status.branch != context_.ledger.base().instance.branch ||
           status.step > store_.newest()->snapshot->step();
}

bool ChainFollower::is_lost() const {
    return need_.is_lost(averaging::quorum_timeout(context_, timeouts_));
}

void ChainFollower::wait_for_help() {
    const bool helped =
        !need_.is_stuck() || std::ranges::any_of(membership_.live(), [&](const auto* peer) {
            return could_help(peer->status);
        });
    need_.wait_for_help(context_.now(), helped);
}

// Voters may decide further steps than we have applied, and all die: what their disks keep begins
// later than we stand. Certificates that nobody can apply would hold up for ever who has the only
// state, and all who come to load it. Who still had the newer state, and comes back, has the better
// branch, and we follow it.
std::optional<Bytes> ChainFollower::part_from_lost(const consensus::Voter& self) {
    wait_for_help();
    if (!is_lost() || !need_.is_needed() || queue_.empty()) return std::nullopt;
    const auto newest = store_.newest();
    const Decision& lost = queue_.front().decision;
    if (!newest || newest->root() != lost.state_before) return std::nullopt;
    // A peer that the lost decision keeps out would open a branch on which nobody may vote.
    const robust::Orders orders(lost.orders);
    if (orders.barring(self.peer, lost.instance.step) != nullptr) return std::nullopt;
    // On a branch that went on from here once, steps may be certified already.
    if (!opened_alone_.insert(consensus::branch_id(lost.previous, {self})).second)
        return std::nullopt;
    Bytes branch = consensus::make_branch_before(lost, self, context_.signer);
    const Result<void> started = context_.ledger.start_from(branch);
    DEDLOC_CHECK(started.has_value());
    queue_.clear();
    need_.end();
    context_.ledger.set_state(newest->root());
    changed_.pulse();
    return branch;
}

// Candidates that could bring us up to date: peers that stand on a certificate, the richest branch
// first.
std::vector<PeerId> ChainFollower::join_candidates() const {
    std::vector<std::pair<double, PeerId>> ranked;
    for (const membership::KnownPeer* known : membership_.live())
        if (known->status.role == membership::Role::trainer && !known->status.branch.is_zero())
            ranked.emplace_back(-known->status.branch_samples, known->status.peer);
    std::sort(ranked.begin(), ranked.end());
    std::vector<PeerId> peers;
    for (auto& entry : ranked) peers.push_back(std::move(entry.second));
    return peers;
}

Task<Result<void>> ChainFollower::join_through(PeerId peer) {
    auto newest = co_await catch_up_.newest_certificate(peer, joining_.until());
    if (!newest) co_return std::move(newest).error();
    if (newest->empty())
        co_return make_error(ErrorKind::not_found, "peer {} is new itself", peer.short_text());
    joining_.peer_answers(context_.now());
    Bytes certificate = *std::move(newest);
    DEDLOC_CO_TRY_VOID(co_await adopt(peer, std::move(certificate)));
    inspect(peer);
    while (!up_to_date() && !need_.is_needed() && joining_.goes_on(context_.now()))
        (void)co_await changed_.wait_until(context_.node.clock, context_.now() + 100ms);
    if (!up_to_date() || need_.is_needed())
        co_return make_error(ErrorKind::timeout, "the last steps could not be replayed");
    co_return Result<void>();
}

void ChainFollower::give_up_joining(Error why) {
    joining_.give_up(std::move(why));
    changed_.pulse();
}

Task<Result<void>> ChainFollower::join(TimePoint deadline) {
    joining_.begin(deadline);
    Error last = make_error(ErrorKind::peer_gone, "no member of the run has its state yet");
    std::size_t passes = 0;  // in a row in which nobody had a state for this model
    while (joining_.goes_on(context_.now())) {
        const std::vector<PeerId> peers = join_candidates();
        std::size_t asked = 0;
        std::optional<Error> unfit;  // what the last one's state was
        std::size_t unfit_count = 0;
        for (const PeerId& peer : peers) {
            joining_.ask_next_peer();
            Result<void> joined = co_await join_through(peer);
            if (joined) co_return joined;
            last = std::move(joined).error();
            if (joining_.reached()) ++asked;
            if (auto why = joining_.take_unfit()) {
                ++unfit_count;
                unfit = std::move(why);
            }
            if (!joining_.goes_on(context_.now())) break;
        }
        // No other state will come: to load it again and again would never end.
        passes = unfit && unfit_count == asked ? passes + 1 : 0;
        if (passes >= unfit_passes_max)
            co_return Error(unfit->kind(),
                            fmt::format("the run's state cannot be used here: {}; or your model is "
                                        "built differently from the host's",
                                        unfit->message()));
        co_await context_.node.clock.sleep_for(100ms);
    }
    if (const auto& why = joining_.why_given_up()) co_return *why;
    last = last.with_context("could not load the run's state");
    // Members that had nothing to give say nothing about what is missing on this machine.
    if (last.kind() == ErrorKind::not_found) co_return Error(ErrorKind::peer_gone, last.message());
    co_return last;
}

}  // namespace dedloc::replica
