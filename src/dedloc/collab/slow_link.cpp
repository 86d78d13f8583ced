#include "dedloc/collab/slow_link.h"

#include <algorithm>

namespace dedloc::collab {
namespace {

// Others that compute: with fewer, a peer that backs off is needed.
constexpr std::size_t others_least = 2;

}  // namespace

// A trainer that computes what does not enter the model computes for nothing.
void SlowLink::decided(BackOff::Fate fate, const PeerId& leader) {
    if (!options_.run.averaging.leave_out_slow) return;
    const bool was_on = back_off_.is_on();
    const bool begins = back_off_.step_made(fate, leader);
    if (was_on != back_off_.is_on()) backend_.set_left_out(back_off_.is_on());
    if (begins) tell();
}

void SlowLink::tell() {
    const double up = backend_.upload_bytes_per_s();
    const double down = backend_.download_bytes_per_s();
    back_off_.set_link_at_begin(std::min(up, down));
    const auto megabit = [](double bytes_per_s) { return bytes_per_s * 8 / 1e6; };
    teller_.tell(
        events::LeftOut{.steps = back_off_.steps_left()},
        {},
        fmt::format("{} ({:.3g} Mb/s up, {:.3g} Mb/s down). We follow the run and try again in {} "
                    "steps; a faster line or a higher cap ends this at once",
                    back_off_.was_late()
                        ? "nothing of what we contribute reaches the others in time over our line"
                        : "rounds do without us: every step would take much longer than our "
                          "samples are worth with our line",
                    megabit(up),
                    megabit(down),
                    back_off_.steps_left()));
}

bool SlowLink::is_to_end() const {
    if (!back_off_.is_on()) return false;
    const std::vector<const membership::KnownPeer*> live = membership_.live();
    const auto training = std::ranges::count_if(
        live, [](const membership::KnownPeer* peer) { return peer->status.is_training(); });
    return static_cast<std::size_t>(training) < others_least ||
           back_off_.is_another_link(
               std::min(backend_.upload_bytes_per_s(), backend_.download_bytes_per_s()));
}

bool SlowLink::end() {
    if (!back_off_.is_on()) return false;
    back_off_.end();
    backend_.set_left_out(false);
    return true;
}

}  // namespace dedloc::collab
