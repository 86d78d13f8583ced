#include "dedloc/averaging/aggregator.h"

#include "dedloc/allreduce/plan_check.h"
#include "dedloc/averaging/announcements.h"
#include "dedloc/averaging/leader_election.h"
#include "dedloc/consensus/acceptor.h"
#include "dedloc/consensus/catch_up.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// This plan's, and the one's before for who is slower; members hold the averages as well.
constexpr std::size_t aggregator_exchanges_max = 2;
constexpr Duration check_again = 50ms;
constexpr int redirections_max = 3;

}  // namespace

namespace {

links::BandwidthProbeOptions probe_options_of_aggregators(const RoundEnvironment& environment,
                                                          std::function<bool()> idle) {
    links::BandwidthProbeOptions options = probe_options(environment, std::move(idle));
    options.pauses = links::BandwidthProbeOptions::of_aggregators;
    return options;
}

}  // namespace

Aggregator::Aggregator(RoundEnvironment environment)
    : environment_(std::move(environment)),
      timeouts_(environment_.options.call_timeout, environment_.options.deadline_max),
      caps_{environment_.options.upload_max, environment_.options.download_max},
      complaints_(environment_.teller),
      full_round_(environment_.teller),
      transfers_(transfer_environment(environment_, scores_, timeouts_, complaints_)),
      exchanges_(transfers_, aggregator_exchanges_max),
      parts_service_(environment_, exchanges_, complaints_),
      probe_(environment_.node,
             environment_.host,
             probe_options_of_aggregators(environment_, [this] { return !busy(); })),
      sync_candidates_(environment_.node.executor,
                       environment_.node.clock,
                       {.ask = [this](const PeerId& peer) { return catch_up_with(peer); },
                        .timeout = [this] { return timeouts_.answer(); }}),
      catch_up_(environment_.node.clock, environment_.host, environment_.ledger),
      changed_(environment_.node.executor),
      handlers_(environment_.host),
      scope_(environment_.node.executor) {}

Aggregator::~Aggregator() = default;

void Aggregator::start() {
    parts_service_.start();
    handlers_.on_call(plan_method, [this](PeerId from, Bytes request) {
        return on_plan(from, std::move(request));
    });
    handlers_.on_call(consensus::certificate_method, [this](PeerId from, Bytes request) {
        return on_certificate(from, std::move(request));
    });
    scope_.spawn("announce", announce_loop());
    scope_.spawn("catch up", catch_up_first());
    sync_candidates_.start();
    scope_.spawn("probe the link", probe_.run());
}

Task<void> Aggregator::stop() {
    co_await parts_service_.stop();
    co_await handlers_.stop();
    co_await sync_candidates_.stop();
    co_await scope_.stop();
    co_await exchanges_.stop();
}

Task<void> Aggregator::leave(TimePoint deadline) {
    leaving_ = true;
    changed_.pulse();
    while (environment_.now() < deadline &&
           (busy() || exchanges_.serving() > 0 || (!said_so_ && environment_.ledger.started()))) {
        const TimePoint next = std::min(deadline, environment_.now() + check_again);
        (void)co_await changed_.wait_until(environment_.node.clock, next);
    }
}

bool Aggregator::busy() const { return exchanges_.in_round(); }

AggregatorWork Aggregator::work() const {
    AggregatorWork work = work_;
    work.memory_bytes = exchanges_.state().memory.now;
    work.memory_most = exchanges_.state().memory.most;
    work.memory_bound = environment_.options.reduce_bytes_max;
    return work;
}

// A probe has told, and rounds what came since; until then a guess that doubles has to do.
double Aggregator::measured(double probed, const links::GrowingRate& seen) const {
    return probe_.was_probed() ? std::max(probed, seen.least()) : seen.bytes_per_s();
}

double Aggregator::upload_bytes_per_s() const {
    return links::capped(measured(probe_.upload_bytes_per_s(), upload_), caps_.upload_max);
}

double Aggregator::download_bytes_per_s() const {
    return links::capped(measured(probe_.download_bytes_per_s(), download_), caps_.download_max);
}

void Aggregator::set_caps(double upload_max, double download_max) {
    if (caps_.set(upload_max, download_max)) probe_.ask_again();
}

// ---- what others ask ----------------------------------------------------------------------------

