#include "dedloc/peer/grid_lines.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dedloc/base/printable.h"

namespace dedloc::peer {

namespace {

constexpr std::size_t names_shown_max = 6;
constexpr std::size_t id_shown = 8;  // the last characters of a PeerId tell most

std::string name_of(const PeerId& peer, const std::map<PeerId, std::string>& names) {
    const auto found = names.find(peer);
    if (found != names.end() && !found->second.empty()) return base::printable(found->second);
    const std::string text = peer.text();
    return "…" + text.substr(text.size() - std::min(text.size(), id_shown));
}

}  // namespace

void GridLines::update(const experts::GridSeen& seen, double now) {
    seen_ = seen;
    for (const experts::ExpertSeen& expert : seen.experts) {
        if (!expert.answers) continue;
        const auto [at, is_new] = learnt_.try_emplace(expert.uid.text());
        if (!is_new && at->second.updates != expert.updates) at->second.at = now;
        at->second.updates = expert.updates;
    }
}

std::vector<std::string> GridLines::lines(double now,
                                          const std::map<PeerId, std::string>& peers) const {
    if (seen_.experts.empty()) return {};
    std::size_t silent = 0;
    std::map<PeerId, std::vector<std::string>> names;
    std::map<PeerId, double> learnt;
    for (const experts::ExpertSeen& expert : seen_.experts) {
        if (expert.server && !expert.answers) ++silent;
        if (!expert.answers) continue;
        names[*expert.server].push_back(expert.uid.text());
        double& last = learnt[*expert.server];
        last = std::max(last, learnt_.at(expert.uid.text()).at);
    }
    std::vector<std::string> lines;
    lines.push_back(fmt::format("experts: {} of {} served{}",
                                seen_.served(),
                                seen_.experts.size(),
                                silent ? fmt::format(", {} do not answer", silent) : ""));
    if (names.empty()) lines.back() += "; nothing is trained until somebody runs dedloc serve";
    for (const auto& [server, all] : names) {
        experts::ServerRecordPayload record;
        for (const experts::ServerSeen& known : seen_.servers)
            if (known.server == server) record = known.record;
        const std::vector<std::string> shown(
            all.begin(),
            all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), names_shown_max)));
        lines.push_back(fmt::format(
            "  {}  {:>3} experts  {:>6.1f} calls/s  wait {} ms  failed {}  {}  {}{}",
            name_of(server, peers),
            all.size(),
            record.calls_per_s,
            record.queue_ms,
            record.failed,
            learnt[server] > 0 ? fmt::format("learnt {:.0f} s ago", now - learnt[server])
                               : std::string("not seen to learn"),
            fmt::join(shown, " "),
            shown.size() < all.size() ? " …" : ""));
    }
    return lines;
}

nlohmann::ordered_json GridLines::json(double now) const {
    nlohmann::ordered_json servers = nlohmann::ordered_json::array();
    for (const experts::ServerSeen& known : seen_.servers)
        servers.push_back({{"peer", known.server.text()},
                           {"experts", known.record.hosted},
                           {"experts_max", known.record.experts_max},
                           {"calls_per_s", known.record.calls_per_s},
                           {"queue_ms", known.record.queue_ms},
                           {"failed", known.record.failed}});
    nlohmann::ordered_json experts = nlohmann::ordered_json::array();
    for (const experts::ExpertSeen& expert : seen_.experts) {
        nlohmann::ordered_json one{{"expert", expert.uid.text()}, {"answers", expert.answers}};
        if (expert.server) one["peer"] = expert.server->text();
        if (expert.answers) one["updates"] = expert.updates;
        const auto learnt = learnt_.find(expert.uid.text());
        if (learnt != learnt_.end() && learnt->second.at > 0)
            one["learnt_s_ago"] = now - learnt->second.at;
        experts.push_back(std::move(one));
    }
    return {{"served", seen_.served()},
            {"experts", std::move(experts)},
            {"servers", std::move(servers)}};
}

}  // namespace dedloc::peer
