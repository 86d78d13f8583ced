#include "dedloc/audit/sample_accounts.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace dedloc::audit {

using consensus::CounterRange;
using consensus::ElementRange;

void SampleAccounts::add_commit(const consensus::Decision& decision,
                                const consensus::RoundPlan& plan) {
    const bool first = !std::exchange(begun_, true);
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        const consensus::MemberInput& input = plan.members[i].input;
        if (input.is_empty()) continue;
        std::vector<ElementRange> included;
        for (std::size_t p = 0; p < plan.parts.size() && p < decision.parts.size(); ++p)
            if (decision.parts[p].includes(i)) included.push_back(plan.parts[p].range());
        std::vector<ElementRange> carried;
        for (const ElementRange& part : included)
            for (const ElementRange& range : consensus::intersect(input.carried_ranges, part))
                carried.push_back(range);
        auto& entries = entries_[plan.members[i].peer];
        const std::uint64_t step = decision.instance.step;
        if (input.carried.size() > 0)
            entries.push_back({input.carried, consensus::joined(carried), step, false, first});
        if (input.fresh.size() > 0)
            entries.push_back(
                {input.fresh, consensus::joined(std::move(included)), step, true, first});
        ++contributions_[plan.members[i].peer];
    }
}

std::vector<SampleAccounts::Piece> SampleAccounts::pieces(const std::vector<Entry>& entries) const {
    std::vector<std::uint64_t> ends;
    for (const Entry& entry : entries) {
        ends.push_back(entry.samples.begin);
        ends.push_back(entry.samples.end);
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) pieces.push_back({{ends[i], ends[i + 1]}});
    for (const Entry& entry : entries) {
        auto piece =
            std::lower_bound(pieces.begin(),
                             pieces.end(),
                             entry.samples.begin,
                             [](const Piece& p, std::uint64_t at) { return p.samples.begin < at; });
        for (; piece != pieces.end() && piece->samples.begin < entry.samples.end; ++piece)
            piece->entries.push_back(&entry);
    }
    const auto whole = static_cast<double>(std::max<std::uint64_t>(1, vector_count_));
    for (Piece& piece : pieces) {
        std::vector<ElementRange> all;
        std::uint64_t sum = 0;
        for (const Entry* entry : piece.entries) {
            piece.named = true;
            piece.from_before |= entry->first && !entry->fresh;
            sum += consensus::total_count(entry->ranges);
            all.insert(all.end(), entry->ranges.begin(), entry->ranges.end());
        }
        const std::uint64_t covered = consensus::total_count(consensus::joined(std::move(all)));
        piece.in = static_cast<double>(covered) / whole;
        piece.twice = static_cast<double>(sum - covered) / whole;
    }
    return pieces;
}

std::map<PeerId, PeerAccount> SampleAccounts::accounts() const {
    std::map<PeerId, PeerAccount> accounts;
    for (const auto& [peer, entries] : entries_) {
        PeerAccount& account = accounts[peer];
        account.contributions = contributions_.at(peer);
        // The newest counters that were named first: a later step may still carry what is missing.
        CounterRange last{};
        for (const Entry& entry : entries)
            if (entry.samples.end > last.end) last = entry.samples;
        account.last_counter = last.end;
        for (const Piece& piece : pieces(entries)) {
            const auto size = static_cast<double>(piece.samples.size());
            account.in += piece.in * size;
            account.twice += piece.twice * size;
            const double missing = (1 - piece.in) * size;
            if (!piece.named)
                account.skipped += size;
            else if (piece.samples.begin >= last.begin)
                account.unfinished += missing;
            else if (!piece.from_before)
                account.left_out += missing;
        }
    }
    return accounts;
}

std::vector<std::string> SampleAccounts::twice_in_words(std::size_t count_max) const {
    std::vector<std::string> words;
    for (const auto& [peer, entries] : entries_)
        for (const Piece& piece : pieces(entries)) {
            if (piece.twice <= 0) continue;
            if (words.size() >= count_max) return words;
            std::string steps;
            for (const Entry* entry : piece.entries)
                if (!entry->ranges.empty())
                    steps += fmt::format(" {}{}", entry->step, entry->fresh ? "" : " (carried)");
            words.push_back(fmt::format("samples [{}, {}) of {} are in more than once: steps{}",
                                        piece.samples.begin,
                                        piece.samples.end,
                                        peer.short_text(),
                                        steps));
        }
    return words;
}

double SampleAccounts::mass(const PeerId& peer,
                            CounterRange samples,
                            std::optional<ElementRange> within) const {
    const auto found = entries_.find(peer);
    if (found == entries_.end()) return 0;
    std::vector<Entry> near;  // others change nothing about these samples
    for (const Entry& entry : found->second)
        if (entry.samples.begin < samples.end && samples.begin < entry.samples.end)
            near.push_back(entry);
    if (within)
        for (Entry& entry : near) entry.ranges = consensus::intersect(entry.ranges, *within);
    double mass = 0;
    for (const Piece& piece : pieces(near)) {
        const std::uint64_t begin = std::max(piece.samples.begin, samples.begin);
        const std::uint64_t end = std::min(piece.samples.end, samples.end);
        if (end > begin) mass += piece.in * static_cast<double>(end - begin);
    }
    return mass;
}

}  // namespace dedloc::audit
