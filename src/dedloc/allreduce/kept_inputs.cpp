#include "dedloc/allreduce/kept_inputs.h"

#include "dedloc/base/bits.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::allreduce {

bool is_committed(const CommittedInput& input,
                  const Digest& root,
                  std::size_t part,
                  std::size_t parts_count) {
    return is_under(root, part, parts_count, security::hash_list(*input.encoded), input.path);
}

Ok KeptInputs::commit(std::uint32_t member, const Commitment& commitment) {
    const auto [known, is_new] = commitments_.try_emplace(member, commitment);
    if (is_new || known->second.says(commitment)) return {};
    second_.try_emplace(member, commitment);
    return make_error(ErrorKind::peer_broke_protocol,
                      "it committed to two contributions in one round");
}

const Commitment* KeptInputs::commitment(std::uint32_t member) const {
    const auto found = commitments_.find(member);
    return found == commitments_.end() ? nullptr : &found->second;
}

Digest KeptInputs::commitments_of(ByteView included, const consensus::RoundPlan& plan) const {
    std::map<std::uint32_t, Digest> roots;
    for (const auto& [member, commitment] : commitments_)
        if (base::has_bit(included, member) && !plan.members[member].weightless)
            roots[member] = commitment.root;
    return digest_of_roots(roots);
}

void KeptInputs::keep(std::uint32_t part, std::uint32_t member, CommittedInput input) {
    inputs_.try_emplace({part, member}, std::move(input));
}

std::optional<CommittedInput> KeptInputs::find(std::uint32_t part, std::uint32_t member) const {
    const auto found = inputs_.find({part, member});
    if (found == inputs_.end()) return std::nullopt;
    return found->second;
}

}  // namespace dedloc::allreduce
