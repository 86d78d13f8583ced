#include "experiments/equivalence.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "dedloc/allreduce/mean_reducer.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/state/manifest.h"
#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/tasks/training_task.h"

#include "experiments/equivalence_plain.h"
#include "experiments/equivalence_recording.h"
#include "tests/common/exit_codes.h"
#include "tests/common/temporary_folder.h"
#include "tests/sim/image_task.h"

namespace dedloc::lab {

namespace equivalence {
namespace {

constexpr double sgd_fp32_bound = 3e-6;
constexpr double sgd_fp16_bound = 1e-3;
// The demo's network and warm-up; deadlines so long that nobody is left out, however busy the
// machine is. (Who is left out is carried: right, but another batch.)
constexpr std::string_view equivalence_run = R"(
name = "equivalence"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[schedule]
kind = "cosine"
warmup_steps = 25
total_steps = 250
final_fraction = 0.02
[averaging]
round_deadline_min = "100s"
round_deadline_max = "300s"
quorum_timeout = "1000s"
[evaluate]
every = 0
)";

struct Case {
    std::string name;  // "sgd_fp32"
    optim::OptimizerKind optimizer;
    codec::CodecId codec;
    double peak;  // learning rate
    double weight_decay;
};

Result<run::RunFile> run_of(const Case& wanted, int peers) {
    DEDLOC_TRY(run::RunFile run, run::parse_run_file(equivalence_run, "equivalence"));
    run.batch.micro = micro_batch;
    run.batch.target = micro_batch * micro_batches_per_step * static_cast<std::uint64_t>(peers);
    run.optimizer.kind = wanted.optimizer;
    run.optimizer.schedule.peak = wanted.peak;
    run.optimizer.weight_decay = wanted.weight_decay;
    run.averaging.codec = wanted.codec;
    return run;
}

// ---- one process plays all ----------------------------------------------------------------------

// Is the batch what it should be: everybody, whole, nothing else? Empty, or a sentence.
std::string batch_problem(const StepRecord& record, const Recording& recording) {
    std::vector<PeerId> expected = recording.peers;
    std::sort(expected.begin(), expected.end());
    const std::uint64_t step = record.plan.instance.step;
    if (record.plan.members.size() != expected.size())
        return fmt::format("step {} has {} members", step, record.plan.members.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const consensus::PlanMember& member = record.plan.members[i];
        const bool whole = member.peer == expected[i] &&
                           member.input.fresh == samples_of_step(step) &&
                           member.input.carried_ranges.empty();
        if (!whole) return fmt::format("step {} has another batch than was computed", step);
        for (const consensus::FinishedPart& part : record.decision.parts)
            if (!part.includes(i)) return fmt::format("step {} left somebody out", step);
    }
    return {};
}

struct Difference {
    std::uint64_t states = 0;  // steps after which a hash differed
    std::uint64_t parts = 0;   // averaged parts whose bytes differed
    std::string problem;
};

class Soloist {
  public:
    Soloist(const tasks::TrainingTask& task, const run::RunFile& run, const Recording& recording)
        : task_(task), run_(run), recording_(recording) {}

    Result<Difference> play() {
        for (const PeerId& peer : recording_.peers) {
            DEDLOC_TRY(learners_[peer], task_.learner(peer));
        }
        SnapshotPointer state = recording_.first;
        for (const StepRecord& record : recording_.steps) {
            if (std::string problem = batch_problem(record, recording_); !problem.empty())
                difference_.problem = std::move(problem);
            DEDLOC_TRY(state, step(*state, record));
            const Digest root = state::make_manifest(*state).root;
            const bool equal = std::all_of(record.states.begin(),
                                           record.states.end(),
                                           [&](const Digest& theirs) { return theirs == root; });
            if (!equal) ++difference_.states;
        }
        return difference_;
    }

