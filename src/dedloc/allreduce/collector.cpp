#include "dedloc/allreduce/collector.h"

#include <bit>

#include "dedloc/allreduce/plan_check.h"

namespace dedloc::allreduce {
namespace {

// This share of a round is kept for parts of owners that stop sending.
constexpr int reduce_again_share = 4;

int included_count(const consensus::FinishedPart& part) {
    int count = 0;
    for (const std::uint8_t byte : part.included) count += std::popcount(byte);
    return count;
}

}  // namespace

Collector::Collector(const Transfer& transfer, const Pacing& pacing, OnKept on_kept)
    : transfer_(transfer),
      pacing_(pacing),
      on_kept_(std::move(on_kept)),
      arrivals_{transfer.now()},
      changed_(transfer.environment.node.executor) {}

void Collector::is_heard_of(std::uint32_t owner) {
    const TimePoint now = transfer_.now();
    averages_.try_emplace(owner, Rhythm{now}).first->second.beat(now);
}

void Collector::fail(const std::vector<std::uint32_t>& parts, std::uint32_t repair) {
    for (const std::uint32_t part : parts)
        if (owners_[part].repair == repair && !finished_.contains(part))
            owners_[part].failed = true;
}

void Collector::keep(consensus::FinishedPart header, SharedBytes encoded) {
    const std::uint32_t part = header.part;
    ended_.insert({header.repair, part});
    arrivals_.beat(transfer_.now());
    if (on_kept_) on_kept_(header, encoded);
    transfer_.environment.parts.put(header, std::move(encoded));
    // The average that includes more is proposed, where a part has two.
    const auto known = finished_.find(part);
    if (known == finished_.end() || included_count(known->second) < included_count(header))
        finished_[part] = std::move(header);
    changed_.pulse();
}

std::set<std::uint32_t> Collector::way_of(std::uint32_t part) const {
    const Owner& newest = owners_.at(part);
    if (newest.repair > 0) return {newest.owner};
    return {newest.owner, transfer_.plan.parts[part].owner};
}

Task<bool> Collector::adopt(consensus::FinishedPart header, SharedBytes encoded) {
    if (!consensus::fits_plan(header, transfer_.plan, transfer_.digest) ||
        !transfer_.environment.verifier.verify(transfer_.plan.members[header.owner].peer,
                                               consensus::part_domain,
                                               header.signed_bytes(),
                                               header.signature))
        co_return false;
    const bool sound =
        co_await is_sound(transfer_.environment.node.workers, transfer_.plan, header, encoded);
    if (sound) keep(std::move(header), std::move(encoded));
    co_return sound;
}

bool Collector::has(const consensus::FinishedPart& part) const {
    const auto known = finished_.find(part.part);
    return part.plan == transfer_.digest && known != finished_.end() &&
           known->second.digest == part.digest;
}

TimePoint Collector::awaited_until(std::uint32_t part) const {
    const auto owner = owners_.find(part);
    if (!transfer_.me || finished_.contains(part) || owner == owners_.end() || owner->second.failed)
        return {};
    return arrivals_.awaited_until(transfer_.environment.timeouts.answer());
}

TimePoint Collector::missing_awaited_until() const {
    TimePoint earliest = TimePoint::never();
    for (std::uint32_t part = 0; part < transfer_.plan.parts.size(); ++part)
        if (!finished_.contains(part)) earliest = std::min(earliest, awaited_until(part));
    return earliest;
}

// A slow link's rest comes sooner than it could be reduced again, over links that are full; but
// reduce_again_share of the round is left for owners that stop after all.
std::vector<std::uint32_t> Collector::silent_parts() const {
    const auto round = std::chrono::milliseconds(transfer_.plan.round_ms);
    const TimePoint last_call =
        transfer_.started + round * (reduce_again_share - 1) / reduce_again_share;
    std::vector<std::uint32_t> silent;
    for (const auto& [part, owner] : owners_) {
        if (finished_.contains(part)) continue;
        const auto rhythm = averages_.find(owner.owner);
        const bool sends = !owner.failed && owner.repair == 0 && rhythm != averages_.end() &&
                           transfer_.now() < last_call &&
                           transfer_.now() <= rhythm->second.awaited_until(
                                                  transfer_.environment.timeouts.within_answer());
        if (!sends) silent.push_back(part);
    }
    return silent;
}

std::vector<std::uint32_t> Collector::lacking_parts() const {
    std::vector<bool> included_somewhere(transfer_.plan.members.size(), false);
    for (const auto& [part, header] : finished_)
        for (std::size_t i = 0; i < transfer_.plan.members.size(); ++i)
            if (header.includes(i)) included_somewhere[i] = true;
    std::vector<std::uint32_t> lacking;
    for (const auto& [part, header] : finished_)
        for (std::uint32_t i = 0; i < transfer_.plan.members.size(); ++i)
            if (included_somewhere[i] && !header.includes(i) && !pacing_.is_gone(i)) {
                lacking.push_back(part);
                break;
            }
    return lacking;
}

std::vector<std::uint32_t> Collector::failed_parts() const {
    std::vector<std::uint32_t> failed;
    for (const auto& [part, owner] : owners_)
        if (owner.failed && !finished_.contains(part)) failed.push_back(part);
    return failed;
}

}  // namespace dedloc::allreduce
