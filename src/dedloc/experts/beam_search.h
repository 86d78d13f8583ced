// Beam search: the experts of a grid with the highest scores, without asking for all of them.
//
// An expert's score is the sum of its coordinates' scores, one list of scores an axis (the gate's
// linear heads). Along the first axis the best coordinates that lead anywhere are taken, then for
// each axis the best `beam` continuations. With `beam` ≥ k the result is exact for two axes when
// the beam holds every first coordinate of a winner; a beam as wide as the first axis is exact.
//
// All rows of a batch search at once: each axis costs one look-up of all prefixes that any row
// needs, and no prefix is asked twice.
//
// Source: Learning@home (arXiv 2002.04013) §3.2; hivemind's beam_search.py.
// Cost: d - 1 look-ups one after the other (the first axis: what leads nowhere is replaced by the
// next best, `beam` at a time). Thread: the network thread.

#pragma once
#include <vector>

#include "dedloc/experts/directory.h"

namespace dedloc::experts {

// One list an axis, as long as the axis.
using GridScores = std::vector<std::vector<float>>;

struct Chosen {
    Location location;
    double score = 0;
};

struct BeamOptions {
    std::size_t best = 4;   // experts wanted
    std::size_t width = 0;  // of the beam; 0: as `best`
};

// For each row its experts, best first; fewer where the grid has holes.
Task<std::vector<std::vector<Chosen>>> beam_search(Directory& directory,
                                                   ExpertGrid grid,
                                                   std::vector<GridScores> rows,
                                                   BeamOptions options,
                                                   TimePoint deadline);

double score_of(const ExpertUid& uid, const GridScores& scores);

}  // namespace dedloc::experts
