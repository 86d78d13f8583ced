// [local]: local updates, only in runs that have the section.

#pragma once
#include "dedloc/run/sections/optimizer.h"

namespace dedloc::run {

template <typename Visitor, typename Local>
void visit_local(Visitor& visit, Local& local) {
    visit("local.batch", local.batch, Integers{1, samples_per_step_max});
    if (visit.all || local.fragments != 1)
        visit("local.fragments", local.fragments, Integers{1, fragments_max});
    visit_optimizer(visit, local.optimizer, "local.");
}

}  // namespace dedloc::run
