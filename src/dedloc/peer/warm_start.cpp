#include "dedloc/peer/warm_start.h"

#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::peer {
namespace {

bool corrects_bias(const optim::OptimizerConfig& optimizer) {
    if (optimizer.kind == optim::OptimizerKind::lamb) return optimizer.debias;
    return optimizer.kind == optim::OptimizerKind::adamw;
}

// Why the moments stay behind; empty: they come along.
std::string why_no_moments(const run::RunFile& run,
                           const run::Layout& layout,
                           const WarmSource& source) {
    if (!source.optimizer) return "the checkpoint's run file is of another version";
    const optim::OptimizerKind before = source.optimizer->kind;
    if (before != run.optimizer.kind)
        return fmt::format("it was {} and is {} now",
                           optim::to_string(before),
                           optim::to_string(run.optimizer.kind));
    if (corrects_bias(run.optimizer)) return "it counts its steps from 0";
    const auto moments = replica::empty_moments(run.optimizer, layout);
    if (moments.empty()) return "it keeps nothing from step to step";
    for (const state::Section& moment : moments) {
        const auto* kept = source.state->find(moment.name);
        if (kept == nullptr || kept->elements() != moment.elements() || kept->dtype != moment.dtype)
            return "the checkpoint has none of its moments";
    }
    return {};
}

Ok check_counts(const run::Layout& layout, const WarmSource& source) {
    const state::Section* parameters = source.state->find(replica::parameters_section);
    const state::Section* buffers = source.state->find(replica::buffers_section);
    const std::size_t parameters_count = parameters == nullptr ? 0 : parameters->values.size();
    const std::size_t buffers_count = buffers == nullptr ? 0 : buffers->values.size();
    if (parameters_count == layout.parameters_count && buffers_count == layout.buffers_count &&
        parameters != nullptr && buffers != nullptr)
        return {};
    return make_error(ErrorKind::bad_input,
                      "the checkpoint {} has {} parameters and {} buffers, this run's model has {} "
                      "and {}; --from needs a checkpoint of the same model",
                      source.path,
                      parameters_count,
                      buffers_count,
                      layout.parameters_count,
                      layout.buffers_count);
}

}  // namespace

Ok inherit(run::TaskConfig& task, const WarmSource& source) {
    const tasks::TaskKind* kind = tasks::find_task(task.kind);
    if (!kind || !kind->inherit) return {};
    if (source.task && source.task->kind != task.kind) return {};  // warm_start() refuses the model
    const Ok taken = kind->inherit(task, source.task ? &*source.task : nullptr);
    if (!taken) return taken.error().with_context("--from " + source.path);
    return {};
}

Result<WarmStart> warm_start(const run::RunFile& run,
                             const run::Layout& layout,
                             const WarmSource& source) {
    DEDLOC_TRY_VOID(check_counts(layout, source));
    const auto parameters = replica::parameters_of(*source.state);
    const auto buffers = replica::buffers_of(*source.state);
    WarmStart start;
    DEDLOC_TRY(start.state,
               replica::initial_state(run,
                                      layout,
                                      std::vector<float>(parameters.begin(), parameters.end()),
                                      std::vector<float>(buffers.begin(), buffers.end())));
    const std::string why = why_no_moments(run, layout, source);
    if (why.empty()) {
        std::vector<state::Section> sections = start.state->sections();
        for (state::Section& section : sections) section = *source.state->find(section.name);
        DEDLOC_TRY(start.state, state::Snapshot::make(start.state->info(), std::move(sections)));
    }
    if (source.weights_alone) {
        start.told = fmt::format("a new run begins at step 0 with the weights of {}", source.path);
        return start;
    }
    start.told = fmt::format(
        "a new run begins at step 0 with the parameters and buffers of step {} ({}); {}",
        source.state->step(),
        source.path,
        why.empty() ? "the optimizer's moments are taken, too"
                    : "the optimizer begins anew: " + why);
    return start;
}

}  // namespace dedloc::peer
