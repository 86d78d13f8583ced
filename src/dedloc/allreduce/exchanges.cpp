#include "dedloc/allreduce/exchanges.h"

#include <algorithm>

#include "dedloc/base/counted.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

// For a stream's header, and for the plan that it names; on a link that many share, where a packet
// may be lost several times over, half of a round. Without the stream all would wait for as long.
constexpr Duration header_timeout_min = 5s;
constexpr Duration late_reader_grace = 5s;  // members give up a second after the round's deadline
constexpr std::size_t overtaken_max = 16;   // remembered, so that nobody is blamed for them

}  // namespace

Exchanges::Exchanges(const TransferEnvironment& environment, std::size_t kept_max)
    : environment_(environment),
      kept_max_(kept_max),
      begun_(environment.node.executor),
      scope_(environment.node.executor) {}

Exchanges::~Exchanges() = default;

// A voter may make plans as it likes: they push nobody else's out. Who began again may have
// forgotten its plan, and has the same ballot.
Ok Exchanges::check_turn(const consensus::RoundPlan& plan, const Digest& digest) {
    const auto before = of_leader(plan);
    if (!before || before->plan().ballot <= plan.ballot) return {};
    overtake(digest);
    begun_.pulse();
    return make_error(ErrorKind::conflict, "a later plan of its leader is here");
}

std::shared_ptr<Exchange> Exchanges::begin(consensus::RoundPlan plan,
                                           Digest digest,
                                           std::shared_ptr<const RoundInput> input) {
    environment_.timeouts.round_begins(std::chrono::milliseconds(plan.round_ms));
    if (const auto before = of_leader(plan)) {
        overtake(before->digest());
        push_out(before->digest());
    }
    while (order_.size() >= kept_max_) push_out(least_needed());
    std::erase(overtaken_, digest);
    auto exchange =
        std::make_shared<Exchange>(environment_, state_, std::move(plan), digest, std::move(input));
    exchanges_[digest] = exchange;
    order_.push_back(digest);
    exchange->start();
    begun_.pulse();
    return exchange;
}

void Exchanges::push_out(Digest plan) {
    const auto old = exchanges_.find(plan);
    DEDLOC_CHECK(old != exchanges_.end());
    ending_.insert(old->second);
    scope_.spawn("end an exchange", end(old->second));
    exchanges_.erase(old);
    std::erase(order_, plan);
}

void Exchanges::overtake(const Digest& plan) {
    if (std::ranges::count(overtaken_, plan) > 0) return;
    overtaken_.push_back(plan);
    if (overtaken_.size() > overtaken_max) overtaken_.pop_front();
}

// The oldest of a step that is decided, or else of all.
Digest Exchanges::least_needed() const {
    const Digest open = environment_.open_step().previous;
    const auto decided = std::ranges::find_if(
        order_, [&](const Digest& plan) { return find(plan)->plan().previous != open; });
    return decided == order_.end() ? order_.front() : *decided;
}

Task<void> Exchanges::end(std::shared_ptr<Exchange> exchange) {
    co_await exchange->stop();
    ending_.erase(exchange);
}

std::shared_ptr<Exchange> Exchanges::find(const Digest& plan) const {
    const auto found = exchanges_.find(plan);
    return found == exchanges_.end() ? nullptr : found->second;
}

std::shared_ptr<Exchange> Exchanges::of_leader(const consensus::RoundPlan& plan) const {
    for (const Digest& digest : order_) {
        auto exchange = find(digest);
        if (exchange->plan().leader == plan.leader && exchange->plan().previous == plan.previous)
            return exchange;
    }
    return nullptr;
}

bool Exchanges::in_round() const {
    const auto exchange = newest();
    return exchange && exchange->plan().previous == environment_.open_step().previous &&
           environment_.now() < exchange->round_deadline();
}

std::shared_ptr<Exchange> Exchanges::newest() const {
    return order_.empty() ? nullptr : find(order_.back());
}

Result<Bytes> Exchanges::receive_repair(const PeerId& from, ByteView request) {
    const auto bad = [](const char* why) {
        return make_error(ErrorKind::peer_broke_protocol, "a repair is refused: {}", why);
    };
    const auto message = wire::decode<Signed>(request);
    if (!message) return bad("it cannot be read");
    const auto repair = wire::decode<Repair>(message->payload);
    if (!repair) return bad("it cannot be read");
    const auto exchange = find(repair->plan);
    if (!exchange) return make_error(ErrorKind::not_found, "no such plan here");
    if (exchange->plan().leader != from || repair->parts.size() != repair->owners.size() ||
        !environment_.verifier.verify(from, repair_domain, message->payload, message->signature))
        return bad("it is not signed by the plan's leader");
    if (repair->number == 0 || repair->number > consensus::repairs_max) return bad("its number");
    exchange->leader_spoke();
    exchange->add_repair(*repair);
    return Bytes{};
}

Task<void> Exchanges::serve(std::unique_ptr<p2p::MessageStream> owned) {
    std::shared_ptr<p2p::MessageStream> stream = std::move(owned);
    const base::Counted counted(serving_);
    const TimePoint deadline =
        environment_.now() +
        std::max<Duration>(header_timeout_min, environment_.timeouts.newest_round() / 2);
    Task<Result<std::optional<SharedBytes>>> reading = stream->read();
    auto first = co_await runtime::with_deadline(
        environment_.node.clock, deadline, "a parts stream's header", std::move(reading));
    if (!first || !first->has_value()) co_return;
    const auto header = wire::decode<PartsHeader>(**first);
    if (!header) {
        environment_.complain_of(stream->remote(), "a parts stream that cannot be read");
        co_return;
    }
    const TimePoint begun = environment_.now();
    // The member may have heard of the plan before we did.
    std::shared_ptr<Exchange> exchange = find(header->plan);
    const auto overtaken = [&] { return std::ranges::count(overtaken_, header->plan) > 0; };
    while (!exchange && !overtaken() && environment_.now() < deadline) {
        (void)co_await begun_.wait_until(environment_.node.clock, deadline);
        exchange = find(header->plan);
    }
    if (!exchange) {
        // Without any plan of this step we may have missed it.
        const auto mine = newest();
        if (!overtaken() && mine && mine->plan().instance.step + 1 >= environment_.open_step().step)
            environment_.complain_of(stream->remote(), "its parts are for another group than ours");
        Error error = make_error(ErrorKind::not_found, "no such plan here");
        (void)co_await stream->fail(std::move(error));
        co_return;
    }
    // A member that neither sends on nor reads would hold the exchange, with all its parts, for
    // ever.
    Task<void> serving = exchange->serve(stream, *header, begun);
    Task<void> timeout =
        environment_.node.clock.sleep_until(exchange->round_deadline() + late_reader_grace);
    co_await runtime::first_of(std::move(serving), std::move(timeout));
}

void Exchanges::forget_inputs() {
    for (auto& [digest, exchange] : exchanges_)
        if (exchange->plan().previous != environment_.open_step().previous)
            exchange->forget_input();
    state_.rests.keep_only(environment_.open_step().previous);
}

void Exchanges::peer_gone(const PeerId& peer) {
    for (auto& [digest, exchange] : exchanges_) exchange->peer_gone(peer);
}

Task<void> Exchanges::stop() {
    co_await scope_.stop();
    for (const std::shared_ptr<Exchange>& exchange : ending_) co_await exchange->stop();
    ending_.clear();
    for (auto& [digest, exchange] : exchanges_) co_await exchange->stop();
    exchanges_.clear();
    order_.clear();
}

}  // namespace dedloc::allreduce
