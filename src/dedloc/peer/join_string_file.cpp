#include "dedloc/peer/join_string_file.h"

#include <algorithm>

#include "dedloc/p2p/nat.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/peer_run.h"

namespace dedloc::peer {

Ok JoinStringFile::refresh() {
    const bool is_due = steady_seconds() - refreshed_ >= join_refresh_s;
    if (!is_due && !(place_.hosts && offer_.is_held())) return {};
    refreshed_ = steady_seconds();
    const bool first = text_.empty();
    text_ = node_.run_on_network_thread([this] { return service_.collaboration().join_string(); });
    const Ok written = write_private_file(place_.path, text_ + "\n");
    if (names_others()) (void)write_private_file(place_.way_back, text_ + "\n");
    if (place_.hosts)
        show();
    else if (first)
        screen_.say("joined; `" + called_as() + " invite` prints a join string for others");
    return first ? written : Ok();
}

bool JoinStringFile::names_others() const {
    const auto join = run::parse_join_string(text_);
    return join && std::ranges::any_of(join->addresses, [this](const std::string& address) {
               const auto parts = run::split_peer_address(address);
               return parts && parts->peer != node_.id();
           });
}

void JoinStringFile::show() {
    JoinOffer::Surroundings around{.announced = !options_.announce.empty(),
                                   .relays_given = !options_.relays.empty(),
                                   .own_data = place_.own_data,
                                   .has_experts = place_.has_experts,
                                   .directory = place_.directory};
    node_.run_on_network_thread([&] {
        const p2p::NatReport nat = p2p::nat_of(node_.host())->nat_report();
        around.is_asking = nat.router_is_asked || (around.relays_given && nat.relays.empty());
    });
    const std::vector<std::string> lines = offer_.observe(steady_seconds(), text_, around);
    // A script that wants nothing else wants this; one that reads JSON finds it in join.txt.
    if (options_.quiet && !options_.json && !lines.empty()) screen_.print(text_);
    for (const std::string& line : lines) screen_.say(line);
}

}  // namespace dedloc::peer
