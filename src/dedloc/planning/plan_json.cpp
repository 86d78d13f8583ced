#include "dedloc/planning/plan_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"
#include "dedloc/planning/light_advice.h"
#include "dedloc/planning/plan_classes.h"

namespace dedloc::planning {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json bottleneck(const PlanFile& file, const planner::Split& split) {
    switch (split.bottleneck) {
        case planner::Bottleneck::none:
            return nullptr;
        case planner::Bottleneck::upload:
        case planner::Bottleneck::download:
            return {
                {"kind", split.bottleneck == planner::Bottleneck::upload ? "upload" : "download"},
                {"peer", file.question.peers[split.bottleneck_peer].name}};
        case planner::Bottleneck::link:
            break;
    }
    return {{"kind", "link"},
            {"peer", file.question.peers[split.bottleneck_peer].name},
            {"to", file.question.peers[split.bottleneck_to].name}};
}

Json left_out(const PlanFile& file, const planner::LoadPlan& plan) {
    if (!plan.left_out) return nullptr;
    Json names = Json::array();
    for (const std::size_t i : plan.left_out->peers)
        if (names.size() < plan_json_peers_max) names.push_back(file.question.peers[i].name);
    return {{"peers", std::move(names)},
            {"step_seconds", plan.left_out->step_seconds},
            {"step_seconds_of_all", plan.left_out->step_seconds_of_all}};
}

Json peers(const PlanFile& file, const planner::LoadPlan& plan) {
    Json list = Json::array();
    const auto traffic = planner::traffic(plan.peers, plan.split.part_elements);
    const double bytes = file.question.element_bytes;
    const std::size_t shown = std::min(plan.peers.size(), plan_json_peers_max);
    for (std::size_t i = 0; i < shown; ++i) {
        const auto part = static_cast<double>(plan.split.part_elements[i]);
        list.push_back({{"name", file.question.peers[i].name},
                        {"role", role_text(file, plan, i)},
                        {"part_elements", plan.split.part_elements[i]},
                        {"share", part / static_cast<double>(file.question.elements_count)},
                        {"sends_bytes", traffic[i].sent_elements * bytes},
                        {"receives_bytes", traffic[i].received_elements * bytes},
                        {"up_bits_per_s", plan.peers[i].upload_per_s * bytes * 8},
                        {"down_bits_per_s", plan.peers[i].download_per_s * bytes * 8}});
    }
    return list;
}

Json light(const LightAdvice& advice) {
    const bool is_light = advice.local_steps > 0;
    return {{"local_steps", advice.local_steps},
            {"codec", advice.codec},
            {"delayed", advice.delayed},
            {"batch_target", is_light ? advice.batch_target() : advice.batch},
            {"share", advice.share},
            {"share_waiting", advice.share_waiting},
            {"share_synchronous", advice.synchronous_share},
            {"round_seconds", advice.round_s},
            {"sentence", light_sentence(advice)}};
}

}  // namespace

std::string plan_json(const PlanFile& file, const planner::LoadPlan& plan) {
    const double seconds = plan.split.seconds;
    Json json{
        {"ok", true},
        {"name", file.name},
        {"seconds", seconds},
        {"elements", file.question.elements_count},
        {"element_bytes", file.question.element_bytes},
        {"peers_count", plan.peers.size()},
        {"seconds_equal", number(plan.seconds_equal)},
        {"seconds_server", number(plan.seconds_server)},
        {"speedup_over_equal", seconds > 0 ? number(plan.seconds_equal / seconds) : Json(nullptr)}};
    if (plan.has_aggregators)
        json["seconds_without"] =
            plan.seconds_without ? Json(*plan.seconds_without) : Json(nullptr);
    json["bottleneck"] = bottleneck(file, plan.split);
    json["aggregator"] = {
        {"helps", plan.aggregator.rate_per_s > 0},
        {"seconds", plan.aggregator.seconds_best},
        {"bits_per_s", plan.aggregator.rate_per_s * file.question.element_bytes * 8}};
    if (plan.computing) {
        json["left_out"] = left_out(file, plan);
        json["computing"] = {{"delayed", file.question.delayed},
                             {"steps_per_s", plan.computing->steps_per_s},
                             {"steps_per_s_if_all_compute", plan.computing->steps_per_s_of_all},
                             {"samples_per_s", plan.computing->samples_per_s},
                             {"every_choice_tried", plan.computing->every_choice_tried}};
    }
    if (const auto advice = advise_light(file)) json["light"] = light(*advice);
    json["explanation"] = plan.split.explanation;
    json["sentences"] = plan.sentences;
    json["peers"] = peers(file, plan);
    return monitor::json_line(json);
}

}  // namespace dedloc::planning
