#include "dedloc/monitor/why.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dedloc/base/columns.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/planner/explanation.h"
#include "dedloc/planner/plan.h"

namespace dedloc::monitor {
namespace {

using planner::duration_text;
using planner::rate_text;

constexpr double share_that_matters = 0.2;    // of a step
constexpr double saving_that_matters = 0.05;  // of a step
constexpr double batches_between_rounds = 8;  // of the advised local updates
constexpr double bar_cells = 24;
constexpr double element_bytes_asked = 2;  // any: the planner counts elements
constexpr double eight_bit_bytes = 1 + 4.0 / 1024;
constexpr double sparse_bytes = 88.0 / 4096;      // codec/topk.h
constexpr double low_rank_bytes = 528.0 / 16384;  // codec/low_rank.h

std::string percent_text(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string line_text(const FullLine& line) {
    return fmt::format(
        "{}'s line ({} {})", line.name, rate_text(line.bytes_per_s * 8), line.up ? "up" : "down");
}

// "3 of 4 s"
std::string of_step(double seconds, double step_s) {
    return fmt::format("{} of {}", duration_text(seconds), duration_text(step_s));
}

// The middle one of the uplinks that were measured, which counts for the others; 0: none was.
double usual_bytes_per_s(const std::vector<WhyPeer>& peers) {
    std::vector<double> measured;
    for (const WhyPeer& peer : peers)
        if (peer.upload_bytes_per_s > 0) measured.push_back(peer.upload_bytes_per_s);
    if (measured.empty()) return 0;
    const auto middle = measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 2);
    std::ranges::nth_element(measured, middle);
    return *middle;
}

// The planner's answer; nothing where lines or the vector are not known. `with_batch`: it also
// says whom a run would do without, and plans for the others.
std::optional<planner::LoadPlan> plan_of(const WhyFacts& facts, bool with_batch) {
    if (facts.vector_bytes <= 0 || usual_bytes_per_s(facts.peers) <= 0) return std::nullopt;
    planner::LoadQuestion question;
    const double usual = usual_bytes_per_s(facts.peers);
    const auto rate = [usual](double bytes_per_s) {
        return (bytes_per_s > 0 ? bytes_per_s : usual) / element_bytes_asked;
    };
    bool speeds = true;
    for (const WhyPeer& peer : facts.peers) {
        planner::PlanPeer one;
        one.name = peer.name;
        one.rates.upload_per_s = rate(peer.upload_bytes_per_s);
        one.rates.download_per_s = rate(peer.download_bytes_per_s);
        one.rates.contributes = !peer.aggregator;
        one.rates.receives = !peer.aggregator;
        one.rates.owns_allowed = peer.may_own;
        one.samples_per_s = peer.samples_per_s;
        speeds = speeds && (peer.aggregator || peer.samples_per_s > 0);
        question.peers.push_back(std::move(one));
    }
    question.elements_count = static_cast<std::uint64_t>(facts.vector_bytes / element_bytes_asked);
    question.element_bytes = element_bytes_asked;
    question.delayed = facts.run.averaging.delayed;
    if (speeds && with_batch) question.batch_samples = static_cast<double>(facts.run.batch.target);
    auto plan = planner::make_plan(question);
    return plan ? std::optional(*std::move(plan)) : std::nullopt;
}

// Compares what is with what would be; the parts of a step are as long as they are now but for what
// the advice changes.
class Adviser {
  public:
    explicit Adviser(Why& why)
        : why_(why),
          facts_(why.facts),
          parts_(why.facts.parts),
          step_s_(why.facts.parts.sum()),
          link_s_(std::min(why.facts.predicted_s, why.facts.parts.averaging_s)) {}

    void run() {
        poll();
        std::ranges::stable_sort(findings_,
                                 [](const auto& a, const auto& b) { return a.first > b.first; });
        for (auto& [seconds, text] : findings_) why_.findings.push_back(std::move(text));
        std::ranges::stable_sort(why_.advice, {}, &Advice::step_s);
    }

