#include "dedloc/averaging/reduce_phase.h"

#include <algorithm>
#include <set>

#include "dedloc/allreduce/held_parts.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

std::set<std::uint32_t> owners_of(const allreduce::Exchange& exchange,
                                  const std::vector<std::uint32_t>& parts) {
    std::set<std::uint32_t> owners;
    for (const std::uint32_t part : parts) owners.merge(exchange.collected().way_of(part));
    return owners;
}

// Owners' streams that fail are seen at once; a silent owner at the reduce deadline plus this.
constexpr Duration return_grace = 50ms;
// A repair that has less than this share of a call's timeout left is not begun.
constexpr int repair_share_least = 4;
constexpr Duration silence_look = 50ms;  // whether owners who were slow still send averages

}  // namespace

Task<PhaseEnd> ReducePhase::begin(std::shared_ptr<Attempt> attempt) {
    if (attempt->exchange) co_await reduce(attempt->exchange);
    co_return PhaseEnd::go_on;
}

Task<void> ReducePhase::reduce(std::shared_ptr<allreduce::Exchange> exchange) {
    std::uint32_t repairs = 0;
    TimePoint silent_deadline = exchange->reduce_deadline() + return_grace;
    while (!exchange->complete() && environment_.now() < exchange->round_deadline()) {
        const bool late = environment_.now() >= silent_deadline;
        std::vector<std::uint32_t> parts =
            late ? exchange->collected().silent_parts() : exchange->collected().failed_parts();
        if (!parts.empty() && repairs < consensus::repairs_max) {
            ++repairs;
            co_await repair(exchange, parts, repairs);
            const Duration left = exchange->round_deadline() - environment_.now();
            silent_deadline =
                environment_.now() + std::max<Duration>(left / 2, 150ms) + return_grace;
            continue;
        }
        const TimePoint next_poll = late ? environment_.now() + silence_look : silent_deadline;
        const TimePoint next = std::min(next_poll, exchange->round_deadline());
        (void)co_await exchange->changed().wait_until(environment_.node.clock, next);
    }
    co_await include_more(exchange, repairs + 1);
}

// Parts that leave out a live member get one more try, for as long as a live owner needs.
Task<void> ReducePhase::include_more(std::shared_ptr<allreduce::Exchange> exchange,
                                     std::uint32_t number) {
    const std::vector<std::uint32_t> lacking = exchange->collected().lacking_parts();
    if (!exchange->complete() || lacking.empty() || number > consensus::repairs_max) co_return;
    const Duration left = exchange->round_deadline() - environment_.now();
    if (left < environment_.options.call_timeout / repair_share_least) co_return;
    send_repair(exchange, lacking, number);
    const TimePoint until = environment_.now() + left / 2 + return_grace;
    // A refused member will be refused again: parts that were reduced once more are not waited for.
    const auto may_come = [&](std::uint32_t part) {
        return !exchange->collected().repaired(part, number);
    };
    while (!exchange->collected().lacking_parts().empty() && environment_.now() < until &&
           std::any_of(lacking.begin(), lacking.end(), may_come))
        (void)co_await exchange->changed().wait_until(environment_.node.clock, until);
}

// Somebody may hold a part that we miss; only what nobody has is reduced again, by another owner.
Task<void> ReducePhase::repair(std::shared_ptr<allreduce::Exchange> exchange,
                               std::vector<std::uint32_t> parts,
                               std::uint32_t number) {
    const std::set<std::uint32_t> failed = owners_of(*exchange, parts);
    const consensus::RoundPlan& plan = exchange->plan();
    std::vector<PeerId> members;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        if (!failed.contains(i) && plan.members[i].peer != environment_.me())
            members.push_back(plan.members[i].peer);
    co_await allreduce::collect_held_parts(parts_.transfers, exchange, members, parts);
    std::erase_if(parts, [&](std::uint32_t part) { return exchange->finished().contains(part); });
    if (!parts.empty()) send_repair(exchange, parts, number);
}

void ReducePhase::send_repair(const std::shared_ptr<allreduce::Exchange>& exchange,
                              const std::vector<std::uint32_t>& parts,
                              std::uint32_t number) {
    const std::set<std::uint32_t> failed = owners_of(*exchange, parts);
    const consensus::RoundPlan& plan = exchange->plan();
    std::vector<std::uint32_t> owners;
    for (const std::uint32_t standby : plan.standby)
        if (!failed.contains(standby) &&
            (plan.members[standby].peer == environment_.me() ||
             environment_.host.is_connected(plan.members[standby].peer)))
            owners.push_back(standby);
    for (std::uint32_t i = 0; i < plan.members.size() && owners.empty(); ++i)
        if (plan.members[i].peer == environment_.me()) owners.push_back(i);
    allreduce::Repair message;
    message.plan = exchange->digest();
    message.number = number;
    for (const std::uint32_t part : parts) {
        message.owners.push_back(owners[message.parts.size() % owners.size()]);
        message.parts.push_back(part);
    }
    environment_.teller.tell(events::PartsRepaired{},
                             plan.members[*failed.begin()].peer,
                             fmt::format("{} parts are reduced again", message.parts.size()));
    allreduce::Signed envelope;
    envelope.payload = wire::encode(message);
    envelope.signature = environment_.signer.sign(allreduce::repair_domain, envelope.payload);
    const Bytes bytes = wire::encode(envelope);
    for (const consensus::PlanMember& member : plan.members)
        if (member.peer != environment_.me())
            parts_.scope.spawn("send repair",
                               send(parts_, member.peer, allreduce::repair_method, bytes));
    exchange->add_repair(message);
}

}  // namespace dedloc::averaging
