// KeptInputs: what a member holds of others' contributions in a robust round until the step is
// decided: their commitments, and the parts that it reduced, each with its path to the root. With
// them every reduction can be done again by whoever doubts it.
//
// Memory: the parts that this member owns, of everybody: one vector's worth if all own the same.
// Thread: the network thread; is_committed() on any.

#pragma once
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "dedloc/allreduce/commitment.h"
#include "dedloc/base/result.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/consensus/plan.h"

namespace dedloc::allreduce {

// A part of a contribution, and where it stands under its author's root.
struct CommittedInput {
    SharedBytes encoded;
    std::vector<Digest> path;
};

bool is_committed(const CommittedInput& input,
                  const Digest& root,
                  std::size_t part,
                  std::size_t parts_count);

class KeptInputs {
  public:
    // A commitment whose signature holds. Errors: peer_broke_protocol: it said another before.
    Ok commit(std::uint32_t member, const Commitment& commitment);
    // nullptr: it has not committed here.
    const Commitment* commitment(std::uint32_t member) const;
    const std::map<std::uint32_t, Commitment>& commitments() const { return commitments_; }
    // Members that committed twice, with what they said second.
    const std::map<std::uint32_t, Commitment>& second_commitments() const { return second_; }

    // The commitments of those in `included` that weigh, as an owner signs them.
    Digest commitments_of(ByteView included, const consensus::RoundPlan& plan) const;

    void keep(std::uint32_t part, std::uint32_t member, CommittedInput input);
    std::optional<CommittedInput> find(std::uint32_t part, std::uint32_t member) const;
    // The member sent a contribution that it had not committed to.
    void contradicts(std::uint32_t member) { contradicting_.insert(member); }
    const std::set<std::uint32_t>& contradicting() const { return contradicting_; }
    void forget() { inputs_.clear(); }

  private:
    std::map<std::uint32_t, Commitment> commitments_;
    std::map<std::uint32_t, Commitment> second_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, CommittedInput> inputs_;  // part, member
    std::set<std::uint32_t> contradicting_;
};

}  // namespace dedloc::allreduce
