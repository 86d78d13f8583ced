// Gathered averages: of a part in a codec that holds a little of a vector (codec::is_sparse) the
// owner adds nothing, where contributors are few (sparse_sums.h). It passes on what came, and every
// peer adds the contributions by itself, in member order: a sum is less sparse, or of a higher
// rank, than what is in it, and encoded anew it would lose what nobody keeps.
//
//   average    bitmap of who is in it (as FinishedPart::included) ‖ their encoded contributions, in
//              member order
//   on a stream to a member that is in it: the same without that member's own contribution
//
// Bytes: with S encoded bytes of a vector, n members and equal owners each member sends S (n - 1),
// as in a direct exchange with everybody; the planner still gives fast lines the larger shares.
// Source: SparseLoCo (arXiv:2603.08163) exchanges contributions whole.
// Cost:   decoding is that of all members' contributions. Thread: any (meant for workers).

#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dedloc/allreduce/reducer.h"
#include "dedloc/base/result.h"

namespace dedloc::allreduce {

// Is this part of a checked plan gathered?
bool is_gathered(const consensus::RoundPlan& plan, std::uint32_t part);

// The bytes of an average that includes these inputs, which have been checked.
SharedBytes gather(const consensus::RoundPlan& plan,
                   std::uint32_t part,
                   const std::vector<PartInput>& inputs,
                   const Bytes& included);

// Has an average with this header so many bytes? In any codec.
bool is_average_size(const consensus::RoundPlan& plan,
                     const consensus::FinishedPart& header,
                     std::size_t bytes);

// Are these the bytes that the header names, and do they decode to finite numbers? In any codec.
bool is_sound_average(const consensus::RoundPlan& plan,
                      const consensus::FinishedPart& header,
                      ByteView encoded);

// The numbers of an average, in any codec; out.size() is the part's count.
// Errors: bad_input, peer_broke_protocol: not finite, or no such bytes.
Ok decode_average(const consensus::RoundPlan& plan,
                  std::uint32_t part,
                  ByteView encoded,
                  std::span<float> out);

// Where the contribution of a member lies in an average with this header; none where the average is
// not gathered, or the member is not in it.
struct OwnStretch {
    std::size_t offset = 0;
    std::size_t size = 0;
};
std::optional<OwnStretch> stretch_of(const consensus::RoundPlan& plan,
                                     const consensus::FinishedPart& header,
                                     std::uint32_t member);
SharedBytes without(const SharedBytes& encoded, const OwnStretch& stretch);
SharedBytes with(ByteView rest, const OwnStretch& stretch, ByteView own);

}  // namespace dedloc::allreduce
