#include "tests/sim/checkers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "dedloc/allreduce/gathered.h"
#include "dedloc/allreduce/part_codec.h"
#include "dedloc/codec/codec.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::lab {

using consensus::CounterRange;
using consensus::DecisionKind;
using consensus::ElementRange;
using consensus::MemberInput;
using consensus::RoundPlan;

// The sum that a member must have sent for one range, and the weight of each of its elements.
struct Checkers::Expected {
    explicit Expected(std::uint64_t count) : sum(count, 0.0f), weight(count, 0) {}
    std::vector<float> sum;
    std::vector<std::uint64_t> weight;
};

namespace {

constexpr double samples_rounding = 1e-6;

// A contribution to one part as it arrives.
std::vector<float> travelled(codec::CodecId codec, const std::vector<float>& values) {
    std::vector<float> arrived(values.size());
    const Ok decoded = codec::decode(codec, codec::encode(codec, values), arrived);
    DEDLOC_CHECK(decoded.has_value());
    return arrived;
}

template <typename Expected>
void add_member(Expected& expected,
                codec::CodecId codec,
                ElementRange part,
                const MemberInput& input,
                const HandedIn* fresh,
                const HandedIn* carried) {
    const auto count = static_cast<std::size_t>(part.count);
    std::vector<float> value(count, 0.0f);
    if (fresh != nullptr)
        for (std::size_t e = 0; e < count; ++e) value[e] = fresh->sum[part.offset + e];
    for (std::size_t e = 0; e < count; ++e) expected.weight[e] += input.fresh.size();
    if (carried != nullptr)
        for (const ElementRange& range : input.carried_ranges) {
            const std::uint64_t begin = std::max(range.offset, part.offset);
            const std::uint64_t end = std::min(range.end(), part.end());
            for (std::uint64_t k = begin; k < end; ++k) {
                value[k - part.offset] += carried->sum[k];
                expected.weight[k - part.offset] += input.carried.size();
            }
        }
    // Sums travel divided by a power of two that is at least the weight: exact, unless tiny.
    const std::uint64_t weight = input.fresh.size() + input.carried.size();
    int exponent = 0;
    while ((std::uint64_t{1} << exponent) < weight) ++exponent;
    const float scale = std::ldexp(1.0f, exponent);
    for (float& each : value) each /= scale;
    const std::vector<float> arrived = travelled(codec, value);
    for (std::size_t e = 0; e < count; ++e) expected.sum[e] += arrived[e] * scale;
}

// In a grid that went as planned: the member of the owner's column that sums this one's group.
std::size_t sender_of(const RoundPlan& plan, std::uint32_t owner, std::size_t member) {
    if (plan.group_of[member] == plan.group_of[owner]) return member;
    const auto place = static_cast<std::size_t>(std::ranges::find(plan.collectors, owner) -
                                                plan.collectors.begin());
    return plan.collectors.at(place / plan.groups * plan.groups + plan.group_of[member]);
}

// Members in a part, by the member that sent them to the owner: the order of the sum.
std::map<std::size_t, std::vector<std::size_t>> by_sender(const RoundPlan& plan,
                                                          const consensus::FinishedPart& part) {
    const bool grid = plan.groups > 0 && part.repair == 0;
    std::map<std::size_t, std::vector<std::size_t>> senders;
    for (std::size_t i = 0; i < plan.members.size(); ++i)
        if (part.includes(i)) senders[grid ? sender_of(plan, part.owner, i) : i].push_back(i);
    return senders;
}

}  // namespace

void Checkers::violation(std::string text) {
    if (violations_.size() < violations_max) violations_.push_back(std::move(text));
}

void Checkers::on_state(const std::string& who,
                        const Digest& branch,
                        std::uint64_t step,
                        const Digest& root,
                        TimePoint at) {
    const auto [seen, is_new] = states_.try_emplace({branch, step}, StateSeen{root, who, at});
    if (!is_new && seen->second.root != root)
        violation(
            fmt::format("replicas differ: at branch {} step {}, {} has state {} and {} has {}",
                        branch.short_hex(),
                        step,
                        seen->second.who,
                        seen->second.root.short_hex(),
                        who,
                        root.short_hex()));
}

void Checkers::on_applied(const Digest& branch, std::uint64_t step, double length) {
    double& longest = applied_[{branch, step}];
    longest = std::max(longest, length);
}

