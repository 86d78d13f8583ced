#include "dedloc/planning/light_advice.h"

#include <algorithm>
#include <array>
#include <vector>

#include "dedloc/codec/codec.h"

namespace dedloc::planning {
namespace {

constexpr std::array<std::uint64_t, 6> local_steps_tried = {
    15, usual_local_steps, 60, 125, 250, 500};
constexpr double good_share = 0.9;      // synchronous rounds are then as good as any
constexpr double waiting_share = 0.95;  // nobody need compute beside the round
constexpr double round_over_computing = 0.5;
// Plan, votes and certificate: some ten messages, one after the other, over lines of 40 ms.
constexpr double messages_s = 0.5;
constexpr codec::CodecId light_codec = codec::CodecId::sparse;

double share_of(double computing_s, double round_s, bool delayed) {
    return delayed ? std::min(1.0, computing_s / round_s) : computing_s / (computing_s + round_s);
}

class Adviser {
  public:
    explicit Adviser(const PlanFile& file) : file_(file) {
        for (const planner::PlanPeer& peer : file.question.peers) {
            peers_.push_back(peer.rates);
            planner::PeerRates& rates = peers_.back();
            rates.contributes = rates.contributes && peer.samples_per_s > 0;
            if (!rates.contributes) continue;
            ++advice_.trainers;
            samples_per_s_ += peer.samples_per_s;
        }
    }

    std::optional<LightAdvice> run() {
        if (file_.question.batch_samples <= 0 || samples_per_s_ <= 0) return std::nullopt;
        advice_.batch = file_.question.batch_samples / static_cast<double>(file_.local_steps);
        const double computing_s = advice_.batch / samples_per_s_;
        const auto dense_s = seconds_of_round(codec::codec_from_string(file_.codec).value());
        if (!dense_s) return std::nullopt;
        advice_.synchronous_share = share_of(computing_s, *dense_s, false);
        if (advice_.synchronous_share >= good_share) {
            choose(0, computing_s, *dense_s);
            advice_.codec = file_.codec;
            return advice_;
        }
        advice_.codec = file_.robust ? file_.codec : std::string(codec::to_string(light_codec));
        note_refused();
        const auto light_s = file_.robust ? dense_s : seconds_of_round(light_codec);
        if (!light_s) return std::nullopt;
        for (const std::uint64_t steps : local_steps_tried) {
            choose(steps, computing_s * static_cast<double>(steps), *light_s);
            if (advice_.round_s <= round_over_computing * computing_s * static_cast<double>(steps))
                break;
        }
        return advice_;
    }

  private:
    void choose(std::uint64_t steps, double computing_s, double round_s) {
        advice_.local_steps = steps;
        advice_.round_s = round_s;
        advice_.share_waiting = share_of(computing_s, round_s, false);
        advice_.delayed =
            steps > 0 && !file_.question.delayed_refused && advice_.share_waiting < waiting_share;
        advice_.share = share_of(computing_s, round_s, advice_.delayed);
    }

    void note_refused() {
        if (!file_.robust) return;
        advice_.refused = fmt::format(
            "[robust] refuses sparse codecs{}: nobody could compute such a contribution again.",
            file_.question.delayed_refused ? " and averaging.delayed" : "");
    }

    // Everybody who computes takes part. Nothing: it is impossible.
    std::optional<double> seconds_of_round(codec::CodecId codec) const {
        const double factor = file_.question.element_bytes / codec::bytes_per_element(codec);
        std::vector<planner::PeerRates> peers = peers_;
        expect_codec(peers, codec, file_.gather_max);
        for (planner::PeerRates& rates : peers) {
            rates.upload_per_s *= factor;
            rates.download_per_s *= factor;
        }
        std::vector<planner::LinkLimit> links = file_.question.links;
        for (planner::LinkLimit& link : links) link.per_s *= factor;
        const auto split = planner::split_elements(
            peers, file_.question.elements_count * file_.fragments, {.links = links});
        if (!split) return std::nullopt;
        return split->seconds + messages_s;
    }

    const PlanFile& file_;
    std::vector<planner::PeerRates> peers_;
    double samples_per_s_ = 0;
    LightAdvice advice_;
};

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

}  // namespace

std::optional<LightAdvice> advise_light(const PlanFile& file) { return Adviser(file).run(); }

std::string light_sentence(const LightAdvice& advice) {
    const std::string who =
        fmt::format("{} trainer{}", advice.trainers, advice.trainers == 1 ? "" : "s");
    if (advice.local_steps == 0)
        return fmt::format(
            "{}: a round after every batch leaves {} of computing time; local "
            "updates would bring little.",
            who,
            percent(advice.synchronous_share));
    const std::string waiting =
        advice.delayed ? fmt::format(" (without delayed {})", percent(advice.share_waiting)) : "";
    const bool is_dense = !advice.refused.empty();
    return fmt::format(
        "{}: {} local steps, {}{}: {} of computing time{}; synchronous: {} ([local]{}{}, "
        "batch.target = {:.0f}; docs/few-bytes.md).{}{}",
        who,
        advice.local_steps,
        is_dense ? "dense" : advice.codec,
        advice.delayed ? ", delayed" : "",
        percent(advice.share),
        waiting,
        percent(advice.synchronous_share),
        is_dense ? "" : fmt::format(", averaging.codec = \"{}\"", advice.codec),
        advice.delayed ? ", averaging.delayed = true" : "",
        advice.batch_target(),
        is_dense ? " " : "",
        advice.refused);
}

}  // namespace dedloc::planning
