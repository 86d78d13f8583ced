#include "dedloc/collab/run_log.h"

#include <utility>

#include "dedloc/membership/membership.h"

namespace dedloc::collab {

// The log has room for every peer that a run may know.
static_assert(events::peers_told_of_max >= membership::peers_max);

RunLog::RunLog(runtime::Clock& clock,
               PeerId us,
               std::string own_name,
               events::EventSink* sink,
               std::function<std::uint64_t()> open_step)
    : clock_(clock),
      us_(std::move(us)),
      own_name_(std::move(own_name)),
      sink_(sink),
      open_step_(std::move(open_step)) {
    names_.set_name(us_, own_name_);
}

// The log says whose it is.
template <typename Begin>
void RunLog::introduce(Begin& begin) const {
    if (!own_name_.empty()) begin.name = own_name_;
    begin.id = us_.text();
}

void RunLog::tell(events::Any what, PeerId peer, std::string text) {
    if (sink_ == nullptr) return;
    if (const auto* const seen = std::get_if<events::PersonSeen>(&what))
        names_.set_person(peer.is_empty() ? us_ : peer, seen->person);
    events::Event event;
    event.time = clock_.wall_now();
    event.peer = std::move(peer);
    event.step = open_step_();
    event.text = names_.in(text);
    event.what = std::move(what);
    if (auto* const joined = std::get_if<events::Joined>(&event.what)) introduce(*joined);
    if (auto* const started = std::get_if<events::RunStarted>(&event.what)) introduce(*started);
    if (rate_.may_record(event, clock_.now())) sink_->record(event);
}

void RunLog::tell_of_left_out() {
    for (events::EventsLeftOut& left_out : rate_.to_tell(clock_.now())) {
        std::string text =
            fmt::format("{} more events of the kind {} are left out: others cause too many",
                        left_out.count,
                        left_out.of);
        tell(std::move(left_out), {}, std::move(text));
    }
}

void RunLog::peer_joined(const membership::Status& peer, std::string person) {
    names_.set_name(peer.peer, peer.name);
    const std::string device = names_.of(peer.peer);
    if (!person.empty()) names_.set_person(peer.peer, person);
    events::PeerJoined joined;
    if (!peer.name.empty()) joined.name = peer.name;
    tell(std::move(joined), peer.peer, fmt::format("{} joined", names_.of(peer.peer)));
    if (person.empty()) return;
    std::string text = fmt::format("{} is a device of {}", device, person);
    tell(events::PersonSeen{.person = std::move(person)}, peer.peer, std::move(text));
}

void RunLog::peer_lost(const membership::Status& peer, bool in_order) {
    tell(in_order ? events::Any(events::PeerLeft{}) : events::PeerLost{},
         peer.peer,
         fmt::format("{} {}", names_.of(peer.peer), in_order ? "left" : "is gone without a word"));
}

}  // namespace dedloc::collab
