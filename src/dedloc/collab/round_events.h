// Turns what happens in rounds into events of the run.
//
// Thread: any. Pure.

#pragma once
#include "dedloc/averaging/roster.h"
#include "dedloc/events/events.h"

namespace dedloc::collab {

events::Any event_of(const averaging::RoundNote& note);

}  // namespace dedloc::collab
