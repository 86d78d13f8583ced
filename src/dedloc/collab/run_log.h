// RunLog: where a collaboration's events come together: it adds the time, the open step and the
// names of peers, leaves out what others cause too often, and hands the rest to the user's sink.
//
// Thread: the network thread.

#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "dedloc/events/event_rate.h"
#include "dedloc/events/peer_names.h"
#include "dedloc/events/teller.h"
#include "dedloc/membership/status.h"
#include "dedloc/runtime/clock.h"

namespace dedloc::collab {

class RunLog final : public events::Teller {
  public:
    // `sink` may be null. `open_step` is asked at each event.
    RunLog(runtime::Clock& clock,
           PeerId us,
           std::string own_name,
           events::EventSink* sink,
           std::function<std::uint64_t()> open_step);

    void tell(events::Any what, PeerId peer, std::string text) override;
    // To be called now and then: what was left out is told as a number.
    void tell_of_left_out();

    // `person`: whose device it is; empty: not known.
    void peer_joined(const membership::Status& peer, std::string person);
    void peer_lost(const membership::Status& peer, bool in_order);

  private:
    template <typename Begin>
    void introduce(Begin& begin) const;

    runtime::Clock& clock_;
    const PeerId us_;
    const std::string own_name_;
    events::EventSink* sink_;
    std::function<std::uint64_t()> open_step_;
    events::EventRate rate_;
    events::PeerNames names_;
};

}  // namespace dedloc::collab
