// A task of one's own: find the line y = slope·x + offset from noisy points. Its section of the run
// file says which line the points lie on. docs/write-a-task.md explains it.

#include "dedloc/base/random.h"
#include "dedloc/tasks/registry.h"
#include "dedloc/train/vector_model.h"

using namespace dedloc;

struct LineKeys {
    double slope = 2, offset = 1;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit("slope", self.slope, run::Numbers{-10, 10}, "of the line to be found");
        visit("offset", self.offset, run::Numbers{-10, 10}, "where it meets the y axis");
    }
};

class LineLearner final : public train::VectorModel {
  public:
    LineLearner(LineKeys keys, const PeerId& peer)
        : VectorModel(
              {.parameters = {{.name = "line", .offset = 0, .count = 2}}, .parameters_count = 2},
              {0, 0}),
          keys_(keys),
          peer_(std::hash<PeerId>()(peer)) {}
    // A sample is a pure function of peer and number: anybody can compute anybody's.
    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        train::GradientReport report;
        for (std::uint64_t number = samples.begin; number < samples.end; ++number) {
            base::Random random(base::mix64(peer_ ^ number));
            const double x = random.uniform(-1, 1);
            const double y = keys_.slope * x + keys_.offset + random.uniform(-0.1, 0.1);
            const double away = parameters()[0] * x + parameters()[1] - y;
            sum()[0] += static_cast<float>(away * x);
            sum()[1] += static_cast<float>(away);
            report.loss_sum += away * away / 2;
        }
        return report;
    }
    Result<collab::Evaluation> evaluate() override {
        const double away = std::max(std::abs(parameters()[0] - keys_.slope),
                                     std::abs(parameters()[1] - keys_.offset));
        return collab::Evaluation{.loss = away, .accuracy = away < 0.05 ? 1.0 : 0.0, .samples = 1};
    }

  private:
    LineKeys keys_;
    std::uint64_t peer_;
};

struct LineTask final : tasks::TrainingTask {
    explicit LineTask(LineKeys wanted) : keys(wanted) {}
    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override {
        return std::unique_ptr<train::SampledModel>(std::make_unique<LineLearner>(keys, peer));
    }
    std::string device() const override { return "cpu"; }
    std::string description() const override { return "a line through noisy points"; }
    LineKeys keys;
};

static tasks::TaskKind line_kind() {
    tasks::TaskKind kind;
    kind.name = "line";
    kind.sections = {run::section_schema<LineKeys>("line")};
    kind.run_template.settings =
        "name = \"my-line\"\n\n[task]\nkind = \"line\"\nmodel = \"line\"\ndata = \"noise\"\n\n"
        "[line]\nslope = 2.0\noffset = 1.0\n\n[batch]\ntarget = 256\nmicro = 16\n\n"
        "[optimizer]\nmomentum = 0.0\n\n[schedule]\npeak = 0.5\n\n[stop]\nsteps = "
        "60\n\n[evaluate]\nevery = 5\n";
    kind.make =
        [](const run::TaskConfig& task,
           const tasks::TaskOptions&) -> Result<std::shared_ptr<const tasks::TrainingTask>> {
        return std::shared_ptr<const tasks::TrainingTask>(
            std::make_shared<LineTask>(run::keys_of<LineKeys>(task, "line")));
    };
    return kind;
}

DEDLOC_TASK(line, line_kind());