  private:
    Result<SnapshotPointer> step(const state::Snapshot& before, const StepRecord& record) {
        const consensus::RoundPlan& plan = record.plan;
        std::vector<std::vector<float>> sums;
        for (const consensus::PlanMember& member : plan.members) {
            const auto learner = learners_.find(member.peer);
            if (learner == learners_.end())
                return make_error(ErrorKind::conflict, "a stranger is in the plan");
            DEDLOC_TRY(std::vector<float> sum,
                       contribution(*learner->second,
                                    recording_.layout,
                                    before,
                                    samples_of_step(before.step()),
                                    nullptr));
            sums.push_back(std::move(sum));
        }
        std::vector<SharedBytes> averages;
        for (std::uint32_t part = 0; part < plan.parts.size(); ++part)
            averages.push_back(average(record, part, sums));
        const run::Layout& layout = recording_.layout;
        DEDLOC_TRY(const replica::AveragedVector average,
                   replica::averaged_vector(layout, plan, averages));
        return replica::next_state(run_, layout, before, record.decision, average.view());
    }

    SharedBytes average(const StepRecord& record,
                        std::uint32_t part,
                        const std::vector<std::vector<float>>& sums) {
        const consensus::RoundPlan& plan = record.plan;
        const consensus::ElementRange range = plan.parts[part].range();
        std::vector<allreduce::PartInput> inputs;
        for (std::uint32_t i = 0; i < plan.members.size(); ++i) {
            const std::span<const float> sum = std::span(sums[i]).subspan(
                static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.count));
            inputs.push_back({i,
                              allreduce::encode_contribution(
                                  allreduce::codec_of(plan, part), sum, plan.members[i].input)});
        }
        const allreduce::ReducedPart reduced = allreduce::reduce_part(plan, part, inputs);
        if (reduced.digest != record.decision.parts[part].digest) ++difference_.parts;
        return reduced.encoded;
    }

    const tasks::TrainingTask& task_;
    const run::RunFile& run_;
    const Recording& recording_;
    std::map<PeerId, std::unique_ptr<train::SampledModel>> learners_;
    Difference difference_;
};

// ‖a - b‖ / ‖b‖
double relative_distance(std::span<const float> a, std::span<const float> b) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double x = a[i];
        const double y = b[i];
        difference += (x - y) * (x - y);
        size += y * y;
    }
    return std::sqrt(difference / size);
}

// ---- the command --------------------------------------------------------------------------------

struct CaseOutcome {
    std::string name;
    bool bit_identical = false;
    Difference difference;
    double relative = 0;
    std::vector<double> by_step;
    double torch_itself = 0;  // a plain loop in micro-batches against the one with large batches
    double moved = 0;         // ‖last - first‖ / ‖first‖: what there was to differ in
    double seconds = 0;
};

Result<CaseOutcome> run_case(const Case& wanted,
                             const EquivalenceCommand& command,
                             const tasks::TrainingTask& task,
                             const tasks::FashionMnist& data) {
    const auto begun = std::chrono::steady_clock::now();
    CaseOutcome outcome;
    outcome.name = wanted.name;
    DEDLOC_TRY(const run::RunFile run, run_of(wanted, command.peers));
    DEDLOC_TRY(const TemporaryFolder folder, TemporaryFolder::make());
    DEDLOC_TRY(
        const Recording recording,
        record_collaboration(
            task, run, folder.path(), command.peers, static_cast<std::uint64_t>(command.steps)));
    Soloist soloist(task, run, recording);
    DEDLOC_TRY(outcome.difference, soloist.play());
    outcome.bit_identical = outcome.difference.states == 0 && outcome.difference.parts == 0 &&
                            outcome.difference.problem.empty();
    DEDLOC_TRY(const auto reference, train_plainly(run, recording, data, 0));
    for (std::size_t step = 0; step < reference.size(); ++step)
        outcome.by_step.push_back(
            relative_distance(replica::parameters_of(*recording.after[step]), reference[step]));
    outcome.relative = outcome.by_step.back();
    DEDLOC_TRY(const auto pieces, train_plainly(run, recording, data, micro_batches_per_step));
    outcome.torch_itself = relative_distance(pieces.back(), reference.back());
    outcome.moved = relative_distance(replica::parameters_of(*recording.after.back()),
                                      replica::parameters_of(*recording.first));
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return outcome;
}

