#include "dedloc/consensus/compact_proposal.h"

#include "dedloc/wire/message.h"

namespace dedloc::consensus {

Propose compact_proposal(std::uint32_t ballot, const Bytes& decision) {
    Propose propose;
    propose.ballot = ballot;
    auto brief = wire::decode<Decision>(decision);
    if (!brief || brief->kind != DecisionKind::commit) return propose;
    propose.plan = decision_digest(brief->plan);
    propose.digest = decision_digest(decision);
    brief->plan.clear();
    brief->parts.clear();
    propose.compact_decision = wire::encode(*brief);
    return propose;
}

Result<Bytes> whole_decision(const Propose& propose,
                             const RoundPlan& plan,
                             const std::map<std::uint32_t, FinishedPart>& finished) {
    auto decision = wire::decode<Decision>(propose.compact_decision);
    if (!decision)
        return make_error(ErrorKind::peer_broke_protocol, "a compact decision that cannot be read");
    decision->plan = wire::encode(plan);
    for (const auto& [part, header] : finished) decision->parts.push_back(header);
    Bytes whole = wire::encode(*decision);
    if (decision_digest(whole) != propose.digest)
        return make_error(ErrorKind::not_found, "the decision names other averages than are here");
    return whole;
}

}  // namespace dedloc::consensus