  private:
    void poll() {
        if (facts_.contributors < 1.5) return say_alone();
        check_averaging();
        check_waiting();
        check_computing();
        check_applying();
        check_failures();
    }
    void say_alone() {
        const bool always = facts_.contributors < 1.05;
        finding(step_s_,
                fmt::format("one peer trains alone{}: nothing is averaged{}, and more machines "
                            "make steps shorter (`dedloc invite`)",
                            always ? ""
                                   : fmt::format(" in most steps ({:.1f} peers a step)",
                                                 facts_.contributors),
                            always ? "" : " then"));
    }
    bool matters(double seconds) const { return seconds >= share_that_matters * step_s_; }
    void finding(double seconds, std::string text) {
        findings_.emplace_back(seconds, std::move(text));
    }
    void advise(const char* what, double step_s, std::string text) {
        if (step_s > step_s_ * (1 - saving_that_matters)) return;
        why_.advice.push_back({what, std::move(text), step_s});
    }
    double after_computing_s() const { return step_s_ - parts_.computing_s; }

    void check_averaging() {
        if (!matters(parts_.averaging_s)) return;
        const double rest_s = parts_.averaging_s - link_s_;
        if (link_s_ >= parts_.averaging_s / 2) {
            say_line();
        } else if (facts_.parts_known) {
            finding(parts_.averaging_s,
                    fmt::format("{} of each step are averaging, though the lines would need {}: "
                                "the rest is encoding, adding, votes and round trips, or a line "
                                "that carries less than was measured",
                                of_step(parts_.averaging_s, step_s_),
                                duration_text(link_s_)));
        } else {
            finding(rest_s,
                    fmt::format("{} of each step pass between computing and the next step, though "
                                "the lines would need {}: waiting for peers, votes, applying; "
                                "`dedloc why` in a peer's folder tells them apart",
                                of_step(after_computing_s(), step_s_),
                                duration_text(link_s_)));
        }
        advise_to_average_less();
        advise_on_lines();
    }

    void say_line() {
        const std::string whose =
            facts_.line ? "wait for " + line_text(*facts_.line) : std::string("wait for lines");
        const std::string often =
            facts_.line && facts_.line->share < 0.995
                ? fmt::format(", in {} of the plans", percent_text(facts_.line->share))
                : std::string();
        finding(link_s_,
                fmt::format("{} of each step {}{}{}",
                            of_step(link_s_, step_s_),
                            whose,
                            facts_.vector_bytes > 0 ? fmt::format(", over which {:.3g} MB go",
                                                                  facts_.vector_bytes * 1e-6)
                                                    : std::string(),
                            often));
    }

    // One average for more samples, or beside computing.
    void advise_to_average_less() {
        const run::RunFile& run = facts_.run;
        const double round_s = after_computing_s();
        if (!run.averaging.delayed && !run.local && !run.is_checked()) {
            const double step_s =
                std::max(parts_.computing_s, parts_.averaging_s + parts_.applying_s) +
                parts_.waiting_s;
            advise("delayed",
                   step_s,
                   fmt::format("averaging.delayed = true computes the next batch meanwhile: about "
                               "{} a step",
                               duration_text(step_s)));
        }
        const double every = batches_between_rounds;
        const double step_s = parts_.computing_s + round_s / every;
        if (!run.local && !run.robust)
            advise("local",
                   step_s,
                   fmt::format("local updates ([local], batch.target = {:.0f}) average once in "
                               "{:.0f} batches: about {} for as many samples",
                               every * static_cast<double>(run.batch.target),
                               every,
                               duration_text(step_s)));
        const double doubled_s = parts_.computing_s + round_s / 2;
        advise("target",
               doubled_s,
               fmt::format("batch.target = {}, twice as large, averages half as often: about {} "
                           "for as many samples",
                           2 * run.batch.target,
                           duration_text(doubled_s)));
    }

    void advise_on_lines() {
        advise_on_codec();
        advise_on_aggregator();
        advise_to_leave_out();
    }

    void advise_on_aggregator() {
        const auto plan = plan_of(facts_, /*with_batch=*/false);
        if (plan && plan->aggregator.rate_per_s <= 0 && facts_.line && matters(link_s_))
            finding(0,
                    fmt::format("an aggregator would not help: one gradient or one average fills "
                                "{}",
                                line_text(*facts_.line)));
        if (!plan || plan->aggregator.rate_per_s <= 0) return;
        // The planner's own prediction stands for as much of a step as the leaders' does.
        const double scale = plan->split.seconds > 0 ? link_s_ / plan->split.seconds : 0;
        const double saved = (plan->split.seconds - plan->aggregator.seconds_best) * scale;
        const double step_s = step_s_ - saved;
        advise(
            "aggregator",
            step_s,
            fmt::format("an aggregator (`dedloc assist`) with {} each way would bring what lines "
                        "take from {} to {}: about {} a step",
                        rate_text(plan->aggregator.rate_per_s * element_bytes_asked * 8),
                        duration_text(link_s_),
                        duration_text(link_s_ - saved),
                        duration_text(step_s)));
    }