double Aggregator::vector_bytes(const consensus::RoundPlan& plan) const {
    return environment_.options.element_bytes() *
           static_cast<double>(consensus::vector_count(plan));
}

// How long the vector is, only the trainers know: the plan says it, within what parts_max allows.
Ok Aggregator::check(const consensus::RoundPlan& plan) const {
    RoundOptions options = environment_.options;
    options.vector_count = consensus::vector_count(plan);
    options.bounded_count = plan.bounded_count;
    DEDLOC_TRY_VOID(allreduce::check_plan(plan, options));
    const bool named =
        std::ranges::any_of(plan.members, [this](const consensus::PlanMember& member) {
            return member.peer == environment_.me() && member.aggregator;
        });
    if (!named) return make_error(ErrorKind::conflict, "the plan does not name us an aggregator");
    return {};
}

Task<Result<Bytes>> Aggregator::on_plan(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    Result<void> taken = receive_plan(from, request);
    if (!taken) {
        complaints_.add_if_broken(from, environment_.now(), taken.error());
        co_return std::move(taken).error();
    }
    co_return Bytes{};
}

Result<void> Aggregator::receive_plan(const PeerId& from, ByteView request) {
    if (!environment_.ledger.started())
        return make_error(ErrorKind::not_found, "this peer knows no certificate yet");
    DEDLOC_TRY(SignedPlan read, read_plan(environment_, from, request, /*needs_state=*/false));
    DEDLOC_TRY_VOID(check(read.plan));
    probe_.vector_takes(vector_bytes(read.plan));
    if (exchanges_.find(read.digest)) return {};
    DEDLOC_TRY_VOID(exchanges_.check_turn(read.plan, read.digest));
    (void)exchanges_.begin(std::move(read.plan), read.digest, nullptr);
    return {};
}

Task<Result<Bytes>> Aggregator::on_certificate(PeerId from, Bytes certificate) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    receive_certificate(from, certificate);
    co_return Bytes{};
}

void Aggregator::receive_certificate(const PeerId& from, const Bytes& certificate) {
    if (!environment_.ledger.started()) return;
    const auto accepted = environment_.ledger.accept(certificate);
    if (!accepted) complaints_.add_if_broken(from, environment_.now(), accepted.error());
    if (!accepted && (accepted.error().kind() == ErrorKind::not_found ||
                      accepted.error().kind() == ErrorKind::conflict))
        inspect(from);
}

// ---- the chain ----------------------------------------------------------------------------------

void Aggregator::decided(const consensus::Link& link) {
    (void)scores_.learn(link.decision, link.plan.get());
    suspects_.clear();
    sent_to_.reset();
    if (link.plan) count_work(link.decision, *link.plan);
    changed_.pulse();
}

void Aggregator::count_work(const consensus::Decision& decision, const consensus::RoundPlan& plan) {
    const auto exchange = exchanges_.find(consensus::decision_digest(decision.plan));
    if (!exchange) {
        // The aggregator's link is measured also before it is in a plan: leaders take an unmeasured
        // one for one like the others', which among many trainers is none that helps.
        probe_.vector_takes(vector_bytes(plan));
        return;
    }
    const links::LinkRates rates = exchange->end_measuring();
    upload_.observe(rates.upload, rates.upload_bytes);
    download_.observe(rates.download, rates.download_bytes);
    probe_.round_gave(rates);
    const auto parts = static_cast<std::uint64_t>(
        std::ranges::count_if(decision.parts, [&](const consensus::FinishedPart& part) {
            return part.owner < exchange->plan().members.size() &&
                   exchange->plan().members[part.owner].peer == environment_.me();
        }));
    work_.parts += parts;
    work_.rounds += parts > 0 ? 1 : 0;
}

// Every trainer knows some certificate.
Task<void> Aggregator::catch_up_first() {
    while (!environment_.ledger.started()) {
        for (const PeerId& peer : environment_.roster.live_trainers()) inspect(peer);
        const TimePoint next = environment_.now() + environment_.options.announce_interval;
        (void)co_await changed_.wait_until(environment_.node.clock, next);
    }
}

