// A run's checkpoint for a model of somebody's own: dedloc_checkpoint of dedloc.h.

#include <nlohmann/json.hpp>

#include "dedloc/c_api/described_model.h"
#include "dedloc/c_api/handle.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/train/find_checkpoint.h"

struct dedloc_checkpoint {
    dedloc::train::FoundCheckpoint found;
};

namespace dedloc::c_api {
namespace {

const state::Snapshot& snapshot_of(const train::FoundCheckpoint& found) {
    return *found.checkpoint.state->snapshot;
}

// Moments are not looked at: nobody steps with them.
Ok check_fits(const DescribedModel& model, const state::Snapshot& snapshot) {
    DEDLOC_TRY_VOID(train::check_same_tensors(model.fingerprint, snapshot.info().extra));
    const run::Layout layout = train::layout_of(model.tensors);
    const std::size_t parameters = replica::parameters_of(snapshot).size();
    const std::size_t buffers = replica::buffers_of(snapshot).size();
    if (parameters == layout.parameters_count && buffers == layout.buffers_count) return {};
    return make_error(ErrorKind::bad_input,
                      "this model has {} trained numbers and {} in buffers, the checkpoint {} and "
                      "{}; build it as the run's peers do",
                      layout.parameters_count,
                      layout.buffers_count,
                      parameters,
                      buffers);
}

Result<train::FoundCheckpoint> checkpoint_for(const std::string& path,
                                              std::span<const dedloc_tensor> tensors) {
    DEDLOC_TRY(const DescribedModel model, read_model(tensors, /*in_memory=*/false));
    DEDLOC_TRY(train::FoundCheckpoint found, train::find_checkpoint(path));
    DEDLOC_TRY_VOID(check_fits(model, snapshot_of(found)));
    return found;
}

}  // namespace
}  // namespace dedloc::c_api

using namespace dedloc;
using namespace dedloc::c_api;

int dedloc_checkpoint_open(const char* path,
                           const dedloc_tensor* tensors,
                           size_t count,
                           dedloc_checkpoint** checkpoint,
                           dedloc_error* error) {
    return guarded(error, 0, [&] {
        auto found = checkpoint_for(path, {tensors, count});
        if (!found) return report(found.error(), error);
        *checkpoint = std::make_unique<dedloc_checkpoint>(*std::move(found)).release();
        return 1;
    });
}

const float* dedloc_checkpoint_parameters(const dedloc_checkpoint* checkpoint) {
    return replica::parameters_of(snapshot_of(checkpoint->found)).data();
}

const float* dedloc_checkpoint_buffers(const dedloc_checkpoint* checkpoint) {
    return replica::buffers_of(snapshot_of(checkpoint->found)).data();
}

size_t dedloc_checkpoint_json(const dedloc_checkpoint* checkpoint, char* out, size_t size) {
    const train::FoundCheckpoint& found = checkpoint->found;
    const nlohmann::json all{{"path", found.path},
                             {"step", snapshot_of(found).info().step},
                             {"samples", snapshot_of(found).info().samples},
                             {"state_hash", found.checkpoint.state->root().hex()},
                             {"run_file", found.checkpoint.run_file},
                             {"skipped", found.skipped}};
    return write_text(
        all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), out, size);
}

void dedloc_checkpoint_close(dedloc_checkpoint* checkpoint) { delete checkpoint; }
