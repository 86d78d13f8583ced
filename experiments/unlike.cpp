#include "experiments/unlike.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "dedloc/monitor/json_line.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/tensor/relative_distance.h"
#include "dedloc/train/accumulation.h"

#include "experiments/albert_miniature.h"
#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

using optim::OptimizerKind;

constexpr std::uint64_t trained_steps = 60;
constexpr std::uint64_t inner_steps[] = {1, 4, 30};
constexpr double share_of_tolerance_max = 0.2;

constexpr std::string_view pictures = R"(
name = "unlike"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 1024
micro = 32
[local]
batch = 32
)";

constexpr std::string_view bible = R"(
[batch]
target = 512
micro = 4
[local]
batch = 8
)";

struct Inner {
    OptimizerKind kind;
    double rate;
};
constexpr Inner inner_optimizers[] = {{OptimizerKind::sgd, 0.05},
                                      {OptimizerKind::adamw, 0.003},
                                      {OptimizerKind::lamb, 0.003},
                                      {OptimizerKind::muon, 0.01}};

// A contribution, as its author hands it in.
struct Contribution {
    std::string state;  // "first", "trained"
    std::string inner;  // "gradient", or an optimizer
    std::uint64_t steps = 0;
    double tolerance = 0;
    std::vector<float> sum{};
};

// Vectors in a file, each behind its length.
class NumbersFile {
  public:
    explicit NumbersFile(std::vector<std::vector<float>> vectors) : vectors_(std::move(vectors)) {}

    static std::optional<NumbersFile> read(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        std::vector<std::vector<float>> vectors;
        std::uint64_t count = 0;
        while (in.read(reinterpret_cast<char*>(&count), sizeof count)) {
            if (count > numbers_max) return std::nullopt;
            std::vector<float>& numbers = vectors.emplace_back(count);
            if (!in.read(reinterpret_cast<char*>(numbers.data()),
                         static_cast<std::streamsize>(count * sizeof(float))))
                return std::nullopt;
        }
        if (vectors.empty()) return std::nullopt;
        return NumbersFile(std::move(vectors));
    }
    bool write(const std::string& path) const {
        std::ofstream out(path, std::ios::binary);
        for (const std::vector<float>& numbers : vectors_) {
            const std::uint64_t count = numbers.size();
            out.write(reinterpret_cast<const char*>(&count), sizeof count);
            out.write(reinterpret_cast<const char*>(numbers.data()),
                      static_cast<std::streamsize>(count * sizeof(float)));
        }
        return out.flush().good();
    }
    const std::vector<std::vector<float>>& vectors() const { return vectors_; }

  private:
    static constexpr std::uint64_t numbers_max = 1u << 26;
    std::vector<std::vector<float>> vectors_;
};

class Machine {
  public:
    Machine(run::RunFile run, std::unique_ptr<train::SampledModel> model)
        : run_(std::move(run)), model_(std::move(model)) {
        run_.robust.emplace();
    }

    std::vector<float> first_parameters() {
        std::vector<float> parameters(layout().parameters_count);
        std::vector<float> buffers(layout().buffers_count);
        model_->store(parameters, buffers);
        return parameters;
    }
    // Where a way of this optimizer leads from here.
    Result<std::vector<float>> trained(std::vector<float> from) {
        DEDLOC_TRY(const Contribution way,
                   contribution("", from, inner_optimizers[1], trained_steps));
        const auto samples = static_cast<float>(trained_steps * run_.local->batch);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] -= way.sum[i] / samples;
        return from;
    }
    // `inner` none: the sum of gradients.
    Result<Contribution> contribution(std::string state,
                                      std::vector<float> parameters,
                                      std::optional<Inner> inner,
                                      std::uint64_t steps) {
        run::RunFile run = run_;
        if (inner) {
            run.local->optimizer = {};
            run.local->optimizer.kind = inner->kind;
            run.local->optimizer.schedule.peak = inner->rate;
        } else {
            run.local.reset();
        }
        const auto accumulation = train::make_accumulation(run.local, /*is_checked=*/true, *model_);
        std::vector<float> buffers(layout().buffers_count);
        DEDLOC_TRY(const auto begun,
                   replica::initial_state(run_, layout(), std::move(parameters), buffers));
        model_->at_step(0);
        accumulation->begin_at(*begun);
        const std::uint64_t samples = steps * run_.local->batch;
        for (std::uint64_t next = 0; next < samples; next += run_.batch.micro) {
            const std::uint64_t end = next + run_.batch.micro;
            DEDLOC_TRY(const auto report, model_->accumulate({next, end}));
            if (!accumulation->computed(run_.batch.micro, report.finite))
                return make_error(ErrorKind::cannot_compute, "a gradient is not finite");
        }
        Contribution made{std::move(state),
                          std::string(inner ? optim::to_string(inner->kind) : "gradient"),
                          steps,
                          run::recheck_tolerance(run)};
        made.sum.resize(layout().parameters_count);
        accumulation->take(made.sum, buffers, samples);
        return made;
    }
    // All that are compared.
    Result<std::vector<Contribution>> contributions(const std::vector<float>& first,
                                                    const std::vector<float>& trained) {
        std::vector<Contribution> all;
        for (const auto& [name, parameters] :
             {std::pair("first", &first), std::pair("trained", &trained)}) {
            DEDLOC_TRY(Contribution gradient, contribution(name, *parameters, std::nullopt, 8));
            all.push_back(std::move(gradient));
            for (const Inner& inner : inner_optimizers)
                for (const std::uint64_t steps : inner_steps) {
                    DEDLOC_TRY(Contribution way, contribution(name, *parameters, inner, steps));
                    all.push_back(std::move(way));
                }
        }
        return all;
    }

  private:
    run::Layout layout() const { return model_->layout(); }

    run::RunFile run_;
    std::unique_ptr<train::SampledModel> model_;
};