void Checkers::on_handed_in(const PeerId& peer, HandedIn handed_in) {
    if (handed_in.samples.size() == 0) return;
    auto& of_peer = handed_in_[peer];
    const std::uint64_t begin = handed_in.samples.begin;
    const std::pair key(handed_in.moved.offset, begin);
    DEDLOC_CHECK(of_peer.emplace(key, std::move(handed_in)).second,
                 "the simulated trainer used counter {} twice",
                 begin);
}

const HandedIn* Checkers::find(const PeerId& peer,
                               CounterRange samples,
                               std::uint64_t moved_from) const {
    const auto of_peer = handed_in_.find(peer);
    if (of_peer == handed_in_.end()) return nullptr;
    const auto found = of_peer->second.find({moved_from, samples.begin});
    if (found == of_peer->second.end() || found->second.samples != samples) return nullptr;
    return &found->second;
}

void Checkers::on_certificate(const std::string& who, ByteView certificate, TimePoint at) {
    const Link* link = book_.add(who, certificate);
    // Problems that the book finds at once.
    for (; problems_taken_ < book_.problems().size(); ++problems_taken_)
        violation(book_.problems()[problems_taken_]);
    if (link == nullptr) return;
    seen_at_.emplace(link->digest, at);
    if (link->plan) check_averages(*link);
}

void Checkers::check_averages(const Link& link) {
    const RoundPlan& plan = *link.plan;
    const std::uint64_t step = link.decision.instance.step;
    if (consensus::moved_range(plan) != consensus::fragment_of(vector_count_, fragments_, step))
        violation(describe(link.decision) + ": it moves another fragment than its step");
    for (std::size_t p = 0; p < plan.parts.size() && p < link.decision.parts.size(); ++p) {
        const ElementRange part = plan.parts[p].range();
        if (part.end() > vector_count_) {
            violation(describe(link.decision) + ": a part leaves the vector");
            return;
        }
        if (plan.codec_of(plan.parts[p]) != static_cast<std::uint32_t>(codec_)) {
            violation(describe(link.decision) + ": a part travels in another codec than the run's");
            return;
        }
        if (codec::is_sparse(codec_)) {
            if (plan.sum_codec != 0 ? !is_sum(link, p) : !is_gathered(link, p)) return;
            ++averages_checked_;
            continue;
        }
        if (clipped_) {
            if (!is_clipped(link, p)) return;
            ++averages_checked_;
            continue;
        }
        Expected expected(part.count);
        for (const auto& [sender, members] : by_sender(plan, link.decision.parts[p])) {
            Expected sent(part.count);
            for (const std::size_t i : members)
                if (!add_handed_in(link, plan.members[i], part, sent)) return;
            for (std::size_t e = 0; e < expected.sum.size(); ++e) {
                expected.sum[e] += sent.sum[e];
                expected.weight[e] += sent.weight[e];
            }
        }
        for (std::size_t e = 0; e < expected.sum.size(); ++e)
            expected.sum[e] = expected.weight[e] == 0
                                  ? 0.0f
                                  : expected.sum[e] / static_cast<float>(expected.weight[e]);
        const Bytes encoded = codec::encode(codec_, expected.sum);
        if (security::hash_list(encoded) != link.decision.parts[p].digest) {
            violation(
                fmt::format("{}: the average of part {} is not the weighted mean of what the "
                            "certificate says is in it",
                            describe(link.decision),
                            p));
            return;
        }
        ++averages_checked_;
        if (plan.groups > 0 && link.decision.parts[p].repair == 0) ++averages_of_grids_;
    }
}

const Checkers::Frozen* Checkers::find_frozen(const consensus::PlanMember& member) const {
    const auto of_peer = frozen_.find(member.peer);
    if (of_peer == frozen_.end()) return nullptr;
    for (const Frozen& frozen : of_peer->second)
        if (frozen.input == member.input) return &frozen;
    return nullptr;
}

// A peer sends of what it handed in and a share of what it had not sent.
std::vector<float> Checkers::pending_of(const PeerId& peer,
                                        const MemberInput& input,
                                        std::span<const float> unsent,
                                        float share) const {
    std::vector<float> pending(vector_count_, 0.0f);
    if (const HandedIn* fresh = find(peer, input.fresh, 0)) pending = fresh->sum;
    if (const HandedIn* carried = find(peer, input.carried, 0))
        for (const ElementRange& range : input.carried_ranges)
            for (std::uint64_t i = range.offset; i < range.end(); ++i)
                pending[i] += carried->sum[i];
    for (std::size_t i = 0; i < pending.size(); ++i) pending[i] += share * unsent[i];
    return pending;
}

