#include "dedloc/planning/plan_classes.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dedloc::planning {
namespace {

using planner::LoadPlan;

void fill(PeerClass& one, const LoadPlan& plan, const std::vector<planner::Traffic>& traffic) {
    for (const std::size_t i : one.peers) {
        one.contributors += plan.peers[i].contributes ? 1 : 0;
        one.receivers += plan.peers[i].receives ? 1 : 0;
        one.part_elements += static_cast<double>(plan.split.part_elements[i]);
        if (plan.split.seconds <= 0) continue;
        const auto busy = [&](double elements, double rate) {
            return elements > 0 ? elements / rate / plan.split.seconds : 0;
        };
        one.busy_up =
            std::max(one.busy_up, busy(traffic[i].sent_elements, plan.peers[i].upload_per_s));
        one.busy_down = std::max(one.busy_down,
                                 busy(traffic[i].received_elements, plan.peers[i].download_per_s));
    }
}

std::string label_of(const PeerClass& one, const PlanFile& file) {
    const std::size_t first = one.peers.front();
    if (one.rest) return fmt::format("{} others", one.peers.size());
    if (one.peers.size() == 1) return file.question.peers[first].name;
    return fmt::format("{} ×{}", file.groups[first], one.peers.size());
}

// Classes with the smallest parts become one.
void merge_rest(std::vector<PeerClass>& classes, const LoadPlan& plan, std::size_t classes_max) {
    if (classes.size() <= classes_max) return;
    std::vector<std::size_t> order(classes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto part = [&](std::size_t i) {
        std::uint64_t sum = 0;
        for (const std::size_t peer : classes[i].peers) sum += plan.split.part_elements[peer];
        return sum;
    };
    std::vector<std::uint64_t> parts(classes.size());
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = part(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return parts[a] > parts[b];
    });
    std::vector<bool> stays(classes.size());
    for (std::size_t i = 0; i + 1 < classes_max; ++i) stays[order[i]] = true;
    std::vector<PeerClass> kept;
    PeerClass rest{.rest = true};
    for (std::size_t i = 0; i < classes.size(); ++i) {
        if (stays[i])
            kept.push_back(std::move(classes[i]));
        else
            rest.peers.insert(rest.peers.end(), classes[i].peers.begin(), classes[i].peers.end());
    }
    kept.push_back(std::move(rest));
    classes = std::move(kept);
}

std::vector<PeerClass> finished(std::vector<PeerClass> classes,
                                const PlanFile& file,
                                const LoadPlan& plan) {
    const auto traffic = planner::traffic(plan.peers, plan.split.part_elements);
    for (PeerClass& one : classes) {
        fill(one, plan, traffic);
        one.label = label_of(one, file);
    }
    return classes;
}

}  // namespace

std::vector<PeerClass> peer_classes(const PlanFile& file,
                                    const LoadPlan& plan,
                                    std::size_t classes_max) {
    using Key = std::tuple<std::string_view, bool, bool, bool, bool>;
    struct Place {
        std::size_t index = 0;
        std::uint64_t least = 0;
    };
    std::map<Key, std::vector<Place>> places;
    std::vector<PeerClass> classes;
    for (std::size_t i = 0; i < plan.peers.size(); ++i) {
        const planner::PeerRates& peer = plan.peers[i];
        const std::uint64_t part = plan.split.part_elements[i];
        auto& known =
            places[{file.groups[i], peer.contributes, peer.receives, peer.owns_allowed, part > 0}];
        // Parts of equal peers differ by one element, after division.
        const auto fits = [&](const Place& place) {
            return part + 1 >= place.least && part <= place.least + 1;
        };
        auto found = std::find_if(known.rbegin(), known.rend(), fits);
        if (found == known.rend()) {
            known.push_back({classes.size(), part});
            classes.emplace_back();
            found = known.rbegin();
        }
        found->least = std::min(found->least, part);
        classes[found->index].peers.push_back(i);
    }
    merge_rest(classes, plan, classes_max);
    return finished(std::move(classes), file, plan);
}

std::vector<PeerClass> single_peers(const PlanFile& file, const LoadPlan& plan) {
    std::vector<PeerClass> classes(plan.peers.size());
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i].peers = {i};
    return finished(std::move(classes), file, plan);
}

std::string bytes_text(double bytes) {
    if (bytes >= 0.9995e9) return fmt::format("{:.3g} GB", bytes / 1e9);
    if (bytes >= 0.9995e6) return fmt::format("{:.3g} MB", bytes / 1e6);
    if (bytes >= 0.9995e3) return fmt::format("{:.3g} kB", bytes / 1e3);
    return fmt::format("{:.0f} B", bytes);
}

std::string percent_text(double fraction) {
    if (fraction > 0 && fraction < 0.0005) return "<0.1 %";
    return fmt::format("{:.1f} %", fraction * 100);
}

std::string_view role_text(const PlanFile& file, const LoadPlan& plan, std::size_t peer) {
    const planner::PeerRates& now = plan.peers[peer];
    if (now.contributes) return now.receives ? "trainer" : "sender";
    if (file.question.peers[peer].rates.contributes) return "spared";
    return now.receives ? "receiver" : "aggregator";
}

}  // namespace dedloc::planning
