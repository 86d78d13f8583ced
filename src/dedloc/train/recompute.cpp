#include "dedloc/train/recompute.h"

#include <algorithm>

namespace dedloc::train {
namespace {

Result<std::vector<float>> sums_of(const run::Layout& layout,
                                   Samples& computing,
                                   Accumulation& accumulation,
                                   const validation::CheckPiece& piece,
                                   std::uint64_t micro_batch) {
    computing.at_step(piece.state->step());
    accumulation.begin_at(*piece.state);
    std::uint64_t counted = 0;
    const consensus::CounterRange& samples = piece.samples;
    for (std::uint64_t begin = samples.begin; begin < samples.end; begin += micro_batch) {
        const std::uint64_t end = std::min(begin + micro_batch, samples.end);
        DEDLOC_TRY(const GradientReport report, computing.accumulate({begin, end}));
        if (accumulation.computed(end - begin, report.finite)) counted += end - begin;
    }
    std::vector<float> sums(static_cast<std::size_t>(layout.vector_count()));
    const std::span<float> all(sums);
    const auto parameters = static_cast<std::size_t>(layout.parameters_count);
    accumulation.take(all.first(parameters), all.subspan(parameters), counted);
    return sums;
}

}  // namespace

Result<validation::CheckResult> recompute(Model& model,
                                          Samples& computing,
                                          Accumulation& accumulation,
                                          const validation::CheckJob& job,
                                          std::uint64_t micro_batch) {
    validation::CheckResult result;
    result.number = job.number;
    DEDLOC_TRY_VOID(computing.compute_as(job.author));
    const run::Layout layout = model.layout();
    Ok outcome;
    for (const validation::CheckPiece& piece : job.pieces) {
        auto sums = sums_of(layout, computing, accumulation, piece, micro_batch);
        if (!sums) {
            outcome = std::move(sums).error();
            break;
        }
        result.sums.push_back(*std::move(sums));
    }
    DEDLOC_TRY_VOID(computing.compute_as(job.validator));
    DEDLOC_TRY_VOID(outcome);
    return result;
}

}  // namespace dedloc::train
