// For tests of what an engine consists of: a simulated peer with all that is around it. Of the
// tests only.
#pragma once
#include <string>
#include <vector>

#include "dedloc/averaging/context.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/sim/world.h"

namespace dedloc::averaging {

class TestPeer : public RoundDirectory {
  public:
    std::vector<PeerId> expected(const Base&) const override { return {}; }
    std::vector<PeerId> live_trainers() const override { return trainers; }
    std::size_t voters_heard_of(const Base&) const override { return 0; }
    bool allowed(const PeerId&) const override { return true; }
    double micro_batch_s() const override { return 0; }
    void round_wanted() override {}
    void voting_for(const Decision&) override {}
    void behind(const PeerId&) override {}
    void note(const RoundNote& note) override { notes.push_back(note.text); }

    std::vector<PeerId> trainers;
    std::vector<std::string> notes;

  protected:
    TestPeer(sim::SimNode& node, RoundOptions options)
        : parts_(64u << 20),
          ledger_(verifier_, 4),
          context_{node.runtime(),
                   node.host(),
                   node.signer(),
                   verifier_,
                   ledger_,
                   parts_,
                   *this,
                   options},
          handlers_(node.host()) {}

    security::ToyVerifier verifier_;
    PartStore parts_;
    Ledger ledger_;
    RoundContext context_;
    p2p::Handlers handlers_;
};

}  // namespace dedloc::averaging
