#include "dedloc/allreduce/routes.h"

#include <algorithm>

namespace dedloc::allreduce {

Ok check_grid(const consensus::RoundPlan& plan) {
    const auto bad = [](const char* why) {
        return make_error(ErrorKind::peer_broke_protocol, "a plan is refused: {}", why);
    };
    const std::size_t count = plan.members.size();
    if (plan.groups == 0) {
        if (!plan.group_of.empty() || !plan.collectors.empty()) return bad("a grid of no groups");
        return {};
    }
    if (plan.groups > count || plan.group_of.size() != count ||
        plan.collectors.size() % plan.groups != 0)
        return bad("its groups");
    std::vector<bool> in_column(count, false);
    for (std::size_t i = 0; i < plan.collectors.size(); ++i) {
        const std::uint32_t member = plan.collectors[i];
        if (member >= count || in_column[member] || plan.group_of[member] != i % plan.groups)
            return bad("its columns");
        in_column[member] = true;
    }
    if (std::ranges::any_of(plan.group_of, [&](auto group) { return group >= plan.groups; }))
        return bad("its groups");
    if (std::ranges::any_of(plan.parts, [&](const auto& part) { return !in_column[part.owner]; }))
        return bad("an owner in no column");
    return {};
}

Routes::Routes(const consensus::RoundPlan& plan) : plan_(plan) {
    if (!is_grid()) return;
    const auto none = static_cast<std::uint32_t>(plan_.members.size());
    column_of_.assign(plan_.members.size(), none);
    for (std::size_t i = 0; i < plan_.collectors.size(); ++i)
        column_of_[plan_.collectors[i]] = static_cast<std::uint32_t>(i / plan_.groups);
    contributing_groups_.assign(plan_.groups, false);
    for (std::uint32_t i = 0; i < plan_.members.size(); ++i)
        if (contributes(i)) contributing_groups_[plan_.group_of[i]] = true;
}

std::uint32_t Routes::column_of_part(std::uint32_t part) const {
    return column_of_[plan_.parts[part].owner];
}

std::uint32_t Routes::next(std::uint32_t member, std::uint32_t part) const {
    const std::uint32_t owner = plan_.parts[part].owner;
    if (!is_grid()) return owner;
    const std::uint32_t own = collector(plan_.group_of[member], column_of_part(part));
    return own == member ? owner : own;
}

bool Routes::collects(std::uint32_t member, std::uint32_t part) const {
    return is_grid() && plan_.parts[part].owner != member &&
           column_of_[member] == column_of_part(part);
}

bool Routes::sends_sums(std::uint32_t from, std::uint32_t to) const {
    return is_grid() && plan_.group_of[from] != plan_.group_of[to];
}

std::set<std::uint32_t> Routes::sources(std::uint32_t member, std::uint32_t part) const {
    std::set<std::uint32_t> result;
    for (std::uint32_t i = 0; i < plan_.members.size(); ++i)
        if (contributes(i) && !sends_sums(i, member)) result.insert(i);
    if (!is_grid() || plan_.parts[part].owner != member) return result;
    for (std::uint32_t group = 0; group < plan_.groups; ++group)
        if (group != plan_.group_of[member] && contributing_groups_[group])
            result.insert(collector(group, column_of_part(part)));
    return result;
}

bool Routes::may_include(std::uint32_t collector, const Bytes& members) const {
    if (members.size() != base::bits_bytes(plan_.members.size())) return false;
    for (std::uint32_t i = 0; i < members.size() * 8; ++i) {
        if (!base::has_bit(members, i)) continue;
        if (i >= plan_.members.size() || !contributes(i) || sends_sums(i, collector)) return false;
    }
    return true;
}

}  // namespace dedloc::allreduce
