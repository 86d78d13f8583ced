// ProofRows: a robust round as its proof sees it: the averages that are to be certified, the signs
// that were drawn, and from them the rows of robust/rows.h: one a member and owner, over those of
// the owner's parts that include the member. Members make theirs, owners make them again from what
// they reduced, and judges from what they are shown: all of them the same bits.
//
// Averages of what follows the gradients (medians) are in no row: they are proved by reducing them
// again only.
//
// Cost: a pass over each average and each contribution. Memory: none that grows with the vector.
// Thread: any (meant for workers).

#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dedloc/allreduce/centered_clip_reducer.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/robust/rows.h"
#include "dedloc/robust/step_size.h"
#include "dedloc/runtime/workers.h"

namespace dedloc::allreduce {

struct ReducedAverage {
    consensus::FinishedPart header;
    SharedBytes encoded;
};

class ProofRows {
  public:
    // `averages`: one a part, in order, sound; of those without bytes there are no rows. `workers`
    // help.
    ProofRows(std::shared_ptr<const consensus::RoundPlan> plan,
              const CenteredClipRule& rule,
              const Digest& seed,
              std::vector<ReducedAverage> averages,
              runtime::Workers& workers);

    // Members that reduced something, rising: the order of a member's rows.
    const std::vector<std::uint32_t>& owners() const { return owners_; }
    // The owner's parts that a member has a row about.
    std::vector<std::uint32_t> parts_of(std::uint32_t owner, std::uint32_t member) const;

    // A part of the member's contribution, as it was encoded; none: it is not to be had.
    using InputOf = std::function<SharedBytes(std::uint32_t part)>;
    // Errors: not_found: a part is not to be had.
    Result<robust::Row> row(std::uint32_t owner, std::uint32_t member, const InputOf& input) const;

    // Do the rows about this owner say that it reduced rightly? One row a member of the plan;
    // nullptr: it has none. Errors: conflict.
    Ok check_sums(std::uint32_t owner, const std::vector<const robust::Row*>& rows) const;
    // How long the average is, and how far honest contributions are from their mean; of one
    // contributor: how long it is. By the rows of all who weigh, by member.
    robust::StepSize size(const std::map<std::uint32_t, std::vector<robust::Row>>& rows) const;
    // Must this member's rows be there before anything is certified?
    bool weighs_anywhere(std::uint32_t member) const;

  private:
    struct Average {
        double tau = 0;
        double codec_error = 0;
        double squared_length = 0;
        robust::Projected projected{};
        std::vector<double> weights;  // of each member, capped; 0: it is not in it
    };
    bool is_proved(std::uint32_t part) const { return plan_.is_bounded(plan_.parts[part]); }
    void look_at(std::uint32_t part);
    robust::Projections::Sums sums_of(std::uint32_t part,
                                      std::uint32_t member,
                                      const SharedBytes& encoded) const;
    double weight_of_one() const;
    bool is_whole(std::uint32_t member) const;

    const std::shared_ptr<const consensus::RoundPlan> whole_plan_;
    const consensus::RoundPlan& plan_;
    const CenteredClipRule rule_;
    const robust::Projections projections_;
    const std::vector<ReducedAverage> averages_;
    runtime::Workers& workers_;
    std::vector<std::uint32_t> owners_;
    std::vector<Average> polled_at_;
};

}  // namespace dedloc::allreduce
