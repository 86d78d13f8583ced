// UnsentGradients: what a sparse codec, or one of low rank, leaves out of this peer's contributions
// is kept here and added to the next one, so that everything is sent in the end (error feedback).
//
//   pending = share × unsent + sum   of the contribution, deferred samples of the step before in
//                                    it; it is handed in, and encoded as it leaves
//   sent    = decode(encode(pending))
//   unsent  = (1 - share) × unsent + pending - sent
//                                    where the certificate took the contribution; else as before
//
// As the owner of a sum of sparse contributions (allreduce/sparse_sums.h) this peer brought all of
// `pending` itself, and keeps what it left out of that sum, of everybody's:
//
//   unsent  = (1 - share) × unsent + left out of the sum
//
// A step divides by its samples. What was left of rounds of thousands, brought whole to a round of
// two hundred, would be a step of twenty (a loss of 0.56 became 900). So a contribution of less
// than half of this peer's usual samples brings as much less of it: `share` is its samples over
// half of the usual ones, at most 1.
//
// An encoding is a function of its block's numbers alone, so that whoever encodes `pending` again,
// divided by a power of two, sends what was taken off here.
// Numbers are sums over samples, as gradients are: what is left of a small batch weighs as little
// later.
// Conservation, of every element: what was sent and what is unsent add up to all that was computed
// and not expired, within one rounding a step.
//
// Source: Karimireddy et al. 2019 (EF-SGD); of pseudo-gradients SparseLoCo (arXiv:2603.08163).
// Cost:   two fp32 vectors as long as the parameters; encoding and decoding them once more.
// Thread: one. Errors: a chunk that is not finite is handed on as it is, for its owner to refuse.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/allreduce/sparse_sums.h"
#include "dedloc/codec/codec.h"
#include "dedloc/consensus/member_input.h"

namespace dedloc::replica {

class UnsentGradients {
  public:
    // A codec that codec::is_sparse.
    UnsentGradients(std::uint64_t count, codec::CodecId codec)
        : codec_(codec), unsent_(count), left_(count) {}

    // Adds what is unsent to the first elements of a contribution of so many samples, and keeps
    // what its encoding leaves out of them.
    void hand_in(std::span<float> sum, double samples);
    // The step that the contribution was handed in for is decided: these ranges are in it, and so
    // much this peer left out of sums as their owner, whether it had handed something in or not.
    void settle(const std::vector<consensus::ElementRange>& taken,
                const std::vector<allreduce::LeftOut>& left_out = {});
    // The process ends, and nobody here will know what the open step takes of what was handed in:
    // what was sent for it is in the step or lost, at most once. Of `owned` this peer brought all
    // that it had to sums of its own. Returns whether anything is lost that way, perhaps.
    bool end(const std::vector<consensus::ElementRange>& owned);
    // Forgets everything: another state takes the place of ours.
    void forget();

    bool has_any() const;
    // Between hand_in() and settle(): what it was before.
    std::span<const float> unsent() const { return unsent_; }
    float share() const { return share_; }                  // of it, in what was handed in
    std::uint64_t forgotten() const { return forgotten_; }  // how often forget() was called
    // A process before this one left in order with so much unsent, of contributions that usually
    // had so many samples. Errors: another length: ignored.
    void take_up(std::span<const float> unsent, double usual_samples);

  private:
    float share_of(double samples);
    void take_off(const std::vector<consensus::ElementRange>& taken);
    void keep_in_place(const allreduce::LeftOut& left_out);
    void keep_beside(const allreduce::LeftOut& left_out);

    codec::CodecId codec_;
    std::vector<float> unsent_;
    std::vector<float> left_;  // becomes unsent where the certificate takes what was handed in
    bool handed_in_ = false;
    float share_ = 1;           // of `unsent_`, in what was handed in
    double usual_samples_ = 0;  // of a contribution, smoothed
    std::uint64_t forgotten_ = 0;
};

}  // namespace dedloc::replica