// Returns what a peer has not sent after a step that has its contribution `last`, as member `i`.
std::vector<float> Checkers::unsent_after(const Link& link,
                                          std::size_t i,
                                          const Frozen& last) const {
    std::vector<float> unsent = last.before;
    const float held_back = 1 - last.share;
    for (std::size_t p = 0; p < link.decision.parts.size(); ++p) {
        const consensus::FinishedPart& part = link.decision.parts[p];
        const ElementRange range = link.plan->parts[p].range();
        const bool is_in = part.includes(i);
        std::optional<Sum> own;
        if (link.plan->sum_codec != 0 && part.owner == i) own = sum_of(link, p);
        for (std::uint64_t k = range.offset; k < range.end(); ++k) {
            if (own)
                unsent[k] = (is_in ? held_back : 1) * unsent[k] + own->left_out[k - range.offset];
            else if (is_in)
                unsent[k] = last.pending[k] - last.sent[k] + held_back * unsent[k];
        }
    }
    return unsent;
}

// A leader may have to add for the others in steps, from `from` on, to which it brings nothing: is
// that all between `unsent` and `next`?
bool Checkers::is_owner_alone_between(const PeerId& peer,
                                      std::vector<float> unsent,
                                      std::uint64_t from,
                                      const std::vector<float>& next) const {
    std::map<std::uint64_t, const Link*> links;
    for (const auto& [digest, link] : book_.links())
        if (link.plan && link.plan->sum_codec != 0 && link.decision.instance.step >= from)
            links.emplace(link.decision.instance.step, &link);
    for (const auto& [step, link] : links) {
        if (unsent == next) return true;
        for (std::size_t p = 0; p < link->decision.parts.size(); ++p) {
            const consensus::PlanMember& owner = link->plan->members[link->decision.parts[p].owner];
            if (owner.peer != peer || !owner.input.is_empty()) continue;
            const auto own = sum_of(*link, p);
            const ElementRange range = link->plan->parts[p].range();
            for (std::uint64_t k = range.offset; own && k < range.end(); ++k)
                unsent[k] += own->left_out[k - range.offset];
        }
    }
    return unsent == next;
}

// The step was decided once more, by another branch, without this contribution.
bool Checkers::is_decided_without(const PeerId& peer,
                                  const MemberInput& input,
                                  const std::set<std::uint64_t>& steps) const {
    return std::ranges::any_of(book_.links(), [&](const auto& one) {
        const Link& link = one.second;
        return link.plan && steps.contains(link.decision.instance.step) &&
               std::ranges::none_of(link.plan->members, [&](const consensus::PlanMember& member) {
                   return member.peer == peer && member.input == input;
               });
    });
}

// A step is decided between two contributions: what it took of the first is sent, the rest is not.
// A peer that follows another branch than the one that took it has sent nothing there.
void Checkers::check_unsent(const PeerId& peer, const Frozen& last, const Frozen& next) {
    if (last.process != next.process || last.forgotten != next.forgotten) return;
    std::set<std::uint64_t> taken_in;  // steps
    for (const auto& [digest, link] : book_.links()) {
        if (!link.plan) continue;
        for (std::size_t i = 0; i < link.plan->members.size(); ++i) {
            if (link.plan->members[i].peer != peer || link.plan->members[i].input != last.input)
                continue;
            const auto has = [i](const auto& part) { return part.includes(i); };
            if (std::ranges::any_of(link.decision.parts, has))
                taken_in.insert(link.decision.instance.step);
            if (is_owner_alone_between(peer,
                                       unsent_after(link, i, last),
                                       link.decision.instance.step + 1,
                                       next.before))
                return;
        }
    }
    if ((taken_in.empty() || is_decided_without(peer, last.input, taken_in)) &&
        is_owner_alone_between(peer, last.before, 0, next.before))
        return;
    violation(
        fmt::format("what {} has not sent before samples [{}, {}) is not what the "
                    "certificates left of [{}, {})",
                    peer.short_text(),
                    next.input.fresh.begin,
                    next.input.fresh.end,
                    last.input.fresh.begin,
                    last.input.fresh.end));
}

