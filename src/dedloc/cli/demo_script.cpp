#include "dedloc/cli/demo_script.h"

namespace dedloc::cli {

std::optional<Act> DemoScript::due(std::uint64_t step) {
    static constexpr struct {
        std::uint64_t percent;
        Act act;
    } acts[] = {{25, Act::kill}, {45, Act::leave}, {60, Act::join}};
    if (finished() || step * 100 < steps_ * acts[done_].percent) return std::nullopt;
    return acts[done_++].act;
}

}  // namespace dedloc::cli
