// Which blocks of a source are held out: the same wherever the corpus is opened.

#pragma once
#include <vector>

#include "dedloc/text/corpus.h"

namespace dedloc::text {

// Every 1/fraction-th block, and at least one of two or more.
void split_blocks(std::vector<Block>&& all,
                  double fraction,
                  std::vector<Block>& train,
                  std::vector<Block>& held_out);

}  // namespace dedloc::text
