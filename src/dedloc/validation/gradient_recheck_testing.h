// For tests of validators: a round of some members by hand, of which only the signatures and a
// number that each computes are real. Of the tests only.
#pragma once
#include <memory>
#include <vector>

#include "dedloc/allreduce/own_commitment.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/base/bits.h"
#include "dedloc/robust/draw.h"
#include "dedloc/runtime/work_in_place.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/validation/gradient_recheck.h"
#include "dedloc/wire/message.h"

namespace dedloc::validation {

// Rows about one owner: of a gradient that is `value` everywhere.
inline std::vector<robust::Row> rows_of_value(float value) {
    robust::Row row;
    row.contribution.fill(value);
    row.clipped.fill(value);
    return {row};
}

class RoundOfValues {
  public:
    // The signers' order is the members'. `weightless`: places of newcomers.
    RoundOfValues(std::vector<const security::Signer*> signers,
                  std::uint64_t step,
                  std::set<std::uint32_t> weightless = {})
        : signers_(std::move(signers)) {
        plan_.leader = signers_[0]->id();
        plan_.instance.step = step;
        for (std::uint32_t i = 0; i < signers_.size(); ++i) {
            consensus::PlanMember member;
            member.peer = signers_[i]->id();
            member.input.fresh = {step * 8, step * 8 + 8, 0};
            member.weightless = weightless.contains(i);
            member.checks = true;
            plan_.members.push_back(member);
        }
        plan_.parts.push_back({0, 16, 0, std::nullopt});
        plan_bytes = wire::encode(plan_);
        digest_ = consensus::decision_digest(plan_bytes);
        draw.plan = digest_;
        for (std::uint32_t i = 0; i < signers_.size(); ++i) reveal(i);
        reduce();
    }

    const consensus::RoundPlan& plan() const { return plan_; }
    averaging::SignedBy answer(std::uint32_t member, float value) const {
        const averaging::Answer says{averaging::digest_of(draw),
                                     robust::encode_rows(rows_of_value(value))};
        return signed_by(member, wire::encode(says), averaging::answer_domain);
    }
    averaging::SignedBy finding(std::uint32_t finder, std::uint32_t target, float value) const {
        const Finding says{
            averaging::digest_of(draw), target, robust::encode_rows(rows_of_value(value))};
        return signed_by(finder, wire::encode(says), finding_domain);
    }
    averaging::SignedBy testimony(std::uint32_t witness, std::uint32_t subject) const {
        averaging::Testimony says;
        says.plan = digest_;
        says.observation = averaging::Observation::unanswered;
        says.subject = subject;
        return signed_by(witness, wire::encode(says), averaging::testimony_domain);
    }
    // The author's values, and what others find.
    GradientRecheck about(std::uint32_t author,
                          float said,
                          const std::vector<std::pair<std::uint32_t, float>>& found) const {
        GradientRecheck made;
        made.plan = plan_bytes;
        made.proof.draw = draw;
        made.proof.answers = {answer(author, said)};
        for (const auto& [finder, value] : found)
            made.findings.push_back(finding(finder, author, value));
        return made;
    }

    Bytes plan_bytes;
    averaging::DrawMessage draw;

  private:
    averaging::SignedBy signed_by(std::uint32_t member,
                                  Bytes payload,
                                  std::string_view domain) const {
        averaging::SignedBy made;
        made.member = member;
        made.signature = signers_[member]->sign(domain, payload);
        made.payload = std::move(payload);
        return made;
    }
    void reveal(std::uint32_t member) {
        if (plan_.members[member].weightless) return;
        averaging::Reveal made;
        made.plan = digest_;
        made.member = member;
        made.nonce = allreduce::own_nonce(*signers_[member], digest_);
        made.commitment = allreduce::sign_commitment(
            *signers_[member],
            digest_,
            Digest{},
            robust::nonce_hash(&security::sha256, digest_, member, made.nonce));
        draw.reveals.push_back(made);
    }
    void reduce() {
        consensus::FinishedPart header;
        header.plan = digest_;
        header.included = consensus::no_members(plan_);
        for (std::uint32_t i = 0; i < signers_.size(); ++i) base::set_bit(header.included, i);
        header.signature = signers_[0]->sign(consensus::part_domain, header.signed_bytes());
        draw.parts.push_back(header);
    }

    std::vector<const security::Signer*> signers_;
    consensus::RoundPlan plan_;
    Digest digest_;
};

}  // namespace dedloc::validation
