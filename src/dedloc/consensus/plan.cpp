#include "dedloc/consensus/plan.h"

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {

Digest decision_digest(ByteView decision) { return security::sha256(decision); }

bool fits_plan(const FinishedPart& header, const RoundPlan& plan, const Digest& plan_digest) {
    if (header.plan != plan_digest || header.part >= plan.parts.size() ||
        header.owner >= plan.members.size() ||
        !base::are_bits_of(header.included, plan.members.size()))
        return false;
    if (header.repair == 0) return header.owner == plan.parts[header.part].owner;
    return header.repair <= repairs_max &&
           (plan.members[header.owner].peer == plan.leader ||
            std::ranges::find(plan.standby, header.owner) != plan.standby.end());
}

Bytes no_members(const RoundPlan& plan) { return Bytes(base::bits_bytes(plan.members.size()), 0); }

double committed_samples(const RoundPlan& plan,
                         const std::vector<FinishedPart>& parts,
                         std::uint64_t elements_count) {
    double total = 0;
    for (std::size_t p = 0; p < parts.size() && p < plan.parts.size(); ++p)
        for (std::size_t i = 0; i < plan.members.size(); ++i)
            if (parts[p].includes(i) && !plan.members[i].weightless)
                total +=
                    included_samples(plan.members[i].input, plan.parts[p].range(), elements_count);
    return total;
}

std::uint64_t vector_count(const RoundPlan& plan) {
    return plan.whole_count > 0 ? plan.whole_count : moved_range(plan).end();
}

ElementRange moved_range(const RoundPlan& plan) {
    if (plan.parts.empty()) return {};
    const std::uint64_t offset = plan.parts.front().offset;
    return {offset, plan.parts.back().range().end() - offset};
}

Bytes FinishedPart::signed_bytes() const {
    FinishedPart bare = *this;
    bare.signature.clear();
    return wire::encode(bare);
}

}  // namespace dedloc::consensus
