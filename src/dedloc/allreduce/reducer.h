// Reducer: how the contributions to one part become its average. The owner hands it all
// contributions of the part at once, in the order of the members that sent them. Pure: the same
// input gives the same bits on every CPU (promise 1). Thread: any (meant for workers).

#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dedloc/base/shared_bytes.h"
#include "dedloc/consensus/plan.h"

namespace dedloc::allreduce {

struct PartInput {
    std::uint32_t member = 0;  // who sends it
    SharedBytes encoded;
    // Names who is in what is not scaled, in fp32 (sum_part, sparse_sums.h). Empty: `encoded` is a
    // contribution of the member, as it travels.
    Bytes members{};
};

struct RefusedInput {
    std::uint32_t member = 0;
    const char* why = "";
};

struct ReducedPart {
    Bytes included;  // bitmap over the plan's members
    SharedBytes encoded;
    Digest digest;
    std::vector<RefusedInput> refused;
    // Holds what the encoding leaves out of the sum, where the owner keeps it (sparse_sums.h).
    std::shared_ptr<const std::vector<float>> left_out{};
};

inline constexpr std::uint32_t mean_number = 0;

class Reducer {
  public:
    virtual ~Reducer() = default;
    // As plans name it: voters refuse a plan with another one than the run's.
    virtual std::uint32_t number() const = 0;
    // Is the reduction of sums the same as that of all contributions? If not, no plan may have a
    // grid, and sum() is never called.
    virtual bool adds_up() const = 0;
    // The average of a part. Members that bring no weight do not appear. With no input left the
    // average is zero.
    virtual ReducedPart reduce(const consensus::RoundPlan& plan,
                               std::uint32_t part,
                               const std::vector<PartInput>& inputs) const = 0;
    // A collector's sum for its group, which it sends on: fp32, without a digest.
    virtual ReducedPart sum(const consensus::RoundPlan& plan,
                            std::uint32_t part,
                            const std::vector<PartInput>& inputs) const = 0;
};

}  // namespace dedloc::allreduce
