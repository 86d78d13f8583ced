// Experts of a run for a loop of one's own: dedloc_mixture of dedloc.h.

#include <algorithm>
#include <map>

#include "dedloc/c_api/handle.h"
#include "dedloc/train/node_mixture.h"

namespace dedloc::c_api {
namespace {

// Forward passes that wait for their backward pass; of more the oldest is forgotten.
constexpr std::size_t kept_passes_max = 256;

Result<experts::MixtureOptions> mixture_options_of(const dedloc_mixture_options& given) {
    experts::MixtureOptions options;
    options.grid.name = given.name != nullptr ? given.name : "";
    options.grid.sizes.assign(given.sizes, given.sizes + given.dimensions);
    DEDLOC_TRY_VOID(experts::check(options.grid));
    if (given.best > 0) options.best = given.best;
    options.at_least = std::max<std::size_t>(given.at_least, 1);
    if (options.best > options.grid.experts_count() || options.at_least > options.best)
        return make_error(ErrorKind::bad_input,
                          "best = {}, at_least = {}: best is at most the {} experts of the grid, "
                          "and at_least at most best",
                          options.best,
                          options.at_least,
                          options.grid.experts_count());
    return options;
}

experts::Tensor rows_from(const float* values, std::size_t rows, std::size_t width) {
    return {.shape = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width)},
            .values = {values, values + rows * width}};
}

std::vector<experts::GridScores> scores_from(const float* values,
                                             std::size_t rows,
                                             const experts::ExpertGrid& grid) {
    std::vector<experts::GridScores> all(rows);
    for (experts::GridScores& row : all)
        for (const std::uint32_t size : grid.sizes) {
            row.emplace_back(values, values + size);
            values += size;
        }
    return all;
}

}  // namespace
}  // namespace dedloc::c_api

struct dedloc_mixture {
    std::unique_ptr<dedloc::train::MixtureCalls> calls;
    std::mutex mutex;
    std::uint64_t next_pass = 1;
    std::map<std::uint64_t, dedloc::train::MixtureCalls::Passed> passes;
};

using namespace dedloc;
using namespace dedloc::c_api;

namespace {

Result<std::uint64_t> pass_forward(dedloc_mixture& mixture,
                                   experts::Tensor inputs,
                                   std::vector<experts::GridScores> scores,
                                   float* outputs,
                                   std::uint8_t* lost) {
    DEDLOC_TRY(train::MixtureCalls::Passed passed,
               mixture.calls->forward(std::move(inputs), std::move(scores)));
    std::ranges::copy(passed.outputs.values, outputs);
    if (lost != nullptr) std::ranges::copy(passed.lost, lost);
    const std::lock_guard lock(mixture.mutex);
    if (mixture.passes.size() >= kept_passes_max) mixture.passes.erase(mixture.passes.begin());
    mixture.passes.emplace(mixture.next_pass, std::move(passed));
    return mixture.next_pass++;
}

Result<train::MixtureCalls::Passed> taken_pass(dedloc_mixture& mixture, std::uint64_t pass) {
    const std::lock_guard lock(mixture.mutex);
    auto node = mixture.passes.extract(pass);
    if (!node)
        return make_error(ErrorKind::bad_input,
                          "a forward pass goes backward once, and is forgotten when {} came after "
                          "it",
                          kept_passes_max);
    return std::move(node.mapped());
}

Result<void> pass_backward(dedloc_mixture& mixture,
                           std::uint64_t pass,
                           const float* output_gradients,
                           float* input_gradients,
                           float* score_gradients) {
    DEDLOC_TRY(train::MixtureCalls::Passed passed, taken_pass(mixture, pass));
    experts::Tensor outer =
        rows_from(output_gradients, passed.outputs.rows(), passed.outputs.row_elements());
    DEDLOC_TRY(const train::MixtureCalls::Gradients gradients,
               mixture.calls->backward(std::move(passed), std::move(outer)));
    std::ranges::copy(gradients.inputs.values, input_gradients);
    for (const experts::GridScores& row : gradients.scores)
        for (const auto& axis : row) score_gradients = std::ranges::copy(axis, score_gradients).out;
    return {};
}

}  // namespace

int dedloc_mixture_open(dedloc_loop* loop,
                        const dedloc_mixture_options* options,
                        dedloc_mixture** mixture,
                        dedloc_error* error) {
    return guarded(error, 0, [&] {
        auto read = mixture_options_of(*options);
        if (!read) return report(read.error(), error);
        const collab::Node& node = loop->session->node();
        node.join_table();
        auto made = std::make_unique<dedloc_mixture>();
        made->calls = std::make_unique<train::NodeMixture>(node, *std::move(read));
        *mixture = made.release();
        return 1;
    });
}

uint64_t dedloc_mixture_forward(dedloc_mixture* mixture,
                                const float* inputs,
                                const float* scores,
                                size_t rows,
                                size_t width,
                                float* outputs,
                                uint8_t* lost,
                                dedloc_error* error) {
    std::uint64_t pass = 0;
    (void)guarded(error, 0, [&] {
        auto passed = pass_forward(*mixture,
                                   rows_from(inputs, rows, width),
                                   scores_from(scores, rows, mixture->calls->grid()),
                                   outputs,
                                   lost);
        if (!passed) return report(passed.error(), error);
        pass = *passed;
        return 1;
    });
    return pass;
}

int dedloc_mixture_backward(dedloc_mixture* mixture,
                            uint64_t pass,
                            const float* output_gradients,
                            float* input_gradients,
                            float* score_gradients,
                            dedloc_error* error) {
    return guarded(error, 0, [&] {
        const Result<void> done =
            pass_backward(*mixture, pass, output_gradients, input_gradients, score_gradients);
        return done ? 1 : report(done.error(), error);
    });
}

void dedloc_mixture_forget(dedloc_mixture* mixture, uint64_t pass) {
    const std::lock_guard lock(mixture->mutex);
    mixture->passes.erase(pass);
}

void dedloc_mixture_close(dedloc_mixture* mixture) { delete mixture; }