void Checkers::on_frozen(const PeerId& peer,
                         std::uint64_t process,
                         const collab::FrozenContribution& frozen) {
    const MemberInput& input = frozen.input.input;
    if (input.is_empty()) return;
    std::vector<float> pending = pending_of(peer, input, frozen.unsent, frozen.share);
    if (!(frozen.share > 0 && frozen.share <= 1))
        violation(
            fmt::format("{} brings {} of what it has not sent", peer.short_text(), frozen.share));
    if (pending != frozen.input.sum)
        violation(fmt::format("{} sends of something else than what it has", peer.short_text()));
    frozen_[peer].push_back({input,
                             travelled(codec_, pending),
                             {frozen.unsent.begin(), frozen.unsent.end()},
                             frozen.share,
                             std::move(pending),
                             process,
                             frozen.forgotten});
}

// A gathered average holds what came, one after the other.
bool Checkers::is_gathered(const Link& link, std::size_t p) {
    const RoundPlan& plan = *link.plan;
    const consensus::FinishedPart& header = link.decision.parts[p];
    const ElementRange range = plan.parts[p].range();
    std::vector<allreduce::PartInput> inputs;
    for (std::uint32_t i = 0; i < plan.members.size(); ++i) {
        if (!header.includes(i)) continue;
        const Frozen* frozen = find_frozen(plan.members[i]);
        if (frozen == nullptr) {
            violation(fmt::format("{}: it names what {} never handed in",
                                  describe(link.decision),
                                  plan.members[i].peer.short_text()));
            return false;
        }
        const auto pending = std::span(frozen->pending).subspan(range.offset, range.count);
        inputs.push_back({i, allreduce::encode_contribution(codec_, pending, frozen->input)});
    }
    const auto part = static_cast<std::uint32_t>(p);
    const SharedBytes gathered = allreduce::gather(plan, part, inputs, header.included);
    if (security::hash_list(*gathered) == header.digest) return true;
    violation(fmt::format(
        "{}: part {} is not what the certificate says is in it", describe(link.decision), p));
    return false;
}

// An owner adds what came in member order, and of its own all there is. Nothing: the certificate
// names what somebody never handed in.
std::optional<Checkers::Sum> Checkers::sum_of(const Link& link, std::size_t p) const {
    const RoundPlan& plan = *link.plan;
    const consensus::FinishedPart& header = link.decision.parts[p];
    const ElementRange range = plan.parts[p].range();
    std::vector<float> sum(range.count, 0.0f);
    std::vector<std::uint64_t> weight(range.count, 0);
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        if (!header.includes(i)) continue;
        const Frozen* frozen = find_frozen(plan.members[i]);
        if (frozen == nullptr) return std::nullopt;
        const std::vector<float>& brought = i == header.owner ? frozen->pending : frozen->sent;
        for (std::size_t e = 0; e < range.count; ++e) {
            sum[e] += brought[range.offset + e];
            weight[e] += frozen->input.fresh.size();
        }
        for (const ElementRange& carried :
             consensus::intersect(frozen->input.carried_ranges, range))
            for (std::uint64_t k = carried.offset; k < carried.end(); ++k)
                weight[k - range.offset] += frozen->input.carried.size();
    }
    std::vector<float> mean(range.count, 0.0f);
    for (std::size_t e = 0; e < range.count; ++e)
        if (weight[e] > 0) mean[e] = sum[e] / static_cast<float>(weight[e]);
    const auto codec = static_cast<codec::CodecId>(plan.sum_codec);
    Sum result{codec::encode(codec, mean), std::move(sum)};
    DEDLOC_CHECK(codec::decode(codec, result.encoded, mean), "our own bytes");
    for (std::size_t e = 0; e < range.count; ++e) {
        const float sent = mean[e] * static_cast<float>(weight[e]);
        result.left_out[e] = result.left_out[e] - sent;
    }
    return result;
}

bool Checkers::is_sum(const Link& link, std::size_t p) {
    const auto sum = sum_of(link, p);
    if (sum && security::hash_list(sum->encoded) == link.decision.parts[p].digest) {
        ++averages_of_sums_;
        return true;
    }
    violation(fmt::format("{}: part {} is not the sum of what the certificate says is in it",
                          describe(link.decision),
                          p));
    return false;
}

// In fp32 a contribution travels as it is.
bool Checkers::is_clipped(const Link& link, std::size_t p) {
    const RoundPlan& plan = *link.plan;
    const ElementRange range = plan.parts[p].range();
    std::vector<allreduce::PartInput> inputs;
    for (std::uint32_t member = 0; member < plan.members.size(); ++member) {
        if (!link.decision.parts[p].includes(member)) continue;
        Expected brought(range.count);
        if (!add_handed_in(link, plan.members[member], range, brought)) return false;
        Bytes encoded = codec::encode(codec_, brought.sum);
        inputs.push_back({member, SharedBytes(std::move(encoded))});
    }
    const auto part = static_cast<std::uint32_t>(p);
    if (clipped_->reduce(plan, part, inputs).digest == link.decision.parts[p].digest) return true;
    violation(
        fmt::format("{}: the average of part {} is not what clipping those gives that the "
                    "certificate says are in it",
                    describe(link.decision),
                    p));
    return false;
}

