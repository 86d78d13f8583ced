// UnsentGradients: what a sparse codec leaves out of this peer's contributions is kept here and
// added to the next one, so that everything is sent in the end (error feedback).
//
//   pending = unsent + sum        of the contribution, deferred samples of the step before in it
//   sum     = decode(encode(pending)), which travels without further loss
//   unsent  = pending - sum       where the certificate took the contribution; else as before
//
// Numbers are sums over samples, as gradients are: what is left of a small batch weighs as little
// later.
// Conservation, of every element: what was sent and what is unsent add up to all that was computed
// and not expired, within one rounding a step.
//
// Source: Karimireddy et al. 2019 (EF-SGD); of pseudo-gradients SparseLoCo (arXiv:2603.08163).
// Cost:   two fp32 vectors as long as the parameters; a pass over them a contribution.
// Thread: one. Errors: a chunk that is not finite is handed on as it is, for its owner to refuse.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/consensus/member_input.h"

namespace dedloc::replica {

class UnsentGradients {
  public:
    explicit UnsentGradients(std::uint64_t count) : unsent_(count), left_(count) {}

    // Replaces the first elements of a contribution by what is sent of them and of the unsent.
    void compress(std::span<float> sum);
    // The step that the contribution was handed in for is decided: these ranges are in it.
    void settle(const std::vector<consensus::ElementRange>& taken);
    // Forgets everything: another state takes the place of ours.
    void forget();

    // Between compress() and settle(): what it was before.
    std::span<const float> unsent() const { return unsent_; }
    std::uint64_t forgotten() const { return forgotten_; }  // how often forget() was called
    // A process before this one left in order with so much unsent. Errors: another length: ignored.
    void take_up(std::span<const float> unsent);

  private:
    std::vector<float> unsent_;
    std::vector<float> left_;  // becomes unsent where the certificate takes what was handed in
    bool handed_in_ = false;
    std::uint64_t forgotten_ = 0;
};

}  // namespace dedloc::replica