    void advise_to_leave_out() {
        const auto plan = plan_of(facts_, /*with_batch=*/true);
        if (!plan || !plan->left_out || plan->left_out->step_seconds >= step_s_) return;
        std::string names;
        for (const std::size_t i : plan->left_out->peers)
            names += (names.empty() ? "" : ", ") + facts_.peers[i].name;
        const double step_s = plan->left_out->step_seconds;
        advise("left_out",
               step_s,
               fmt::format("without {}, whose line costs more than its samples are worth: about "
                           "{} a step{}",
                           names,
                           duration_text(step_s),
                           facts_.run.averaging.leave_out_slow
                               ? ""
                               : " (averaging.leave_out_slow = true does so)"));
    }

    void advise_on_codec() {
        const double now = element_bytes(facts_.run);
        const double then = now > 2 ? 2 : eight_bit_bytes;
        if (facts_.run.robust || then >= now) return;
        const double step_s = step_s_ - link_s_ * (1 - then / now);
        advise("codec",
               step_s,
               fmt::format("averaging.codec = \"{}\" sends {:.1f} times fewer bytes: about {} a "
                           "step",
                           now > 2 ? "fp16" : "adaptive",
                           now / then,
                           duration_text(step_s)));
    }

    // An observer sees who computes long at a time, not who was waited for.
    void check_micro_batches() {
        const auto slowest = std::ranges::max_element(facts_.peers, {}, &WhyPeer::micro_batch_s);
        if (slowest == facts_.peers.end() || !matters(slowest->micro_batch_s)) return;
        const double seconds = std::min(slowest->micro_batch_s, after_computing_s());
        finding(seconds,
                fmt::format("{} computes {} at a time, and a round waits until it has ended: a "
                            "smaller batch.micro, or \"auto\", makes that shorter",
                            slowest->name,
                            duration_text(slowest->micro_batch_s)));
    }

    void check_waiting() {
        if (!facts_.parts_known) return check_micro_batches();
        const double late_s = facts_.last ? facts_.last->seconds * facts_.last->share : 0;
        if (!matters(parts_.waiting_s) && !(facts_.last && matters(late_s))) return;
        const double waited_s = std::max(parts_.waiting_s, late_s);
        if (!facts_.last || late_s < waited_s / 4) {
            finding(waited_s,
                    fmt::format("{} of each step are waiting for the plan of a round: peers that "
                                "hand in late, or attempts that failed",
                                of_step(waited_s, step_s_)));
        } else {
            finding(waited_s,
                    fmt::format("{} of each step are waiting: {} hands in {} after all others, in "
                                "{} of the rounds",
                                of_step(waited_s, step_s_),
                                facts_.last->name,
                                duration_text(facts_.last->seconds),
                                percent_text(facts_.last->share)));
        }
        if (!facts_.last) return;
        const double step_s = step_s_ - std::min(late_s, parts_.waiting_s);
        advise("last",
               step_s,
               fmt::format("if {} handed in with the others: about {} a step. A smaller "
                           "batch.micro, or \"auto\" (it is {}), ends its last gradient sooner; "
                           "look what else its machine does",
                           facts_.last->name,
                           duration_text(step_s),
                           facts_.run.batch.micro == run::micro_auto
                               ? std::string("\"auto\"")
                               : std::to_string(facts_.run.batch.micro)));
    }

    void check_computing() {
        if (parts_.computing_s < step_s_ / 2) return;
        double sum = 0;
        const WhyPeer* fastest = nullptr;
        for (const WhyPeer& peer : facts_.peers) {
            sum += peer.samples_per_s;
            if (fastest == nullptr || peer.samples_per_s > fastest->samples_per_s) fastest = &peer;
        }
        finding(parts_.computing_s,
                fmt::format("{} of each step are computing: what more or faster machines make "
                            "shorter",
                            of_step(parts_.computing_s, step_s_)));
        if (fastest == nullptr || fastest->samples_per_s <= 0) return;
        const double then = parts_.computing_s * sum / (sum + fastest->samples_per_s);
        const double step_s = step_s_ - parts_.computing_s + then;
        advise("machine",
               step_s,
               fmt::format("one more machine like {}'s ({:.3g} samples/s): about {} a step",
                           fastest->name,
                           fastest->samples_per_s,
                           duration_text(step_s)));
    }