bool Checkers::add_handed_in(const Link& link,
                             const consensus::PlanMember& member,
                             ElementRange part,
                             Expected& expected) {
    const MemberInput& input = member.input;
    const std::uint64_t from = consensus::moved_range(*link.plan).offset;
    const HandedIn* fresh = input.fresh.size() > 0 ? find(member.peer, input.fresh, from) : nullptr;
    const HandedIn* carried =
        input.carried.size() > 0 ? find(member.peer, input.carried, from) : nullptr;
    if ((fresh == nullptr) == (input.fresh.size() == 0) &&
        (carried == nullptr) == (input.carried.size() == 0)) {
        add_member(expected, codec_, part, input, fresh, carried);
        return true;
    }
    violation(fmt::format("{}: it names samples that {} never handed in",
                          describe(link.decision),
                          member.peer.short_text()));
    return false;
}

const Link* Checkers::commit_before(const Link& link) const {
    const Digest* previous = &link.decision.previous;
    for (;;) {
        const auto found = book_.links().find(*previous);
        if (found == book_.links().end()) return nullptr;
        if (found->second.plan) return &found->second;
        previous = &found->second.decision.previous;
    }
}

// The newest commit before it that moved the same.
const Link* Checkers::moved_before(const Link& link) const {
    const Link* before = &link;
    for (std::uint64_t i = 0; i < fragments_ && before != nullptr; ++i)
        before = commit_before(*before);
    return before;
}

void Checkers::check_staleness(const Link& link) {
    const Link* before = commit_before(link);
    const Link* carried_from = moved_before(link);
    const std::uint64_t from = consensus::moved_range(*link.plan).offset;
    for (const consensus::PlanMember& member : link.plan->members) {
        const HandedIn* fresh = find(member.peer, member.input.fresh, from);
        if (fresh != nullptr && fresh->state != link.plan->state)
            violation(
                fmt::format("{}: the fresh samples [{}, {}) of {} were computed at another "
                            "state than the step starts from",
                            describe(link.decision),
                            fresh->samples.begin,
                            fresh->samples.end,
                            member.peer.short_text()));
        check_ahead(link, fresh, before);
        const HandedIn* carried = find(member.peer, member.input.carried, from);
        if (carried_from != nullptr) check_ahead(link, carried, commit_before(*carried_from));
        if (carried != nullptr && carried_from != nullptr &&
            carried->state != carried_from->decision.state_before)
            violation(fmt::format("{}: the carried samples [{}, {}) of {} are not one step stale",
                                  describe(link.decision),
                                  carried->samples.begin,
                                  carried->samples.end,
                                  member.peer.short_text()));
    }
}

// A gradient that was computed ahead belongs to the state that the step before started from.
void Checkers::check_ahead(const Link& link, const HandedIn* handed_in, const Link* before) {
    if (handed_in == nullptr || before == nullptr || handed_in->ahead.is_zero() ||
        handed_in->ahead == before->decision.state_before)
        return;
    violation(
        fmt::format("{}: of the samples [{}, {}) some were computed ahead, but not at the "
                    "state of the step before",
                    describe(link.decision),
                    handed_in->samples.begin,
                    handed_in->samples.end));
}

// A decision starts from the state in which the commit before it ended.
void Checkers::check_states_of_chain() {
    for (const auto& [digest, link] : book_.links()) {
        const Link* before = commit_before(link);
        if (before == nullptr) continue;
        const auto state =
            states_.find({before->decision.instance.branch, before->decision.instance.step + 1});
        if (state != states_.end() && state->second.root != link.decision.state_before)
            violation(fmt::format("{} starts from state {}, but {} ended in {}",
                                  describe(link.decision),
                                  link.decision.state_before.short_hex(),
                                  describe(before->decision),
                                  state->second.root.short_hex()));
    }
}

void Checkers::check_twice() {
    for (const Digest& tip : book_.tips()) {
        SampleAccounts accounts(vector_count_);
        for (const Link* link : book_.chain(tip))
            if (link->plan) accounts.add_commit(link->decision, *link->plan);
        for (std::string& words : accounts.twice_in_words(5)) violation(std::move(words));
    }
}

