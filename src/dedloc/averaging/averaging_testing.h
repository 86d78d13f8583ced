// For tests of what a round consists of: a simulated peer with all that is around it. Of the tests
// only.
#pragma once
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "dedloc/allreduce/fetch.h"
#include "dedloc/averaging/environment.h"
#include "dedloc/averaging/messages.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {

// A certificate of the decision, with the votes of all these.
inline Bytes certificate_by_all(const consensus::Decision& decision,
                                const std::vector<sim::SimNode*>& voters) {
    consensus::Certificate certificate;
    certificate.decision = wire::encode(decision);
    const Bytes vote = consensus::vote_bytes(consensus::decision_digest(certificate.decision), 0);
    for (const sim::SimNode* node : voters)
        certificate.votes.push_back(
            {node->id(), node->signer().sign(consensus::vote_domain, vote)});
    return wire::encode(certificate);
}

// Answers what it is asked for from its part store, and counts.
class AnsweringMember : public Roster, public RoundListener, public events::Teller {
  public:
    AnsweringMember(sim::SimNode& node, RoundOptions options)
        : parts_(64u << 20),
          ledger_(verifier_, 4),
          environment_{node.runtime(),
                       node.host(),
                       node.signer(),
                       verifier_,
                       ledger_,
                       parts_,
                       *this,
                       *this,
                       *this,
                       options},
          timeouts_(options.call_timeout, options.deadline_max),
          complaints_(*this),
          transfers_(transfer_environment(environment_, scores_, timeouts_, complaints_)),
          fetcher_(transfers_),
          handlers_(node.host()) {
        handlers_.on_call(allreduce::fetch_method,
                          [this](PeerId, Bytes request) { return answer(std::move(request)); });
    }
    Task<void> stop() { return handlers_.stop(); }

    std::vector<PeerId> expected(const consensus::Base&) const override { return {}; }
    std::vector<PeerId> live_trainers() const override { return {}; }
    std::size_t voters_heard_of(const consensus::Base&) const override { return 0; }
    bool allowed(const PeerId&) const override { return true; }
    double micro_batch_s() const override { return 0; }
    double upload_bytes_per_s(const PeerId&) const override { return 0; }
    Ok check_samples(const PeerId&, const consensus::MemberInput&) const override { return {}; }
    void round_wanted() override {}
    void voting_for(const consensus::Decision&) override {}
    void behind(const PeerId&) override {}
    void tell(events::Any, PeerId, std::string text) override { notes.push_back(std::move(text)); }

    const RoundEnvironment& environment() const { return environment_; }
    consensus::PeerScore& scores() { return scores_; }
    links::Timeouts& timeouts() { return timeouts_; }
    events::Complaints& complaints() { return complaints_; }
    allreduce::PartFetcher& fetcher() { return fetcher_; }

    std::vector<std::uint32_t> asked;
    std::vector<std::string> notes;

  private:
    Task<Result<Bytes>> answer(Bytes request) {
        const auto fetch = wire::decode<allreduce::Fetch>(request);
        EXPECT_TRUE(fetch);
        if (fetch) asked.push_back(fetch->part);
        co_return allreduce::answer_fetch(parts_, request);
    }

    security::ToyVerifier verifier_;
    allreduce::PartStore parts_;
    consensus::Ledger ledger_;
    RoundEnvironment environment_;
    consensus::PeerScore scores_;
    links::Timeouts timeouts_;
    events::Complaints complaints_;
    allreduce::TransferEnvironment transfers_;
    allreduce::PartFetcher fetcher_;
    p2p::Handlers handlers_;
};

inline std::uint32_t place_of(const consensus::RoundPlan& plan, const PeerId& peer) {
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        if (plan.members[i].peer == peer) return i;
    return 0;
}

}  // namespace dedloc::averaging