    void check_applying() {
        if (!facts_.parts_known || !matters(parts_.applying_s)) return;
        finding(parts_.applying_s,
                fmt::format("{} of each step are applying it on this machine: optimizer and hashes "
                            "on its processor, or averages that come late over its line",
                            of_step(parts_.applying_s, step_s_)));
        const double step_s = step_s_ - parts_.applying_s / 2;
        advise("processor",
               step_s,
               fmt::format("twice the processor time for this peer (more cores, less beside it): "
                           "about {} a step of its own",
                           duration_text(step_s)));
    }

    void check_failures() {
        if (facts_.failed_attempts >= 0.05)
            finding(facts_.failed_attempts * parts_.waiting_s,
                    fmt::format("{:.2g} attempts a step failed, and were waited for: the events "
                                "`round_failed`, `owner_failed` and `leader_suspected` say why",
                                facts_.failed_attempts));
        if (facts_.left_out >= 0.05)
            finding(0,
                    fmt::format("{:.2g} trainers a step are left out, as their lines are too slow "
                                "for what they bring",
                                facts_.left_out));
    }

    Why& why_;
    const WhyFacts& facts_;
    const StepParts parts_;
    const double step_s_;
    const double link_s_;  // of averaging: as long as the lines take
    std::vector<std::pair<double, std::string>> findings_;
};

double number_in(std::string_view text) {
    double value = 0;
    (void)std::from_chars(text.data(), text.data() + text.size(), value);
    return std::isfinite(value) && value > 0 ? value : 0;
}

// "U3dGmh=2.1/20an" (docs/events.md); empty name: it is none.
WhyPeer line_of_plan(std::string_view word, const events::PeerNames& names) {
    WhyPeer peer;
    const std::size_t equals = word.find('=');
    const std::size_t slash = word.find('/');
    if (equals == std::string_view::npos || slash == std::string_view::npos || slash < equals)
        return peer;
    peer.name = names.in(word.substr(0, equals));
    peer.upload_bytes_per_s = number_in(word.substr(equals + 1, slash - equals - 1)) / 8e-6;
    peer.download_bytes_per_s = number_in(word.substr(slash + 1)) / 8e-6;
    const std::string_view marks = word.substr(slash + 1);
    peer.aggregator = marks.find('a') != std::string_view::npos;
    peer.may_own = marks.find('n') == std::string_view::npos;
    return peer;
}

std::string bar_of(double share) {
    std::string text;
    for (int i = 0; i < std::lround(std::clamp(share, 0.0, 1.0) * bar_cells); ++i) text += "█";
    return text;
}

std::string part_line(std::string_view name, double seconds, double step_s) {
    const double share = step_s > 0 ? seconds / step_s : 0;
    return fmt::format("  {} {:>8} {:>5}  {}\n",
                       base::left_in(name, 10),
                       duration_text(seconds),
                       percent_text(share),
                       bar_of(share));
}

// From lines that are known, what leaders would have predicted.
void predict(WhyFacts& facts) {
    const auto plan = plan_of(facts, /*with_batch=*/false);
    if (!plan || plan->split.bottleneck == planner::Bottleneck::none) return;
    facts.predicted_s = plan->split.seconds;
    const WhyPeer& peer = facts.peers[plan->split.bottleneck_peer];
    const bool up = plan->split.bottleneck == planner::Bottleneck::upload;
    facts.line = FullLine{.name = peer.name,
                          .up = up,
                          .bytes_per_s = up ? peer.upload_bytes_per_s : peer.download_bytes_per_s,
                          .share = 1};
}

}  // namespace

double element_bytes(const run::RunFile& run) {
    if (!run.averaging.codec) return eight_bit_bytes;
    switch (*run.averaging.codec) {
        case codec::CodecId::fp32:
            return 4;
        case codec::CodecId::fp16:
        case codec::CodecId::bf16:
            return 2;
        case codec::CodecId::sparse:
            return sparse_bytes;
        case codec::CodecId::low_rank:
            return low_rank_bytes;
        default:
            return eight_bit_bytes;
    }
}

Why explain(WhyFacts facts) {
    if (facts.predicted_s == 0) predict(facts);
    Why why{.facts = std::move(facts), .findings = {}, .advice = {}};
    if (why.facts.steps > 0 && why.facts.parts.sum() > 0) Adviser(why).run();
    return why;
}

void WhyEvents::note_name(const std::optional<std::string>& id,
                          const std::optional<std::string>& name) {
    auto peer = PeerId::from_text(id.value_or(""));
    if (!peer) return;
    us_ = *std::move(peer);
    names_.set_name(us_, name.value_or(""));
}

void WhyEvents::add(const events::Event& event) {
    using namespace events;
    if (const auto* step = event.as<StepMade>()) {
        if (step->computing_s) steps_.push_back(*step);
        if (steps_.size() > why_steps_max) steps_.pop_front();
    } else if (const auto* plan = event.as<PlanMade>()) {
        plans_.push_back(*plan);
        if (plans_.size() > why_steps_max) plans_.pop_front();
    } else if (const auto* joined = event.as<PeerJoined>()) {
        names_.set_name(event.peer, joined->name.value_or(""));
    } else if (const auto* person = event.as<PersonSeen>()) {
        names_.set_person(event.peer.is_empty() ? us_ : event.peer, person->person);
    } else if (const auto* came = event.as<Joined>()) {
        note_name(came->id, came->name);
    } else if (const auto* began = event.as<RunStarted>()) {
        note_name(began->id, began->name);
    }
}

std::string WhyEvents::name_of(const std::string& id) const {
    const auto peer = PeerId::from_text(id);
    return peer ? names_.of(*peer) : "a peer";
}

// The line that most of the newest plans waited for.
void WhyEvents::add_lines(WhyFacts& facts) const {
    std::map<std::string, FullLine> lines;
    double plans = 0;
    for (const events::PlanMade& plan : plans_) {
        if (!plan.bottleneck || *plan.bottleneck == "none" || !plan.bottleneck_peer) continue;
        ++plans;
        FullLine& line = lines[*plan.bottleneck_peer + *plan.bottleneck];
        line.name = name_of(*plan.bottleneck_peer);
        line.up = *plan.bottleneck != "download";
        line.bytes_per_s += plan.bottleneck_mbit.value_or(0) / 8e-6;
        ++line.share;
    }
    for (auto& [key, line] : lines) {
        if (facts.line && facts.line->share >= line.share / plans) continue;
        line.bytes_per_s /= line.share;
        line.share /= plans;
        facts.line = line;
    }
}

// The one for which the others waited longest.
void WhyEvents::add_last(WhyFacts& facts) const {
    std::map<std::string, LateComer> late;
    double rounds = 0;
    for (const events::PlanMade& plan : plans_) {
        if (!plan.last_peer) continue;
        ++rounds;
        LateComer& one = late[*plan.last_peer];
        one.name = name_of(*plan.last_peer);
        one.seconds += plan.last_s.value_or(0);
        ++one.share;
    }
    double most = 0;
    for (auto& [id, one] : late) {
        if (one.seconds <= most) continue;
        most = one.seconds;
        facts.last = LateComer{one.name, one.seconds / one.share, one.share / rounds};
    }
}

// Takes those of the newest plan, with the speeds by which samples entered the model.
void WhyEvents::add_peers(WhyFacts& facts, const std::vector<CertifiedStep>& certified) const {
    std::map<std::string, double> speeds;
    const std::size_t count = std::min(certified.size(), why_steps_max);
    if (count >= 2) {
        const std::size_t first = certified.size() - count;
        const double seconds = certified.back().time - certified[first].time;
        for (std::size_t i = first + 1; i < certified.size() && seconds > 0; ++i)
            for (const CertifiedStep::Share& share : certified[i].shares)
                speeds[names_.of(share.peer)] += share.samples / seconds;
    }
    for (auto plan = plans_.rbegin(); plan != plans_.rend() && facts.peers.empty(); ++plan) {
        if (facts.vector_bytes == 0) facts.vector_bytes = plan->vector_mb.value_or(0) * 1e6;
        std::istringstream words(plan->lines.value_or(""));
        for (std::string word; words >> word;) {
            WhyPeer peer = line_of_plan(word, names_);
            if (peer.name.empty()) continue;
            if (const auto speed = speeds.find(peer.name); speed != speeds.end())
                peer.samples_per_s = speed->second;
            facts.peers.push_back(std::move(peer));
        }
    }
}

WhyFacts WhyEvents::facts(const std::vector<CertifiedStep>& certified) const {
    WhyFacts facts;
    facts.run = run_;
    if (!us_.is_empty()) facts.seen_by = names_.of(us_);
    facts.steps = steps_.size();
    const auto count = static_cast<double>(std::max<std::size_t>(steps_.size(), 1));
    for (const events::StepMade& step : steps_) {
        facts.parts.computing_s += step.computing_s.value_or(0) / count;
        facts.parts.waiting_s += step.waiting_s.value_or(0) / count;
        facts.parts.averaging_s += step.averaging_s.value_or(0) / count;
        facts.parts.applying_s += step.applying_s.value_or(0) / count;
        facts.predicted_s += step.predicted_s / count;
        facts.failed_attempts += static_cast<double>(step.attempt) / count;
        facts.left_out += static_cast<double>(step.left_out) / count;
        facts.contributors += static_cast<double>(step.contributors) / count;
    }
    add_lines(facts);
    add_last(facts);
    add_peers(facts, certified);
    return facts;
}

std::string to_text(const Why& why) {
    const WhyFacts& facts = why.facts;
    if (facts.steps == 0)
        return "no step that was made together is known yet: there is nothing to explain\n";
    const double step_s = facts.parts.sum();
    std::string text =
        fmt::format("a step takes {}, mean of {}{}\n",
                    duration_text(step_s),
                    facts.steps == 1 ? "one" : fmt::format("the last {}", facts.steps),
                    facts.seen_by.empty() ? "" : fmt::format(", as {} saw them", facts.seen_by));
    text += part_line("computing", facts.parts.computing_s, step_s);
    if (facts.parts_known) text += part_line("waiting", facts.parts.waiting_s, step_s);
    text +=
        part_line(facts.parts_known ? "averaging" : "the rest", facts.parts.averaging_s, step_s);
    if (facts.parts_known) text += part_line("applying", facts.parts.applying_s, step_s);
    for (const std::string& finding : why.findings) text += finding + "\n";
    if (!why.advice.empty()) text += "what would help, as far as can be predicted:\n";
    for (const Advice& advice : why.advice) text += "  - " + advice.text + "\n";
    return text;
}

std::string to_json(const Why& why) {
    const WhyFacts& facts = why.facts;
    nlohmann::ordered_json json{{"steps", facts.steps}, {"step_s", facts.parts.sum()}};
    if (!facts.seen_by.empty()) json["seen_by"] = facts.seen_by;
    json["computing_s"] = facts.parts.computing_s;
    if (facts.parts_known) {
        json["waiting_s"] = facts.parts.waiting_s;
        json["averaging_s"] = facts.parts.averaging_s;
        json["applying_s"] = facts.parts.applying_s;
    } else {
        json["rest_s"] = facts.parts.averaging_s;
    }
    json["predicted_s"] = facts.predicted_s;
    json["contributors"] = facts.contributors;
    json["failed_attempts"] = facts.failed_attempts;
    json["left_out"] = facts.left_out;
    json["line"] = nullptr;
    if (facts.line)
        json["line"] = {{"peer", facts.line->name},
                        {"way", facts.line->up ? "up" : "down"},
                        {"mbit", facts.line->bytes_per_s * 8e-6},
                        {"share", facts.line->share}};
    json["last"] = nullptr;
    if (facts.last)
        json["last"] = {{"peer", facts.last->name},
                        {"seconds", facts.last->seconds},
                        {"share", facts.last->share}};
    json["peers"] = nlohmann::ordered_json::array();
    for (const WhyPeer& peer : facts.peers)
        json["peers"].push_back({{"name", peer.name},
                                 {"samples_per_s", peer.samples_per_s},
                                 {"up_mbit", peer.upload_bytes_per_s * 8e-6},
                                 {"down_mbit", peer.download_bytes_per_s * 8e-6},
                                 {"aggregator", peer.aggregator}});
    json["findings"] = why.findings;
    json["advice"] = nlohmann::ordered_json::array();
    for (const Advice& advice : why.advice)
        json["advice"].push_back(
            {{"what", advice.what}, {"step_s", advice.step_s}, {"text", advice.text}});
    return json_line(json);
}

}  // namespace dedloc::monitor
