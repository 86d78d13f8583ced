// EventRate: how often events that others can cause are written down. Without a bound one member
// could turn a whole log over in minutes, and the traces of what it did with it.
//
// Each kind has a budget, and each peer a part of it: what one does leaves room for the others. Our
// own doings (steps, plans, checkpoints) have no bound: nobody else makes them more frequent.
//
// Thread: one. Limits: peers_told_of_max peers of each kind.

#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "dedloc/base/token_bucket.h"
#include "dedloc/events/events.h"

namespace dedloc::events {

// As many as a run has peers, which may all come or go at once.
inline constexpr std::size_t peers_told_of_max = 512;

class EventRate {
  public:
    // False: it is one too many, and counted.
    bool may_record(const Event& event, TimePoint now);
    // Events left out since this was asked last; nothing before its time has come.
    std::vector<EventsLeftOut> to_tell(TimePoint now);

  private:
    struct OfKind {
        TokenBucket all;
        std::map<PeerId, TokenBucket> peers;
        std::uint64_t left_out = 0;

        void forget_quiet(TimePoint now);
    };
    bool take(OfKind& kind, const PeerId& peer, TimePoint now);

    std::map<std::string_view, OfKind> kinds_;  // keys are the kinds' own names
    TimePoint told_at_;
};

}  // namespace dedloc::events
