// FullRound: a leader has no room for this peer. It is told once, as leaders say so in every round.
//
// Thread: the network thread.

#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "dedloc/events/teller.h"

namespace dedloc::averaging {

class FullRound {
  public:
    explicit FullRound(events::Teller& teller) : teller_(teller) {}

    void is_told(const PeerId& leader, std::string why) {
        constexpr std::size_t letters_max = 400;  // they are the leader's
        if (std::exchange(told_, true)) return;
        why.resize(std::min(why.size(), letters_max));
        teller_.tell(events::RoundFull{}, leader, std::move(why));
    }

  private:
    events::Teller& teller_;
    bool told_ = false;
};

}  // namespace dedloc::averaging
