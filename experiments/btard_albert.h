// `dedloc-lab btard --albert-mini`: the experiment with poisoned gradients on a small ALBERT that
// reads the King James Bible: sixteen peers train it without attackers up to a checkpoint; from
// there one run goes on without, and one in which seven flip the signs of their gradients.
//
//   loss_clean, loss_attacked   of held-out text, at the end of both
//   worst                       the highest loss on the way under attack
//   banned, honest_banned       as in btard.h; last_ban: steps after the attack began
//
// Holds when loss_attacked <= loss_clean + 0.05, all attackers are banned and nobody else.
// Needs libtorch and the Debian package bible-kjv. Errors: exit code 9 when it does not hold; 5
// without the data.

#pragma once
#include "experiments/btard.h"

namespace dedloc::lab {

int run_btard_albert(const BtardCommand& command);

}  // namespace dedloc::lab
