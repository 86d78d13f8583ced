#include "dedloc/planning/plan_of_run.h"

#include <algorithm>
#include <vector>

#include "dedloc/events/peer_names.h"
#include "dedloc/monitor/run_view.h"
#include "dedloc/planner/plan.h"
#include "dedloc/run/vector_codecs.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::planning {
namespace {

using membership::Role;
using membership::Status;

// Bytes per second; what a peer claims beyond is no link's (as in averaging/round_planner.cpp).
constexpr double rate_least = 100;
constexpr double rate_most = 1e12;
// Runs take this for a link while nobody has measured one (averaging/environment.h).
constexpr double rate_unknown = 12.5e6;
constexpr double speed_least = 1e-6;
constexpr double speed_most = 1e9;

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

// The median of measured values.
std::optional<double> median(std::vector<double> values) {
    if (values.empty()) return std::nullopt;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// One measured number of all peers: what each has, or what stands for it, and a comment.
class Measure {
  public:
    Measure(double least, double most) : least_(least), most_(most) {}

    void add(double value) {
        if (is_measured(value)) measured_.push_back(value);
    }
    void note_median() { median_ = median(measured_); }
    std::optional<double> usual() const { return median_; }
    // `otherwise`: where nobody has measured any.
    double of(double value, double otherwise) const {
        return is_measured(value) ? value : median_.value_or(otherwise);
    }
    std::string_view remark(double value) const {
        if (is_measured(value)) return "";
        return median_ ? "  # not measured yet: the median of the others"
                       : "  # nobody has measured one yet: a guess";
    }

  private:
    bool is_measured(double value) const { return value >= least_ && value <= most_; }

    double least_;
    double most_;
    std::vector<double> measured_;
    std::optional<double> median_;
};

// The same names as in the view.
std::vector<std::string> names_of(const std::vector<Status>& peers) {
    events::PeerNames known;
    for (const Status& peer : peers) known.set_name(peer.peer, peer.name);
    std::vector<std::string> names;
    for (const Status& peer : peers) names.push_back(known.of(peer.peer));
    return names;
}

class Writer {
  public:
    Writer(const run::RunFile& run, std::span<const Status> peers) : run_(run) {
        for (const Status& peer : peers)
            if (is_planned(peer)) peers_.push_back(peer);
        for (const Status& peer : peers_) {
            // An aggregator's line says nothing of the homes that trainers are in.
            if (peer.role != Role::trainer) continue;
            up_.add(peer.upload_bytes_per_s);
            down_.add(peer.download_bytes_per_s);
            speed_.add(peer.samples_per_s);
        }
        for (Measure* each : {&up_, &down_, &speed_}) each->note_median();
    }

    std::string text(std::uint64_t elements_count) {
        text_ =
            "# A run as `dedloc watch STRING --print-plan` saw it; `dedloc plan FILE` reads it "
            "(docs/plan.md).\n";
        line("name = {}", in_quotes(monitor::printable(run_.name, monitor::view_text_bytes_max)));
        line("\n[vector]\nelements = {}", elements_count);
        codec();
        training();
        const std::vector<std::string> names = names_of(peers_);
        for (std::size_t i = 0; i < peers_.size(); ++i) peer(peers_[i], names[i]);
        return std::move(text_);
    }

  private:
    template <typename... Args>
    void line(fmt::format_string<Args...> format, Args&&... args) {
        text_ += fmt::format(format, std::forward<Args>(args)...) + '\n';
    }

    void codec() {
        const auto codec = run_.averaging.codec;
        line("codec = {}{}",
             in_quotes(codec::to_string(codec.value_or(run::codec_of_large_tensors))),
             codec ? "" : "  # \"adaptive\" in the run: that of its large tensors");
        if (run_.averaging.gather_max != codec::gather_max_usual)
            line("gather_max = {}", run_.averaging.gather_max);
    }

    void training() {
        if (!speed_.usual()) {
            line(
                "\n# No [training]: no trainer has measured its samples_per_s yet. The batch is "
                "{}.",
                run_.batch.target);
            return;
        }
        line("\n[training]\nbatch = {}\ndelayed = {}", run_.batch.target, run_.averaging.delayed);
        if (run_.local) line("local_steps = {}  # of each trainer", local_steps());
        if (run_.fragments() > 1)
            line("fragments = {}  # of the vector, one a round", run_.fragments());
        if (run_.robust) line("robust = true  # dense rounds only (docs/robust-runs.md)");
    }

    // The number is the one that `dedloc check` tells.
    std::uint64_t local_steps() const {
        const auto trainers = std::ranges::count_if(
            peers_, [](const Status& peer) { return peer.role == Role::trainer; });
        const std::uint64_t of_all = run_.local->batch * static_cast<std::uint64_t>(trainers);
        if (of_all == 0) return 1;
        return std::clamp<std::uint64_t>(run_.batch.target / of_all, 1, 1'000'000);
    }

    void rate(std::string_view key, double bytes_per_s, const Measure& way, const Measure& back) {
        const double value = way.of(bytes_per_s, back.usual().value_or(rate_unknown));
        const bool of_the_other_way = !way.usual() && back.usual();
        line("{} = \"{}\"{}",
             key,
             planner::rate_text(value * 8),
             of_the_other_way ? "  # nobody has measured one yet: the median of the other way"
                              : way.remark(bytes_per_s));
    }

    void peer(const Status& peer, const std::string& name) {
        line("\n[peers.{}]", in_quotes(name));
        line("role = \"{}\"", peer.role == Role::trainer ? "trainer" : "aggregator");
        rate("up", peer.upload_bytes_per_s, up_, down_);
        rate("down", peer.download_bytes_per_s, down_, up_);
        line("dialable = {}", peer.dialable);
        if (peer.role == Role::trainer && speed_.usual())
            line("samples_per_s = {:.6g}{}",
                 speed_.of(peer.samples_per_s, 0),
                 speed_.remark(peer.samples_per_s));
    }

    const run::RunFile& run_;
    std::vector<Status> peers_;
    Measure up_{rate_least, rate_most};
    Measure down_{rate_least, rate_most};
    Measure speed_{speed_least, speed_most};
    std::string text_;
};

}  // namespace

bool is_planned(const Status& peer) {
    return (peer.role == Role::trainer || peer.role == Role::aggregator) &&
           peer.phase != membership::Phase::leaving;
}

std::string plan_of_run(const run::RunFile& run,
                        std::span<const Status> peers,
                        std::uint64_t elements_count) {
    return Writer(run, peers).text(elements_count);
}

std::optional<std::uint64_t> vector_elements(const run::RunFile& run) {
    const tasks::TaskKind* kind = tasks::find_task(run.task.kind);
    if (kind && kind->vector_count) return kind->vector_count(run.task);
    const auto task =
        tasks::make_task(run.task, {.device = "cpu", .threads_count = 1, .unprepared = true});
    if (!task) return std::nullopt;
    const auto learner = (*task)->learner(security::Identity::generate().id());
    if (!learner) return std::nullopt;
    return (*learner)->layout().vector_count();
}

}  // namespace dedloc::planning
