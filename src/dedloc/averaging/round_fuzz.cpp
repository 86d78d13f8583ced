// Members of a run say these about a round. The first byte chooses: a plan, or certificates of a
// chain. Everybody computes with what the checks let through, and does not look at it again: it has
// to be safe, and lead to an owner, to finite counts, to ranges inside the vector.

// First: see host_fuzz.cpp.
#include "dedloc/runtime/pch.h"
//
#include <cmath>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/allreduce/plan_check.h"
#include "dedloc/allreduce/routes.h"
#include "dedloc/base/check.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/consensus/peer_score.h"
#include "dedloc/security/constant_verifier_testing.h"
#include "dedloc/wire/message.h"

using namespace dedloc;

namespace {

constexpr std::uint32_t parts_looked_at = 16;  // a plan has thousands, and all are alike
constexpr std::size_t chain_max = 8;

std::uint32_t looked_at(const consensus::RoundPlan& plan) {
    return std::min(parts_looked_at, static_cast<std::uint32_t>(plan.parts.size()));
}

void follow_the_routes(const consensus::RoundPlan& plan) {
    const allreduce::Routes routes(plan);
    const auto members = static_cast<std::uint32_t>(plan.members.size());
    for (std::uint32_t part = 0; part < looked_at(plan); ++part) {
        const std::uint32_t owner = plan.parts[part].owner;
        for (std::uint32_t member = 0; member < members; ++member) {
            const std::uint32_t next = routes.next(member, part);
            DEDLOC_CHECK(next < members && routes.next(next, part) == owner);
            DEDLOC_CHECK(next == owner || routes.collects(next, part));
        }
        for (const std::uint32_t source : routes.sources(owner, part))
            DEDLOC_CHECK(source < members && routes.next(source, part) == owner);
    }
    DEDLOC_CHECK(routes.may_include(0, consensus::no_members(plan)));
}

void weigh(const consensus::RoundPlan& plan, std::uint64_t count) {
    std::vector<const consensus::MemberInput*> all;
    for (const consensus::PlanMember& member : plan.members) all.push_back(&member.input);
    for (std::uint32_t part = 0; part < looked_at(plan); ++part) {
        std::uint64_t covered = 0;
        for (const allreduce::WeightSegment& segment :
             allreduce::total_weights(all, plan.parts[part].range()))
            covered += segment.count;
        DEDLOC_CHECK(covered == plan.parts[part].count);
        for (const consensus::MemberInput* input : all) {
            const double samples =
                consensus::included_samples(*input, plan.parts[part].range(), count);
            DEDLOC_CHECK(std::isfinite(samples) && samples >= 0);
            DEDLOC_CHECK(allreduce::scale_exponent(*input) < 63);
        }
    }
}

void inspect_plan(ByteView bytes) {
    const auto plan = wire::decode<consensus::RoundPlan>(bytes);
    if (!plan) return;
    allreduce::TransferOptions options;
    options.vector_count = consensus::vector_count(*plan);
    const bool sound = allreduce::check_plan(*plan, options).has_value();
    if (!sound) return;
    follow_the_routes(*plan);
    weigh(*plan, options.vector_count);
}

// As its author meant it, were it the next one of this chain: to find digests is not for a fuzzer.
Bytes made_to_follow(const consensus::Base& base, const Bytes& bytes) {
    auto certificate = wire::decode<consensus::Certificate>(bytes);
    if (!certificate) return bytes;
    auto decision = wire::decode<consensus::Decision>(certificate->decision);
    if (!decision) return bytes;
    decision->run = base.run;
    decision->previous = base.previous;
    decision->number = base.number + 1;
    decision->instance = base.instance;
    if (base.state) decision->state_before = *base.state;
    std::vector<consensus::Voter> voters = base.voters;
    if (decision->kind == consensus::DecisionKind::branch) {
        voters = decision->next_voters;
        decision->instance = {consensus::branch_id(base.previous, voters), base.instance.step, 0};
        decision->branch_samples = base.branch_samples;
    }
    certificate->decision = wire::encode(*decision);
    certificate->votes.clear();
    for (const consensus::Voter& voter : voters) certificate->votes.push_back({voter.peer, {}});
    return wire::encode(*certificate);
}

void account_for(const consensus::Ledger& ledger, const consensus::Decision& decision) {
    if (decision.kind != consensus::DecisionKind::commit) return;
    const auto plan = ledger.newest_link().plan;
    DEDLOC_CHECK(plan && plan->parts.size() == decision.parts.size());
    const std::uint64_t count = consensus::vector_count(*plan);
    const double samples = consensus::committed_samples(*plan, decision.parts, count);
    DEDLOC_CHECK(std::isfinite(samples) && samples >= 0);
    const std::vector<bool> included = consensus::included_members(decision, *plan);
    for (std::size_t i = 0; i < included.size(); ++i) {
        const consensus::PlanMember& member = plan->members[i];
        (void)consensus::has_reached_others(*plan, decision, i);
        (void)ledger.check_not_committed(member.peer, member.input);
        if (included[i]) DEDLOC_CHECK(ledger.contributions(member.peer) > 0);
    }
}

void check_chain(ByteView bytes, bool follows) {
    const auto reply = wire::decode<consensus::CertificatesReply>(bytes);
    if (!reply || reply->certificates.empty()) return;
    // The numbers of a chain are here to be looked at, not its signatures (certificate_fuzz.cpp).
    const security::ConstantVerifier verifier(true);
    consensus::Ledger ledger(verifier, 4);
    consensus::PeerScore score;
    const bool sound = ledger.check_start(reply->certificates.front()).has_value();
    DEDLOC_CHECK(ledger.start_from(reply->certificates.front()).has_value() == sound);
    if (!sound) return;
    (void)score.learn(ledger.newest_decision(), ledger.newest_link().plan.get());
    account_for(ledger, ledger.newest_decision());
    for (std::size_t i = 1; i < std::min(reply->certificates.size(), chain_max); ++i) {
        const Bytes& said = reply->certificates[i];
        const std::uint64_t number = ledger.base().number;
        const auto accepted = ledger.accept(follows ? made_to_follow(ledger.base(), said) : said);
        if (!accepted || !*accepted) continue;
        DEDLOC_CHECK(ledger.base().number == number + 1 && !ledger.base().voters.empty());
        (void)score.learn(ledger.newest_decision(), ledger.newest_link().plan.get());
        account_for(ledger, ledger.newest_decision());
        for (const consensus::Voter& voter : ledger.base().voters) (void)score.may_own(voter.peer);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ByteView said(data + 1, size - 1);
    if (data[0] % 4 == 0)
        inspect_plan(said);
    else
        check_chain(said, /*follows=*/data[0] % 4 != 1);
    return 0;
}
