#include "dedloc/consensus/compact_proposal.h"

#include "dedloc/wire/message.h"

namespace dedloc::consensus {

Propose compact(std::uint32_t ballot, const Bytes& decision) {
    Propose propose;
    propose.ballot = ballot;
    auto outline = wire::decode<Decision>(decision);
    if (!outline || outline->kind != DecisionKind::commit) return propose;
    propose.plan = decision_digest(outline->plan);
    propose.digest = decision_digest(decision);
    outline->plan.clear();
    outline->parts.clear();
    propose.outline = wire::encode(*outline);
    return propose;
}

Result<Bytes> whole_decision(const Propose& propose,
                             const Plan& plan,
                             const std::map<std::uint32_t, FinishedPart>& finished) {
    auto decision = wire::decode<Decision>(propose.outline);
    if (!decision)
        return make_error(ErrorKind::peer_broke_protocol, "an outline that cannot be read");
    decision->plan = wire::encode(plan);
    for (const auto& [part, header] : finished) decision->parts.push_back(header);
    Bytes whole = wire::encode(*decision);
    if (decision_digest(whole) != propose.digest)
        return make_error(ErrorKind::not_found, "the decision names other averages than are here");
    return whole;
}

}  // namespace dedloc::consensus
