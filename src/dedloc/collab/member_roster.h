// Rosters tell rounds who takes part, as far as the statuses of members say.
//
//   MemberRoster    what every peer that reduces needs to know of the others
//   TrainerRoster   what one that leads and votes needs beside it: whom a round waits for, which
//                   voters still live, what samples can be true
//
// Thread: the network thread. Cost: a pass over live members a question.

#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dedloc/averaging/coordinator.h"
#include "dedloc/averaging/roster.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/collab/order_news.h"
#include "dedloc/replica/chain_follower.h"

namespace dedloc::collab {

// True if what this peer says of its samples is about the step that is open after `base`.
bool works_on_step(const membership::Status& status, const consensus::Base& base);

class MemberRoster : public averaging::Roster {
  public:
    explicit MemberRoster(const membership::Membership& membership) : membership_(membership) {}

    std::vector<PeerId> expected(const consensus::Base&) const override { return {}; }
    std::vector<PeerId> live_trainers() const override;
    std::size_t voters_heard_of(const consensus::Base& base) const override;
    bool chain_goes_on(const consensus::Base& base) const override;
    bool allowed(const PeerId& peer) const override { return membership_.is_member(peer); }
    double micro_batch_s() const override { return 0; }
    double upload_bytes_per_s(const PeerId& peer) const override;
    Ok check_samples(const PeerId&, const consensus::MemberInput&) const override { return {}; }

  protected:
    // Live voters of `base` with their memory of votes that `counts`.
    std::size_t count_voters(const consensus::Base& base,
                             const std::function<bool(const membership::Status&)>& counts) const;

    const membership::Membership& membership_;
};

class TrainerRoster final : public MemberRoster {
  public:
    TrainerRoster(const BackendContext& context,
                  const consensus::Ledger& ledger,
                  const OrderNews& orders)
        : MemberRoster(context.membership), context_(context), ledger_(ledger), orders_(orders) {}

    // Both are made after the roster, which they ask.
    void is_engine(const averaging::Coordinator& engine) { engine_ = &engine; }
    void is_follower(const replica::ChainFollower& follower) { follower_ = &follower; }

    std::vector<PeerId> expected(const consensus::Base& base) const override;
    bool has_contributed(const PeerId& peer) const override;
    bool is_believed(const PeerId& peer) const override;
    std::vector<PeerId> newcomers() const override;
    std::size_t voters_heard_of(const consensus::Base& base) const override;
    std::size_t voters_of_our_branch(const consensus::Base& base) const override;
    bool loads_state() const override { return follower_->loads_state(); }
    bool allowed(const PeerId& peer) const override;
    bool is_put_out(const PeerId& peer) const override;
    std::string refusal(const PeerId& peer) const override;
    double micro_batch_s() const override;
    Ok check_samples(const PeerId& peer, const consensus::MemberInput& input) const override;

  private:
    bool arrives_at(const membership::KnownPeer& peer, const consensus::Base& base) const;
    std::size_t we_vote(const consensus::Base& base) const;

    const BackendContext& context_;
    const consensus::Ledger& ledger_;
    const OrderNews& orders_;
    const averaging::Coordinator* engine_ = nullptr;
    const replica::ChainFollower* follower_ = nullptr;
};

}  // namespace dedloc::collab
