#include "expert_requests.h"

#include "dedloc/experts/ffn_expert.h"
#include "dedloc/experts/mixture.h"
#include "dedloc/runtime/real.h"

namespace dedloc::interop {
namespace {

using experts::ExpertGrid;
using experts::ExpertUid;
using experts::FfnExpert;
using experts::GridScores;
using experts::Tensor;
using nlohmann::json;

experts::FfnOptions ffn_options(const json& request) {
    experts::FfnOptions options;
    options.width = request.value("width", std::size_t{16});
    options.optimizer.kind = optim::OptimizerKind::sgd;
    options.optimizer.momentum = 0;
    options.optimizer.schedule.peak = request.value("rate", 0.1);
    return options;
}

// A list of rows.
Result<Tensor> tensor_from(const json& rows) {
    if (!rows.is_array() || rows.empty() || !rows[0].is_array())
        return make_error(ErrorKind::bad_input, "no rows");
    const std::vector<std::int64_t> sample{static_cast<std::int64_t>(rows[0].size())};
    Tensor tensor = experts::zeros(rows.size(), sample);
    std::size_t at = 0;
    for (const json& row : rows)
        for (const json& number : row) tensor.values.at(at++) = number.get<float>();
    return tensor;
}

json rows_of(const Tensor& tensor) {
    json rows = json::array();
    for (std::size_t i = 0; i < tensor.rows(); ++i) rows.push_back(tensor.row(i));
    return rows;
}

std::vector<GridScores> scores_from(const json& batch) {
    std::vector<GridScores> rows;
    for (const json& row : batch) rows.push_back(row.get<GridScores>());
    return rows;
}

ExpertGrid grid_from(const json& request) {
    return {.name = request.value("grid", std::string()),
            .sizes = request.value("sizes", std::vector<std::uint32_t>())};
}

}  // namespace

ExpertRequests::ExpertRequests(p2p::Host& host, dht::DhtNode& table)
    : host_(host),
      table_(table),
      device_(runtime::real_workers(host.executor(), 1)),
      directory_(table, host.executor(), host.clock()),
      remote_(host, Random(1)) {}

TimePoint ExpertRequests::deadline() const {
    return host_.clock().now() + std::chrono::seconds(60);
}

Task<void> ExpertRequests::stop() {
    if (server_) co_await server_->stop();
}

Task<std::optional<Result<json>>> ExpertRequests::serve(json request) {
    const std::map<std::string, Task<Result<json>> (ExpertRequests::*)(json)> known = {
        {"experts_serve", &ExpertRequests::host_experts},
        {"experts_parameters", &ExpertRequests::parameters},
        {"experts_call", &ExpertRequests::call},
        {"experts_search", &ExpertRequests::search},
        {"experts_mix", &ExpertRequests::mix}};
    const auto found = known.find(request.value("do", std::string()));
    if (found == known.end()) co_return std::nullopt;
    co_return co_await (this->*found->second)(std::move(request));
}

Task<Result<json>> ExpertRequests::host_experts(json request) {
    if (!server_) {
        server_ = std::make_unique<experts::ExpertServer>(host_, *device_);
        server_->start();
    }
    std::vector<ExpertUid> uids;
    for (const json& name : request.value("uids", json::array())) {
        DEDLOC_CO_TRY(const ExpertUid uid, ExpertUid::parse(name.get<std::string>()));
        server_->batcher().add(uid.text(), std::make_shared<FfnExpert>(uid, ffn_options(request)));
        uids.push_back(uid);
    }
    const WallSeconds expiration = host_.clock().wall_now() + 3600;
    const auto declared =
        co_await directory_.declare(std::move(uids), host_.id(), expiration, deadline());
    for (const bool good : declared)
        if (!good) co_return make_error(ErrorKind::peer_gone, "an expert was not declared");
    co_return json{{"declared", declared.size()}};
}

Task<Result<json>> ExpertRequests::parameters(json request) {
    const auto backend =
        server_ ? server_->batcher().find(request.value("uid", std::string())) : nullptr;
    if (!backend) co_return make_error(ErrorKind::not_found, "no such expert here");
    const auto sections = backend->snapshot();
    co_return json{{"parameters", sections.front().values}, {"updates", backend->updates()}};
}

Task<Result<json>> ExpertRequests::call(json request) {
    DEDLOC_CO_TRY(const ExpertUid uid, ExpertUid::parse(request.value("uid", std::string())));
    std::vector<ExpertUid> uids{uid};
    const auto servers =
        co_await directory_.find(std::move(uids), dht::Freshness::latest, deadline());
    if (!servers.front()) co_return servers.front().error();
    if (!*servers.front()) co_return make_error(ErrorKind::not_found, "nobody serves it");
    const experts::Location location{.uid = uid, .server = **servers.front()};
    DEDLOC_CO_TRY(Tensor inputs, tensor_from(request["inputs"]));
    std::vector<Tensor> forward_inputs{inputs};
    auto outputs = co_await remote_.forward(location, std::move(forward_inputs));
    if (!outputs) co_return std::move(outputs).error();
    json answer{{"outputs", rows_of(outputs->front())}};
    if (!request.contains("gradients")) co_return answer;
    DEDLOC_CO_TRY(Tensor outer, tensor_from(request["gradients"]));
    std::vector<Tensor> again{std::move(inputs)};
    std::vector<Tensor> gradients{std::move(outer)};
    auto inner = co_await remote_.backward(location, std::move(again), std::move(gradients));
    if (!inner) co_return std::move(inner).error();
    answer["gradients"] = rows_of(inner->front());
    co_return answer;
}

Task<Result<json>> ExpertRequests::search(json request) {
    const experts::BeamOptions beam{.best = request.value("best", std::size_t{4}),
                                    .width = request.value("beam", std::size_t{0})};
    std::vector<GridScores> scores = scores_from(request["scores"]);
    const auto chosen = co_await experts::beam_search(
        directory_, grid_from(request), std::move(scores), beam, deadline());
    json rows = json::array();
    for (const auto& row : chosen) {
        json& names = rows.emplace_back(json::array());
        for (const auto& choice : row) names.push_back(choice.location.uid.text());
    }
    co_return json{{"chosen", rows}};
}

Task<Result<json>> ExpertRequests::mix(json request) {
    experts::MixtureOptions options;
    options.grid = grid_from(request);
    options.best = request.value("best", std::size_t{4});
    options.beam_width = 64;
    experts::MixtureClient mixture(host_, directory_, remote_, options);
    DEDLOC_CO_TRY(Tensor inputs, tensor_from(request["inputs"]));
    DEDLOC_CO_TRY(Tensor outer, tensor_from(request["gradients"]));
    std::vector<GridScores> scores = scores_from(request["scores"]);
    auto passed = co_await mixture.forward(std::move(inputs), std::move(scores));
    if (!passed) co_return std::move(passed).error();
    json answer{{"outputs", rows_of(passed->outputs)}, {"lost", passed->any_lost()}};
    auto gradients = co_await mixture.backward(*std::move(passed), std::move(outer));
    answer["gradients"] = rows_of(gradients.inputs);
    answer["score_gradients"] = gradients.scores;
    co_return answer;
}

}  // namespace dedloc::interop
