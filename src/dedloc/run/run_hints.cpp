#include "dedloc/run/run_hints.h"

namespace dedloc::run {
namespace {

// `above`: "local." for [local.optimizer]. Only what was changed was written.
void add_optimizer_hints(std::vector<std::string>& hints,
                         const optim::OptimizerConfig& optimizer,
                         std::string_view above) {
    const optim::OptimizerConfig usual;
    const bool is_sgd = optimizer.kind == optim::OptimizerKind::sgd;
    const auto in_vain = [&](std::string_view key, std::string_view instead) {
        hints.push_back(fmt::format("{}optimizer.{} does nothing with {}{}; take the line out",
                                    above,
                                    key,
                                    optim::to_string(optimizer.kind),
                                    instead));
    };
    if (!is_sgd) {
        if (optimizer.momentum != usual.momentum) in_vain("momentum", ", which has beta1 for it");
        if (optimizer.nesterov) in_vain("nesterov", "");
        if (optimizer.larc) in_vain("larc", "");
        return;
    }
    if (optimizer.beta1 != usual.beta1) in_vain("beta1", ", which has momentum for it");
    if (optimizer.beta2 != usual.beta2) in_vain("beta2", "");
    if (!optimizer.larc && optimizer.larc_trust != usual.larc_trust)
        in_vain("larc_trust", " without larc = true");
}

}  // namespace

std::vector<std::string> hints_about(const RunFile& run) {
    std::vector<std::string> hints;
    add_optimizer_hints(hints, run.optimizer, "");
    if (run.local) add_optimizer_hints(hints, run.local->optimizer, "local.");
    return hints;
}

}  // namespace dedloc::run
