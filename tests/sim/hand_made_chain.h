// Chains of certificates made by hand, for tests of the audit and of the checkers: each mistake a
// test puts in must be found.

#pragma once
#include <vector>

#include "dedloc/codec/codec.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

#include "tests/sim/checkers.h"

namespace dedloc::lab {

// Vectors of 8 elements in two parts of 4.
inline constexpr std::uint64_t hand_elements = 8;

struct HandMember {
    std::size_t who = 0;
    consensus::MemberInput input;
    bool in_first = true;
    bool in_second = true;
};

class HandMadeChain {
  public:
    explicit HandMadeChain(std::size_t peers = 3) {
        for (std::size_t i = 0; i < peers; ++i) {
            signers_.emplace_back(i + 1);
            voters_.push_back({signers_.back().id(), i + 1});
        }
        std::sort(
            voters_.begin(),
            voters_.end(),
            [](const consensus::Voter& a, const consensus::Voter& b) { return a.peer < b.peer; });
        run_.bytes[0] = 1;
        state_.bytes[0] = 100;
        const Bytes genesis = consensus::make_genesis(
            run_, state_, voters_.front(), signer(voters_.front().peer), 0, 0);
        // The voters of the first step are all of them, so that every test can use them.
        consensus::Decision decision = decision_of(genesis);
        decision.next_voters = voters_;
        add(decision, 1);
    }

    const PeerId& peer(std::size_t who) const { return signers_[who].id(); }
    const std::vector<Bytes>& certificates() const { return certificates_; }
    const Digest& state() const { return state_; }
    std::uint64_t step() const { return instance_.step; }
    const Digest& branch() const { return instance_.branch; }

    // The average is that of `sums` (by member), or of nothing.
    void commit(std::vector<HandMember> members,
                std::vector<std::vector<float>> sums = {},
                std::size_t votes = 99) {
        consensus::RoundPlan plan;
        plan.run = run_;
        plan.instance = instance_;
        plan.previous = previous_;
        plan.state = state_;
        plan.codec = static_cast<std::uint32_t>(codec::CodecId::fp32);
        for (const HandMember& member : members)
            plan.members.push_back({peer(member.who), member.who + 1, member.input});
        plan.parts = {{0, 4, 0}, {4, 4, 0}};
        consensus::Decision decision = next(consensus::DecisionKind::commit);
        decision.plan = wire::encode(plan);
        for (std::uint32_t p = 0; p < 2; ++p) {
            consensus::FinishedPart part;
            part.plan = consensus::decision_digest(decision.plan);
            part.part = p;
            part.included.assign(1, 0);
            std::vector<float> average(4, 0.0f);
            float weight = 0;
            for (std::size_t i = 0; i < members.size(); ++i) {
                if (!(p == 0 ? members[i].in_first : members[i].in_second)) continue;
                part.included[0] |= static_cast<std::uint8_t>(1u << i);
                weight += static_cast<float>(members[i].input.weight_max());
                for (std::size_t e = 0; i < sums.size() && e < 4; ++e)
                    average[e] += sums[i][p * 4 + e];
            }
            for (float& value : average) value = weight > 0 ? value / weight : 0;
            part.digest = security::hash_list(codec::encode(codec::CodecId::fp32, average));
            part.signature =
                signer(plan.members[0].peer).sign(consensus::part_domain, part.signed_bytes());
            decision.parts.push_back(part);
        }
        decision.branch_samples +=
            consensus::committed_samples(plan, decision.parts, hand_elements);
        add(decision, votes);
        state_.bytes[1] = static_cast<std::uint8_t>(instance_.step);
        state_.bytes[2] = branch().bytes[0];
        state_.bytes[3] = histories_;
    }
    void abort() { add(next(consensus::DecisionKind::abort), 99); }
    // A host begins a new history from the newest state, as from a checkpoint.
    void resume() {
        consensus::Decision genesis = next(consensus::DecisionKind::genesis);
        genesis.previous = run_;
        genesis.number = 0;
        add(genesis, 1);
        ++histories_;
    }

  private:
    consensus::Decision next(consensus::DecisionKind kind) const {
        consensus::Decision decision;
        decision.kind = kind;
        decision.run = run_;
        decision.instance = instance_;
        decision.previous = previous_;
        decision.state_before = state_;
        decision.next_voters = voters_;
        decision.branch_samples = samples_;
        decision.number = number_ + 1;
        return decision;
    }
    static consensus::Decision decision_of(ByteView certificate) {
        const auto decoded = wire::decode<consensus::Certificate>(certificate);
        return wire::decode<consensus::Decision>(decoded->decision).value();
    }
    const security::ToySigner& signer(const PeerId& id) const {
        for (const security::ToySigner& each : signers_)
            if (each.id() == id) return each;
        return signers_.front();
    }
    void add(const consensus::Decision& decision, std::size_t votes) {
        consensus::Certificate certificate;
        certificate.decision = wire::encode(decision);
        previous_ = consensus::decision_digest(certificate.decision);
        const Bytes message = consensus::vote_bytes(previous_, 0);
        for (const consensus::Voter& voter : voters_)
            if (certificate.votes.size() < votes)
                certificate.votes.push_back(
                    {voter.peer, signer(voter.peer).sign(consensus::vote_domain, message)});
        certificates_.push_back(wire::encode(certificate));
        instance_ = decision.instance;
        if (decision.kind == consensus::DecisionKind::commit) {
            ++instance_.step;
            instance_.attempt = 0;
        }
        if (decision.kind == consensus::DecisionKind::abort) ++instance_.attempt;
        number_ = decision.number;
        samples_ = decision.branch_samples;
    }

    std::vector<security::ToySigner> signers_;
    std::vector<consensus::Voter> voters_;
    Digest run_;
    Digest state_;
    Digest previous_;
    consensus::Instance instance_;
    std::uint64_t number_ = 0;
    double samples_ = 0;
    std::uint8_t histories_ = 1;
    std::vector<Bytes> certificates_;
};

inline consensus::MemberInput fresh(std::uint64_t begin, std::uint64_t end) {
    consensus::MemberInput input;
    input.fresh = {begin, end};
    return input;
}
inline consensus::MemberInput fresh_and_carried(std::uint64_t begin,
                                                std::uint64_t end,
                                                consensus::CounterRange carried,
                                                consensus::ElementRange range) {
    consensus::MemberInput input = fresh(begin, end);
    input.carried = carried;
    input.carried_ranges = {range};
    return input;
}

}  // namespace dedloc::lab
