// [experts]: the grid of experts that a run's model calls, for all tasks that have one. No
// libtorch.
//
// The trunk of such a model is the run's vector and is averaged; its experts live at the machines
// that `dedloc serve` lends, learn where they are, and are no part of the run's state
// (docs/experts.md).
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <string>

#include "dedloc/experts/ffn_expert.h"
#include "dedloc/experts/mixture.h"
#include "dedloc/run/task_section.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::tasks {

inline constexpr const char* experts_section_name = "experts";

struct ExpertKeys {
    std::string name = "ffn";
    std::string grid = "4x4";
    std::uint64_t hidden = 512;
    std::uint64_t best = 4;
    std::uint64_t at_least = 1;
    std::uint64_t update_batch = 1024;
    std::uint64_t keepers = 2;
    double rate = 0.001;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Text;
        visit("name", self.name, Text{.bytes_max = 32}, "under which the experts are declared");
        visit("grid", self.grid, Text{.bytes_max = 64}, "one expert for each point");
        visit("hidden", self.hidden, Integers{1, 65536}, "width of an expert's inner layer");
        visit("best", self.best, Integers{1, 64}, "experts that each row asks");
        visit(
            "at_least", self.at_least, Integers{1, 64}, "of them must answer, or the row is lost");
        visit("update_batch", self.update_batch, Integers{1, 4096}, "rows of one update at most");
        visit("keepers", self.keepers, Integers{0, 8}, "servers that have a copy of each expert");
        visit("rate", self.rate, run::Numbers{0, 10}, "learning rate of the experts (Adam)");
    }
};

inline ExpertKeys expert_keys(const run::TaskConfig& task) {
    return run::keys_of<ExpertKeys>(task, experts_section_name);
}

// bad_input: no grid ("4x4", "16"), or more experts asked than there are.
Result<experts::ExpertGrid> expert_grid(const run::TaskConfig& task);
// Options of experts that take and give rows of `width` numbers.
experts::FfnOptions expert_options(const run::TaskConfig& task, std::uint64_t width);
Result<experts::MixtureOptions> mixture_options(const run::TaskConfig& task);
// The experts that `dedloc serve` needs to know; makes plain loops, unless `factory` says something
// better.
Result<RunExperts> run_experts(const run::TaskConfig& task,
                               std::uint64_t width,
                               experts::ExpertFactory factory = {});

// The same for a run whose task nobody registered, a loop of one's own: its [experts] has every
// key, and `width` of a row. bad_input: it has not.
Result<RunExperts> own_loop_experts(const run::TaskConfig& task);

// For TrainingTask::counts().
std::vector<Measure> measures_of(const experts::MixtureCounts& counts);
// unsupported: an evaluation without the run.
Error experts_are_elsewhere();

}  // namespace dedloc::tasks
