#include "dedloc/peer/join_offer.h"

#include <algorithm>

#include "dedloc/membership/peers_to_dial.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/run/join_string.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::peer {
namespace {

constexpr const char* only_here =
    "this string leads only into this machine's own network; for others: --listen 0.0.0.0:PORT "
    "--announce PUBLIC:PORT where a port is forwarded (cloud machines too), or --relay; "
    "docs/nat.md";
constexpr const char* nowhere =
    "this string names no address, so nobody can join with it: this peer does not listen, or this "
    "machine is in no network";

run::JoinString read(const std::string& join_string) {
    auto join = run::parse_join_string(join_string);
    return join ? *std::move(join) : run::JoinString();
}

// The host's own string lets nobody in there who has no token yet.
std::vector<std::string> by_invitation(const JoinOffer::Surroundings& around) {
    const std::string invite =
        fmt::format("  {} invite NAME --dir {}\n", as_others_call_it(), around.directory);
    return {
        "This run lets in by invitation. A string for each person, for `join` on one machine:\n",
        invite};
}

}  // namespace

std::string own_data(const run::TaskConfig& task) {
    const tasks::TaskKind* kind = tasks::find_task(task.kind);
    return kind && kind->own_data ? kind->own_data(task) : std::string();
}

std::vector<std::string> JoinOffer::observe(double now,
                                            const std::string& join_string,
                                            const Surroundings& around) {
    if (is_shown_ && !leads_nowhere_) return {};
    if (began_ < 0) began_ = now;
    const run::JoinString join = read(join_string);
    const std::vector<std::string>& addresses = join.addresses;
    const bool is_invited = !join.authority.is_empty();
    const bool leads_in = around.announced || std::ranges::any_of(addresses, membership::leads_out);
    const std::string command = fmt::format("  {} join {}{}\n",
                                            as_others_call_it(),
                                            join_string,
                                            around.own_data.empty() ? "" : " --data FOLDER");
    if (is_shown_) {
        if (!leads_in) return {};
        leads_nowhere_ = false;
        if (is_invited)
            return {"Strings of `invite` lead in from other networks, too, from now on.\n"};
        return {"Others join, from other networks too, with:\n", command};
    }
    if (!leads_in && around.is_asking && now - began_ < way_in_timeout_s) return {};
    is_shown_ = true;
    // A peer that listens for this machine alone means it so.
    const bool is_private = !around.relays_given && !addresses.empty() &&
                            std::ranges::all_of(addresses, membership::stays_on_machine);
    leads_nowhere_ = !leads_in && !is_private;
    std::vector<std::string> lines = is_invited
                                         ? by_invitation(around)
                                         : std::vector<std::string>{"Others join with:\n", command};
    if (!around.own_data.empty())
        lines.push_back(
            fmt::format("FOLDER is theirs, with a copy of this run's data ({}) at the "
                        "same path below it",
                        around.own_data));
    if (around.has_experts)
        lines.insert(lines.end(),
                     {"nothing is trained before somebody serves the experts:\n",
                      fmt::format("  {} serve {}\n",
                                  as_others_call_it(),
                                  is_invited ? "STRING, of an invitation" : join_string)});
    if (leads_nowhere_) lines.emplace_back(addresses.empty() ? nowhere : only_here);
    return lines;
}

}  // namespace dedloc::peer