Task<void> Aggregator::catch_up_with(PeerId peer) {
    if (environment_.ledger.started()) {
        const auto level = co_await catch_up_.follow_chain(peer);
        if (!level || *level) co_return;
    }
    const auto newest = co_await catch_up_.newest_certificate(peer, TimePoint::never());
    if (!newest || newest->empty()) co_return;
    const auto decision = consensus::decision_of(*newest);
    if (!decision) co_return;
    const bool started = environment_.ledger.started();
    if (started && (decision->run != environment_.ledger.base().run ||
                    !consensus::is_better(environment_.ledger.base(), *decision)))
        co_return;
    if (!environment_.ledger.start_from(*newest)) co_return;
    suspects_.clear();
    sent_to_.reset();
    changed_.pulse();
}

// ---- offering -----------------------------------------------------------------------------------

void Aggregator::suspect(const PeerId& peer) {
    suspects_[peer] = environment_.now() + suspicion_of_leaders;
    sent_to_.reset();
}

std::optional<PeerId> Aggregator::pick_leader() {
    const consensus::Base& base = environment_.ledger.base();
    const auto usable = [this](const PeerId& peer) {
        const auto found = suspects_.find(peer);
        return peer != environment_.me() &&
               (found == suspects_.end() || found->second <= environment_.now());
    };
    if (sent_to_ && base.is_voter(*sent_to_) && usable(*sent_to_)) return sent_to_;
    for (const PeerId& candidate : consensus::leader_order(base.previous, base.voters))
        if (usable(candidate)) return candidate;
    return std::nullopt;
}

Task<void> Aggregator::announce_loop() {
    for (;;) {
        if (environment_.ledger.started()) co_await announce_once();
        // Well before it is old; and what became of a round is news at once.
        const TimePoint next =
            environment_.now() + environment_.options.announce_interval * announced_again_intervals;
        (void)co_await changed_.wait_until(environment_.node.clock, next);
    }
}

// A redirection is followed at once, but not in a circle. A step that was news is as well: with
// short steps, who waits until it looks again is always behind, and in no round.
Task<void> Aggregator::announce_once() {
    for (int redirections = 0; redirections < redirections_max;) {
        const auto leader = pick_leader();
        if (!leader) co_return;
        const std::optional<PeerId> before = sent_to_;
        const Digest previous = environment_.ledger.base().previous;
        co_await announce_to(*leader);
        if (environment_.ledger.base().previous != previous) continue;
        if (sent_to_ == before) co_return;
        ++redirections;
    }
}

Task<void> Aggregator::announce_to(PeerId leader) {
    const consensus::Base& base = environment_.ledger.base();
    Announce announce;
    announce.instance = base.instance;
    announce.previous = base.previous;
    announce.upload_bytes_per_s = upload_bytes_per_s();
    announce.download_bytes_per_s = download_bytes_per_s();
    announce.dialable = !environment_.host.addresses().empty();
    announce.leaving = leaving_;
    announce.unreachable =
        exchanges_.state().unreachable.list(environment_.host, environment_.now());
    announce.aggregator = true;
    const Digest previous = base.previous;
    Bytes request = wire::encode(announce);
    const TimePoint deadline = environment_.now() + timeouts_.answer();
    auto answer =
        co_await environment_.host.call(leader, announce_method, std::move(request), deadline);
    if (environment_.ledger.base().previous != previous) co_return;  // the answer is about the past
    if (!answer) {
        suspect(leader);
        co_return;
    }
    const auto reply = wire::decode<AnnounceReply>(*answer);
    if (!reply) {
        suspect(leader);
        co_return;
    }
    said_so_ = announce.leaving;
    if (reply->result == AnnounceResult::redirect) sent_to_ = reply->leader;
    if (reply->result == AnnounceResult::you_are_behind) {
        for (const Bytes& certificate : reply->certificates)
            receive_certificate(leader, certificate);
        if (reply->certificates.empty()) inspect(leader);
    }
    if (reply->result == AnnounceResult::i_am_behind) {
        // Most likely it is about to hear of the newest decision.
        Bytes newest = environment_.ledger.newest();
        const TimePoint until = environment_.now() + timeouts_.answer();
        (void)co_await environment_.host.call(
            leader, consensus::certificate_method, std::move(newest), until);
        inspect(leader);
    }
    if (reply->result == AnnounceResult::refused) suspect(leader);
    if (reply->result == AnnounceResult::full) {
        full_round_.is_told(leader, reply->reason);
        const TimePoint next = environment_.now() + full_round_pause;
        (void)co_await changed_.wait_until(environment_.node.clock, next);
    }
}

}  // namespace dedloc::averaging