void Checkers::check_bounds() {
    constexpr double rounding = 1.001;
    for (const auto& [digest, link] : book_.links()) {
        if (!link.plan || link.plan->length_max <= 0) continue;
        const auto found =
            applied_.find({link.decision.instance.branch, link.decision.instance.step + 1});
        if (found == applied_.end() || found->second <= link.plan->length_max * rounding) continue;
        violation(
            fmt::format("{}: a gradient of length {:.3g} was applied, and the longest that "
                        "honest steps allow is {:.3g}",
                        describe(link.decision),
                        found->second,
                        link.plan->length_max));
    }
}

// Plans that did without what the peer brought, around that time.
bool Checkers::was_left_out(const PeerId& peer, TimePoint from, TimePoint to) const {
    return std::ranges::any_of(book_.links(), [&](const auto& entry) {
        const Link& link = entry.second;
        if (!link.plan || !link.plan->leaves_out(peer)) return false;
        const auto at = reached(link.decision.instance.branch, link.decision.instance.step + 1);
        return at && from <= *at && *at <= to;
    });
}

void Checkers::check_lost(const Undisturbed& undisturbed, TimePoint until) {
    std::vector<SampleAccounts> chains;
    for (const Digest& tip : book_.tips()) {
        chains.emplace_back(vector_count_);
        for (const Link* link : book_.chain(tip))
            if (link->plan) chains.back().add_commit(link->decision, *link->plan);
    }
    // A fragment takes what its step left out at its next turn.
    constexpr Duration before = 15s;
    const Duration after = 15s * static_cast<std::int64_t>(fragments_);
    for (const auto& [peer, of_peer] : handed_in_)
        for (const auto& [key, handed_in] : of_peer) {
            if (handed_in.at + (after - before) > until ||
                !undisturbed(peer, handed_in.at - before, handed_in.at + after))
                continue;
            const ElementRange moved =
                handed_in.moved.count > 0 ? handed_in.moved : ElementRange{0, vector_count_};
            double best = 0;
            for (const SampleAccounts& accounts : chains)
                best = std::max(best, accounts.mass(peer, handed_in.samples, moved));
            const double size = static_cast<double>(handed_in.samples.size()) *
                                static_cast<double>(moved.count) /
                                static_cast<double>(vector_count_);
            samples_judged_ += size;
            if (best > size - samples_rounding) continue;
            // Left out twice in a row and expired: the promise allows it when the rounds themselves
            // were disturbed (docs/decisions/0004), or the line is too slow for what it brings;
            // when nothing was wrong anywhere it may not be.
            if (!undisturbed(PeerId(), handed_in.at - before, handed_in.at + after) ||
                was_left_out(peer, handed_in.at, handed_in.at + after)) {
                samples_expired_ += size - best;
                continue;
            }
            samples_lost_ += size - best;
            violation(
                fmt::format("samples are lost: [{}, {}) of {}, handed in at {:.3f} s by a "
                            "peer that no fault touched; {:.2f} of {:.2f} are in",
                            handed_in.samples.begin,
                            handed_in.samples.end,
                            peer.short_text(),
                            to_seconds(handed_in.at.since_start),
                            best,
                            size));
        }
}

void Checkers::finish(const Undisturbed& undisturbed, TimePoint until) {
    for (const auto& [peer, all] : frozen_)
        for (std::size_t i = 1; i < all.size(); ++i) check_unsent(peer, all[i - 1], all[i]);
    book_.check_chains();
    for (; problems_taken_ < book_.problems().size(); ++problems_taken_)
        violation(book_.problems()[problems_taken_]);
    for (const auto& [digest, link] : book_.links())
        if (link.plan) check_staleness(link);
    check_states_of_chain();
    check_twice();
    check_bounds();
    check_lost(undisturbed, until);
}

std::vector<const Link*> Checkers::winner() const {
    const std::vector<Digest> tips = book_.tips();
    return tips.empty() ? std::vector<const Link*>{} : book_.chain(tips.front());
}

std::optional<TimePoint> Checkers::reached(const Digest& branch, std::uint64_t step) const {
    const auto found = states_.find({branch, step});
    if (found == states_.end()) return std::nullopt;
    return found->second.at;
}

std::optional<TimePoint> Checkers::first_seen(const Digest& decision) const {
    const auto found = seen_at_.find(decision);
    if (found == seen_at_.end()) return std::nullopt;
    return found->second;
}

}  // namespace dedloc::lab