int fails(const Error& error, int code) {
    fmt::print(stderr, "dedloc: {}\n", error.message());
    return code;
}

int save(const UnlikeCommand& command, Machine& machine) {
    std::vector<float> first = machine.first_parameters();
    auto trained = machine.trained(first);
    if (!trained) return fails(trained.error(), exit_check_failed);
    auto made = machine.contributions(first, *trained);
    if (!made) return fails(made.error(), exit_check_failed);
    std::vector<std::vector<float>> vectors{std::move(first), *std::move(trained)};
    for (Contribution& each : *made) vectors.push_back(std::move(each.sum));
    if (NumbersFile(std::move(vectors)).write(command.save)) return 0;
    fmt::print(stderr, "dedloc: {} cannot be written\n", command.save);
    return exit_disk;
}

int compare(const UnlikeCommand& command, Machine& machine) {
    const auto file = NumbersFile::read(command.against);
    const std::size_t length = machine.first_parameters().size();
    const auto fits = [&](const std::vector<float>& each) { return each.size() == length; };
    if (!file || file->vectors().size() < 2 || !std::ranges::all_of(file->vectors(), fits)) {
        fmt::print(stderr, "dedloc: {} was not written with --save\n", command.against);
        return exit_bad_input;
    }
    const auto& theirs = file->vectors();
    const auto made = machine.contributions(theirs[0], theirs[1]);
    if (!made) return fails(made.error(), exit_check_failed);
    if (made->size() + 2 != theirs.size()) {
        fmt::print(stderr, "dedloc: {} is of another version\n", command.against);
        return exit_bad_input;
    }
    bool held = true;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < made->size(); ++i) {
        const Contribution& one = (*made)[i];
        const double off = tensor::relative_distance(one.sum, theirs[i + 2]);
        // No robust run takes muon: this is why.
        const bool judged = one.inner != optim::to_string(OptimizerKind::muon);
        held = held && (!judged || off <= share_of_tolerance_max * one.tolerance);
        fmt::print(
            stderr, "{:<8} {:<9} {:>3} steps  {:.2e}\n", one.state, one.inner, one.steps, off);
        rows.push_back({{"parameters", one.state},
                        {"inner", one.inner},
                        {"steps", one.steps},
                        {"distance", off},
                        {"tolerance", one.tolerance}});
    }
    const nlohmann::ordered_json json{{"ok", held}, {"rows", rows}};
    if (command.json) fmt::print("{}\n", monitor::json_line(json));
    return held ? 0 : exit_check_failed;
}

}  // namespace

int run_unlike(const UnlikeCommand& command) {
    auto run = run::parse_run_file(
        command.albert ? albert_miniature("unlike", bible) : std::string(pictures), "unlike.toml");
    DEDLOC_CHECK(run, "our own run file");
    run->task.precision = command.precision;
    const auto task = tasks::make_task(run->task,
                                       {.device = "cpu",
                                        .threads_count = command.threads,
                                        .data_directory = command.data_directory});
    if (!task) return fails(task.error(), exit_data_missing);
    run->task = (*task)->decided_config().value_or(run->task);
    auto model = (*task)->learner(PeerId());
    if (!model) return fails(model.error(), exit_check_failed);
    Machine machine(*std::move(run), *std::move(model));
    return command.save.empty() ? compare(command, machine) : save(command, machine);
}

}  // namespace dedloc::lab
