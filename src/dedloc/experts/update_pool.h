// UpdatePool: in runs that expect liars, one update of an expert is made of several members'
// gradients by CenteredClip: however far a minority of them goes, it moves the update by no more
// than the others' own distance from each other. No member weighs more than twice the middle one.
//
// Bounded: members_max members, one vector of the expert's parameters each.
// Source: Karimireddy, He, Jaggi 2021 (arXiv 2012.10333). Thread: one at a time.

#pragma once
#include <cstddef>
#include <map>
#include <vector>

#include "dedloc/base/peer_id.h"

namespace dedloc::experts {

class UpdatePool {
  public:
    static constexpr std::size_t members_max = 8;  // each costs a gradient's memory

    // The sum over `rows` rows; what one member sends twice is added up.
    void add(const PeerId& member, std::size_t rows, std::vector<float> gradient);
    std::size_t members() const { return sums_.size(); }
    // One gradient of all that is here, as a sum over their rows; the pool is empty then.
    std::vector<float> take();

  private:
    struct Sum {
        std::vector<float> gradient;
        double rows = 0;
    };
    std::map<PeerId, Sum> sums_;
};

}  // namespace dedloc::experts