void print_outcome(const CaseOutcome& outcome, bool json) {
    std::FILE* out = json ? stderr : stdout;
    fmt::print(out,
               "{:<10} {}  relative {:.2g} (torch in micro-batches: {:.2g}; parameters moved by "
               "{:.2g})  {:.1f} s\n",
               outcome.name,
               outcome.bit_identical ? "bit-identical" : "NOT identical",
               outcome.relative,
               outcome.torch_itself,
               outcome.moved,
               outcome.seconds);
    std::string by_step;
    for (const double distance : outcome.by_step) by_step += fmt::format(" {:.1e}", distance);
    fmt::print(out, "           after each step:{}\n", by_step);
    if (!outcome.bit_identical)
        fmt::print(out,
                   "           {} states and {} parts differ{}{}\n",
                   outcome.difference.states,
                   outcome.difference.parts,
                   outcome.difference.problem.empty() ? "" : "; ",
                   outcome.difference.problem);
    std::fflush(out);
}

}  // namespace
}  // namespace equivalence

int run_equivalence(const EquivalenceCommand& command) {
    using namespace equivalence;
    const auto begun = std::chrono::steady_clock::now();
    using optim::OptimizerKind;
    const std::vector<Case> cases = {
        {"sgd_fp32", OptimizerKind::sgd, codec::CodecId::fp32, command.rate, 0},
        {"sgd_fp16", OptimizerKind::sgd, codec::CodecId::fp16, command.rate, 0},
        {"adamw_fp32", OptimizerKind::adamw, codec::CodecId::fp32, 0.01, 0.01},
        {"lamb_fp32", OptimizerKind::lamb, codec::CodecId::fp32, 0.02, 0.01}};
    const std::string directory = command.data_directory.empty()
                                      ? std::string(tasks::fashion_mnist_directory)
                                      : command.data_directory;
    const auto data = tasks::load_fashion_mnist(directory);
    if (!data) return exit_after(data.error());
    const run::TaskConfig config = image_task();
    const tasks::TaskOptions options{
        .device = "cpu", .threads_count = 1, .data_directory = directory};
    const auto task = tasks::make_task(config, options);
    if (!task) return exit_after(task.error());

    std::map<std::string, CaseOutcome> outcomes;
    bool identical = true;
    for (const Case& wanted : cases) {
        auto outcome = run_case(wanted, command, **task, *data);
        if (!outcome) return exit_after(outcome.error().with_context(wanted.name));
        print_outcome(*outcome, command.json);
        identical = identical && outcome->bit_identical;
        outcomes[wanted.name] = *std::move(outcome);
    }
    const double relative = outcomes["sgd_fp32"].relative;
    const double relative_fp16 = outcomes["sgd_fp16"].relative;
    const bool held = identical && relative <= sgd_fp32_bound && relative_fp16 <= sgd_fp16_bound;
    if (command.json) {
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
        const nlohmann::ordered_json json{{"ok", held},
                                          {"steps", command.steps},
                                          {"peers", command.peers},
                                          {"bit_identical", identical},
                                          {"relative", relative},
                                          {"relative_fp16", relative_fp16},
                                          {"relative_torch", outcomes["sgd_fp32"].torch_itself},
                                          {"relative_adamw", outcomes["adamw_fp32"].relative},
                                          {"relative_lamb", outcomes["lamb_fp32"].relative},
                                          {"moved", outcomes["sgd_fp32"].moved},
                                          {"seconds", seconds}};
        fmt::print("{}\n", monitor::json_line(json));
    }
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
