#include "dedloc/averaging/own_link.h"

#include <algorithm>

namespace dedloc::averaging {

OwnLink::OwnLink(const RoundEnvironment& environment, std::function<bool()> idle)
    : environment_(environment),
      caps_{environment.options.upload_max, environment.options.download_max},
      probe_(environment.node, environment.host, probe_options(environment, std::move(idle))) {}

Task<void> OwnLink::serve(std::unique_ptr<p2p::MessageStream> stream) {
    return probe_.serve(std::move(stream));
}

void OwnLink::learn_from(const std::shared_ptr<allreduce::Exchange>& newest,
                         const OpenRound& open) {
    if (!newest || learnt_ == newest->digest()) return;
    learnt_ = newest->digest();
    const Duration predicted = std::chrono::milliseconds(newest->plan().predicted_ms);
    const bool in_time =
        open.in_round() && environment_.now() - open.round_begun() < predicted * 3 / 2;
    probe_.round_gave(newest->end_measuring(), in_time);
    in_doubt_ = in_doubt_ && !newest->contributes();
}

double OwnLink::upload_bytes_per_s() const {
    if (environment_.options.granted_is_true) return caps_.upload_max;
    return links::capped(probe_.upload_bytes_per_s(), caps_.upload_max);
}

// The bytes that came in are what others could send at least: a link takes as much as it gives,
// unless more was seen, or it was full and took less.
double OwnLink::download_bytes_per_s() const {
    if (environment_.options.granted_is_true) return caps_.download_max;
    const double measured = probe_.download_bytes_per_s();
    const double assumed = probe_.download_was_filled() ? 0 : probe_.upload_bytes_per_s();
    return links::capped(std::max(measured, assumed), caps_.download_max);
}

void OwnLink::set_caps(double upload_max, double download_max) {
    if (caps_.set(upload_max, download_max)) probe_.ask_again();
}

void OwnLink::set_left_out(bool left_out) {
    if (left_out) {
        probes_before_ = probe_.probes();
        probe_.ask_again();
    } else {
        in_doubt_ = probe_.probes() == probes_before_;
    }
}

}  // namespace dedloc::averaging
