#include "dedloc/audit/chain_book.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "dedloc/consensus/ledger.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::audit {

using consensus::Certificate;
using consensus::Decision;
using consensus::DecisionKind;
using consensus::RoundPlan;
using consensus::Voter;

namespace {

const char* kind_name(DecisionKind kind) {
    switch (kind) {
        case DecisionKind::commit:
            return "commit";
        case DecisionKind::abort:
            return "abort";
        case DecisionKind::branch:
            return "branch";
        case DecisionKind::genesis:
            return "genesis";
    }
    return "unknown decision";
}

bool decides_instance(const Decision& decision) {
    return decision.kind == DecisionKind::commit || decision.kind == DecisionKind::abort;
}

}  // namespace

std::string describe(const Decision& decision) {
    return fmt::format("{} of step {} attempt {} on branch {} (number {})",
                       kind_name(decision.kind),
                       decision.instance.step,
                       decision.instance.attempt,
                       decision.instance.branch.short_hex(),
                       decision.number);
}

void ChainBook::problem(std::string text) {
    if (problems_.size() < problems_max) problems_.push_back(std::move(text));
}

const Link* ChainBook::add(const std::string& source, ByteView bytes) {
    auto certificate = wire::decode<Certificate>(bytes);
    if (!certificate) {
        problem(fmt::format("{}: a certificate cannot be read", source));
        return nullptr;
    }
    const Digest digest = consensus::decision_digest(certificate->decision);
    if (!seen_.insert({digest, security::sha256(bytes)}).second) return nullptr;
    auto decision = wire::decode<Decision>(certificate->decision);
    if (!decision) {
        problem(fmt::format("{}: a decision cannot be read", source));
        return nullptr;
    }
    certificate->decision.clear();
    certificates_[digest].push_back(*std::move(certificate));
    const auto [found, is_new] = links_.try_emplace(digest);
    if (!is_new) return nullptr;
    Link& link = found->second;
    link.digest = digest;
    link.first_seen_in = source;
    link.decision = *std::move(decision);
    if (link.decision.kind == DecisionKind::commit) {
        auto plan = wire::decode<RoundPlan>(link.decision.plan);
        if (plan)
            link.plan = *std::move(plan);
        else
            problem(describe(link.decision) + ": its plan cannot be read");
    }
    count(link);
    return &link;
}

void ChainBook::count(const Link& link) {
    const Decision& decision = link.decision;
    commits_ += decision.kind == DecisionKind::commit;
    aborts_ += decision.kind == DecisionKind::abort;
    branches_ += decision.kind == DecisionKind::branch;
    if (!decides_instance(decision)) return;
    const consensus::Instance& instance = decision.instance;
    const Question question{decision.previous, instance.branch, instance.step, instance.attempt};
    const auto [decided, first] = decided_.emplace(question, link.digest);
    if (!first) {
        ++disagreements_;
        problem(fmt::format("two decisions were certified: {} in {} and {} in {}",
                            describe(links_.at(decided->second).decision),
                            links_.at(decided->second).first_seen_in,
                            describe(decision),
                            link.first_seen_in));
    }
    const auto [state, first_state] =
        state_after_.emplace(decision.previous, decision.state_before);
    if (!first_state && state->second != decision.state_before) {
        ++disagreements_;
        problem(fmt::format("{} starts from state {}, another that follows the same one from {}",
                            describe(decision),
                            decision.state_before.short_hex(),
                            state->second.short_hex()));
    }
}

void ChainBook::check_chains() {
    for (const auto& [digest, link] : links_) {
        const auto previous = links_.find(link.decision.previous);
        const Link* before = previous == links_.end() ? nullptr : &previous->second;
        for (const Certificate& certificate : certificates_[digest])
            check_votes(link, certificate, before);
        if (before != nullptr) check_link(link, *before);
        if (link.plan) check_commit(link);
    }
}

void ChainBook::check_votes(const Link& link,
                            const Certificate& certificate,
                            const Link* previous) {
    const Decision& decision = link.decision;
    const Bytes message = consensus::vote_bytes(link.digest, certificate.ballot);
    std::set<PeerId> signers;
    for (const consensus::Vote& vote : certificate.votes) {
        if (!verifier_.verify(vote.voter, consensus::vote_domain, message, vote.signature))
            problem(describe(decision) + ": a signature does not hold");
        signers.insert(vote.voter);
    }
    const bool branch = decision.kind == DecisionKind::branch;
    if (decision.kind == DecisionKind::genesis) return;
    if (!branch && previous == nullptr) return;  // who may vote is not known
    const std::vector<Voter>& voters =
        branch ? decision.next_voters : previous->decision.next_voters;
    std::size_t valid = 0;
    for (const Voter& voter : voters) valid += signers.contains(voter.peer);
    if (valid != signers.size()) problem(describe(decision) + ": somebody signed who may not vote");
    const std::size_t needed = branch ? voters.size() : voters.size() / 2 + 1;
    if (valid < needed)
        problem(fmt::format("{}: {} of {} signatures", describe(decision), valid, needed));
}

