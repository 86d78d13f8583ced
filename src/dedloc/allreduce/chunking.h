// Where an owner's share is cut into parts.
//
// Parts are equal, so that none is a crumb. But nothing goes back before a first part has come from
// everybody, and when the last one has come its average is still to go back: where parts take long,
// the first four and the last four are a quarter, a quarter, a half and a half of a whole one, in
// place of three whole ones, so that there are five more.
//
// Where codecs are chosen by tensor, parts are cut once more where the codec changes, so that each
// has one. A crumb that this leaves beside a cut goes with its neighbour.
//
// Pure. Cost: as many steps as there are parts and ranges of codecs.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/allreduce/environment.h"
#include "dedloc/allreduce/messages.h"

namespace dedloc::allreduce {

inline constexpr std::uint64_t crumb_elements_max = 1024;  // of usual parts
inline constexpr std::uint64_t short_ends_pieces_min = 16;
inline constexpr double short_ends_piece_seconds_min = 0.1;

// The ends of an owner's parts, in quarters of a whole one, of which there would be `pieces`;
// `seconds`: that the round is predicted to take.
std::vector<std::uint64_t> cuts_for(std::uint64_t pieces, double seconds);

// Appends parts for the next `range` elements to the plan. Each of the owners gets one at each cut,
// in turn.
void cut_range(consensus::RoundPlan& plan,
               std::uint64_t range,
               const std::vector<std::uint64_t>& cuts,
               const std::vector<std::uint32_t>& owners);

// Where all parameters are in one codec that is gathered, moves the ends of parts to those of its
// blocks, so that a block is encoded as its author has encoded it. A part that this empties is
// dropped.
void align_to_chunks(consensus::RoundPlan& plan, const TransferOptions& options);

// Cuts the plan's parts at the borders of the options' codec ranges, and
// says each one's codec. Without such ranges nothing changes.
void cut_by_codec(consensus::RoundPlan& plan, const TransferOptions& options);

// Elements of the longest part in this codec that a plan may have: the run file's, and of what
// travels of it (encoded numbers, of gathered parts those of all `members`; in a grid also sums of
// fp32) not more than part_bytes_max.
std::uint64_t longest_part(const TransferOptions& options,
                           codec::CodecId codec,
                           std::size_t members,
                           bool in_grid);

}  // namespace dedloc::allreduce
