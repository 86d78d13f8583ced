// The mixture-of-experts classifier: Fashion-MNIST images, ten classes; its experts live at the
// machines that `dedloc serve` lends.
//
//   moe_mlp   h = relu(dense 784 → width); h += mixture(h); dense(norm(h)) → 10
//
// The trunk (both dense layers, the norm, the gate) is the run's vector. Without a network (`dedloc
// check`) the experts add nothing, and an evaluation fails: it cannot be had without the run.
//
// Errors and threads: training_task.h.

#pragma once
#include "dedloc/tasks/registry.h"

namespace dedloc::tasks {

inline constexpr const char* moe_section_name = "moe_classifier";

struct MoeKeys {
    std::uint64_t width = 128;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit("width", self.width, run::Integers{1, 16384}, "of the rows that experts get");
    }
};

Result<std::shared_ptr<const TrainingTask>> make_moe_classifier(const run::TaskConfig& config,
                                                                const TaskOptions& options);
// Experts by libtorch.
Result<RunExperts> torch_experts(const run::TaskConfig& config, const TaskOptions& options);

}  // namespace dedloc::tasks
