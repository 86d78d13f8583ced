// How far honest contributions to a step are from their mean, as everybody can tell from the rows
// that prove it (rows.h), without any contribution: of each member the median distance to the
// others, of these the median. Fewer than half of the members, whatever they bring, move it no
// further than the honest ones are apart; and it does not depend on where the average is.
//
// Source: two independent samples are √2 times as far from each other as from their mean.
// Cost: members² × owners. Thread: any; pure. The same bits on every CPU.

#pragma once
#include <span>
#include <vector>

#include "dedloc/robust/rows.h"

namespace dedloc::robust {

// One vector of rows a member, one row an owner. Fewer than two members have no distance: 0.
double typical_distance(std::span<const std::vector<Row>> members);

}  // namespace dedloc::robust