void ChainBook::check_link(const Link& link, const Link& previous) {
    const Decision& after = link.decision;
    const Decision& before = previous.decision;
    consensus::Instance expected = before.instance;
    if (before.kind == DecisionKind::commit) {
        expected.step += 1;
        expected.attempt = 0;
    } else if (before.kind == DecisionKind::abort) {
        expected.attempt += 1;
    }
    if (after.kind == DecisionKind::branch) {
        expected.branch = consensus::branch_id(previous.digest, after.next_voters);
        expected.attempt = 0;
    }
    if (after.instance != expected || after.number != before.number + 1 || after.run != before.run)
        problem(fmt::format("{} does not follow {}", describe(after), describe(before)));
    if (before.kind != DecisionKind::commit && after.state_before != before.state_before)
        problem(describe(after) + ": the state changed without a commit");
    // A branch that begins before a lost step takes that step's samples away, which rounds.
    const double rounding = after.kind == DecisionKind::branch ? 1e-6 : 0;
    if (after.kind != DecisionKind::commit &&
        std::abs(after.branch_samples - before.branch_samples) > rounding)
        problem(describe(after) + ": samples were counted without a commit");
}

void ChainBook::check_commit(const Link& link) {
    const RoundPlan& plan = *link.plan;
    const Decision& decision = link.decision;
    const Digest digest = consensus::decision_digest(decision.plan);
    for (const consensus::PlanMember& member : plan.members) {
        if (!member.aggregator) continue;
        if (plan.leader == member.peer || !member.input.is_empty() ||
            std::ranges::any_of(decision.next_voters,
                                [&](const Voter& voter) { return voter.peer == member.peer; }))
            problem(fmt::format("{}: aggregator {} leads, contributes or may vote",
                                describe(decision),
                                member.peer.short_text()));
    }
    if (decision.parts.size() != plan.parts.size()) {
        problem(describe(decision) + ": its parts are not its plan's");
        return;
    }
    const bool is_whole = plan.whole_count == 0;
    std::uint64_t position = is_whole ? 0 : consensus::moved_range(plan).offset;
    if (!is_whole && consensus::moved_range(plan).end() > plan.whole_count)
        problem(describe(decision) + ": its parts leave the vector");
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        const consensus::FinishedPart& part = decision.parts[i];
        if (plan.parts[i].offset != position)
            problem(describe(decision) +
                    ": its parts do not cover the vector, or its fragment, once");
        position += plan.parts[i].count;
        if (part.plan != digest || part.part != i || part.owner >= plan.members.size() ||
            !verifier_.verify(plan.members[part.owner].peer,
                              consensus::part_domain,
                              part.signed_bytes(),
                              part.signature))
            problem(fmt::format("{}: part {} is not what its owner signed", describe(decision), i));
    }
}

std::vector<Digest> ChainBook::tips() const {
    std::set<Digest> followed;
    for (const auto& [digest, link] : links_) followed.insert(link.decision.previous);
    std::vector<Digest> tips;
    for (const auto& [digest, link] : links_)
        if (!followed.contains(digest)) tips.push_back(digest);
    std::stable_sort(tips.begin(), tips.end(), [&](const Digest& a, const Digest& b) {
        const Decision& left = links_.at(a).decision;
        const Decision& right = links_.at(b).decision;
        if (left.branch_samples != right.branch_samples)
            return left.branch_samples > right.branch_samples;
        if (left.instance.branch != right.instance.branch)
            return left.instance.branch < right.instance.branch;
        return left.number > right.number;
    });
    return tips;
}

std::vector<const Link*> ChainBook::chain(const Digest& tip) const {
    std::vector<const Link*> chain;
    for (auto link = links_.find(tip); link != links_.end();
         link = links_.find(link->second.decision.previous)) {
        if (chain.size() > links_.size()) break;  // a circle cannot be, hashes are
        chain.push_back(&link->second);
    }
    std::reverse(chain.begin(), chain.end());
    return chain;
}

}  // namespace dedloc::audit
