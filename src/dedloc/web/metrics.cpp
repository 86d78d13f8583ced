#include "dedloc/web/metrics.h"

#include <cmath>
#include <fmt/format.h>

namespace dedloc::web {
namespace {

constexpr double bytes_of_mbit = 1e6 / 8;

std::string escaped(std::string_view text) {
    std::string out;
    for (const char letter : text) {
        if (letter == '\\' || letter == '"') out += '\\';
        if (letter == '\n')
            out += "\\n";
        else
            out += letter;
    }
    return out;
}

std::string label(std::string_view name, std::string_view value) {
    return fmt::format("{{{}=\"{}\"}}", name, escaped(value));
}

// A metric's lines: its meaning once, then a value for each set of labels.
class Text {
  public:
    void begin(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    }
    void value(double value, std::string_view labels = {}) {
        if (std::isfinite(value))
            text_ += fmt::format("{}{} {}\n", name_, labels, value);
        else
            text_ += fmt::format("{}{} NaN\n", name_, labels);
    }
    void gauge(std::string_view name, double value, std::string_view help) {
        begin(name, "gauge", help);
        this->value(value);
    }
    void counter(std::string_view name, double value, std::string_view help) {
        begin(name, "counter", help);
        this->value(value);
    }
    std::string take() && { return std::move(text_); }

  private:
    std::string name_;
    std::string text_;
};

void add_run(Text& text, const RunStore::Sums& sums) {
    const monitor::RunView& view = sums.view;
    text.begin("dedloc_build_info", "gauge", "The program that serves this; always 1.");
    text.value(1, label("version", sums.facts.version));
    text.begin("dedloc_run_info", "gauge", "The run; always 1.");
    text.value(1,
               fmt::format("{{name=\"{}\",hash=\"{}\",task=\"{}\"}}",
                           escaped(sums.facts.run.name),
                           run::run_hash(sums.facts.run).short_hex(),
                           escaped(sums.facts.run.task.kind)));
    const auto& last = sums.last;
    text.gauge("dedloc_step",
               static_cast<double>(last ? last->step : view.step),
               "Global steps that are certified, as this peer knows.");
    text.gauge("dedloc_samples",
               last ? last->samples_total : view.samples_total,
               "Samples in all certified steps of the branch.");
    text.gauge("dedloc_samples_towards_step",
               static_cast<double>(view.samples),
               "Samples that all have accumulated towards the next step.");
    text.gauge("dedloc_samples_target",
               static_cast<double>(sums.facts.run.batch.target),
               "Samples of a step (batch.target).");
    text.gauge("dedloc_samples_per_second", view.samples_per_s, "The run's speed in recent steps.");
    text.gauge("dedloc_peers", static_cast<double>(view.live_peers()), "Peers that are heard of.");
    text.gauge("dedloc_state_hashes",
               static_cast<double>(view.state_hashes()),
               "Different states among peers at the newest step: more than 1 is wrong.");
    text.gauge("dedloc_banned_peers",
               static_cast<double>(sums.banned),
               "Peers with an order against them (docs/robust-runs.md).");
    text.begin("dedloc_accuracy_ratio", "gauge", "Of the newest evaluation; NaN before the first.");
    text.value(sums.evaluated           ? sums.evaluated->accuracy
               : view.accuracy_step > 0 ? view.accuracy
                                        : std::nan(""));
}

void add_steps(Text& text, const RunStore::Sums& sums) {
    text.counter("dedloc_steps_seen_total",
                 static_cast<double>(sums.steps),
                 "Steps that this process has applied.");
    text.counter("dedloc_step_samples_total", sums.samples, "Samples in those steps.");
    text.begin("dedloc_step_time_seconds_total",
               "counter",
               "Where the time of those steps went, as this peer saw it.");
    text.value(sums.seconds.computing_s, label("part", "computing"));
    text.value(sums.seconds.waiting_s, label("part", "waiting"));
    text.value(sums.seconds.averaging_s, label("part", "averaging"));
    text.value(sums.seconds.applying_s, label("part", "applying"));
    if (!sums.last) return;
    const events::StepMade& last = *sums.last;
    text.gauge("dedloc_last_step_timestamp_seconds",
               sums.last_at,
               "When the newest step was applied, since 1970.");
    text.gauge("dedloc_last_step_seconds", last.seconds, "How long the newest step took.");
    text.gauge("dedloc_last_step_samples", last.samples, "Samples in the newest step.");
    text.gauge("dedloc_last_step_contributors",
               static_cast<double>(last.contributors),
               "Members whose samples are in the newest step.");
    text.gauge("dedloc_last_step_left_out",
               static_cast<double>(last.left_out),
               "Trainers that the newest step did without, as their lines are too slow.");
    text.gauge("dedloc_last_step_loss",
               last.loss,
               "Loss of what this peer handed in for the newest step; NaN where it did not.");
    text.gauge("dedloc_learning_rate", last.learning_rate, "Of the newest step.");
    if (last.gradient_norm)
        text.gauge("dedloc_gradient_norm", *last.gradient_norm, "Of the newest step's average.");
}

void add_peer(Text& text, const RunStore::Sums& sums) {
    text.gauge("dedloc_paused", sums.paused ? 1 : 0, "1: the user paused this peer.");
    text.begin("dedloc_cap_bytes_per_second", "gauge", "Caps of this peer's line; 0: none.");
    text.value(sums.up_mbit * bytes_of_mbit, label("direction", "up"));
    text.value(sums.down_mbit * bytes_of_mbit, label("direction", "down"));
    const membership::Status* ours = nullptr;
    for (const membership::Status& status : sums.statuses)
        if (status.peer == sums.facts.us) ours = &status;
    if (ours != nullptr) {
        text.begin("dedloc_line_bytes_per_second",
                   "gauge",
                   "What this peer measured of its line in rounds; 0: not yet.");
        text.value(ours->upload_bytes_per_s, label("direction", "up"));
        text.value(ours->download_bytes_per_s, label("direction", "down"));
        text.gauge("dedloc_computed_samples_per_second",
                   ours->samples_per_s,
                   "How fast this peer computes.");
    }
    text.begin("dedloc_events_total", "counter", "Events of the log by kind (docs/events.md).");
    for (const auto& [kind, count] : sums.events)
        text.value(static_cast<double>(count), label("kind", kind));
}

}  // namespace

std::string metrics_text(const RunStore::Sums& sums) {
    Text text;
    add_run(text, sums);
    add_steps(text, sums);
    add_peer(text, sums);
    return std::move(text).take();
}

}  // namespace dedloc::web
