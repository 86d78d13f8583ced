#include "dedloc/experts/remote_experts.h"

#include <algorithm>

#include "dedloc/experts/server.h"
#include "dedloc/runtime/deadline.h"

namespace dedloc::experts {

RemoteExperts::RemoteExperts(p2p::Host& host, Random random, RemoteLimits limits)
    : host_(host), random_(random), limits_(limits) {}

Duration RemoteExperts::timeout(const Location& expert, Pass pass) const {
    const auto pace = paces_.find(Key(expert.server, expert.uid.text()));
    const Duration took =
        pace == paces_.end() ? Duration(0) : pace->second.took[static_cast<std::size_t>(pass)];
    if (took.count() == 0) return limits_.deadline_max;
    const Duration allowed = from_seconds(limits_.deadline_factor * to_seconds(took));
    return std::clamp(allowed, limits_.deadline_min, limits_.deadline_max);
}

bool RemoteExperts::rests(const PeerId& server) const {
    const auto rest = rests_.find(server);
    return rest != rests_.end() && host_.clock().now() < rest->second.until;
}

void RemoteExperts::let_rest(const PeerId& server, TimePoint begun) {
    Rest& rest = rests_[server];
    // The call was on its way when the last failure was noticed: of the same incident.
    if (rest.incidents > 0 && begun <= rest.noticed) return;
    rest.noticed = host_.clock().now();
    rest.incidents = std::min(rest.incidents + 1, 10);
    const Duration length = limits_.rest_min * (1 << (rest.incidents - 1));
    rest.until = rest.noticed + std::min(length, limits_.rest_max);
}

void RemoteExperts::note(const Location& expert, Pass pass, TimePoint begun, const Error* error) {
    const Duration took = host_.clock().now() - begun;
    ServerRecord& record = records_[expert.server];
    if (!error) {
        ++record.answered;
        rests_.erase(expert.server);
    } else {
        switch (error->kind()) {
            case ErrorKind::timeout:
                ++record.late;
                break;
            case ErrorKind::peer_gone:
                ++record.gone;
                break;
            case ErrorKind::overloaded:
                ++record.overloaded;
                return;  // it said so at once: no sign of slowness, and others may have room
            case ErrorKind::peer_broke_protocol:
                return;  // counted where it was found
            default:
                ++record.refused;
                return;
        }
        let_rest(expert.server, begun);
        if (error->kind() == ErrorKind::peer_gone) return;
    }
    // A late call took at least so long; so the next one may take longer.
    if (paces_.size() >= limits_.schemas_max) paces_.erase(paces_.begin());
    Duration& pace =
        paces_[Key(expert.server, expert.uid.text())].took[static_cast<std::size_t>(pass)];
    pace = smoothed(pace, std::max(took, Duration(1)));
}

Task<Result<ExpertSchema>> RemoteExperts::schema(Location expert, TimePoint deadline) {
    Key key(expert.server, expert.uid.text());
    if (const auto known = schemas_.find(key); known != schemas_.end()) co_return known->second;
    const TimePoint begun = host_.clock().now();
    wire::ExpertUidMessage request;
    request.uid = key.second;
    auto answer = co_await host_.call(expert.server, info_method, wire::encode(request), deadline);
    if (!answer) {
        note(expert, Pass::forward, begun, &answer.error());
        co_return std::move(answer).error();
    }
    auto message = wire::decode<wire::ExpertInfoMessage>(*answer);
    Result<ExpertSchema> schema = make_error(ErrorKind::bad_input, "no description came");
    if (message) schema = decode_info(message->serialized_info);
    if (!schema) {
        ++records_[expert.server].wrong_shape;
        co_return make_error(ErrorKind::peer_broke_protocol,
                             "server {} describes expert {} in a way nobody can read: {}",
                             expert.server.short_text(),
                             key.second,
                             schema.error().message());
    }
    if (schemas_.size() >= limits_.schemas_max) schemas_.erase(schemas_.begin());
    schemas_.emplace(std::move(key), *schema);
    co_return schema;
}

Task<Result<std::vector<Tensor>>> RemoteExperts::forward(Location expert,
                                                         std::vector<Tensor> inputs) {
    return call(std::move(expert), Pass::forward, std::move(inputs), 0);
}

Task<Result<std::vector<Tensor>>> RemoteExperts::backward(Location expert,
                                                          std::vector<Tensor> inputs,
                                                          std::vector<Tensor> output_gradients) {
    for (Tensor& gradient : output_gradients) inputs.push_back(std::move(gradient));
    std::uint64_t id = 0;
    while (id == 0) id = random_.next();
    return call(std::move(expert), Pass::backward, std::move(inputs), id);
}

Task<Result<std::vector<Tensor>>> RemoteExperts::call(Location expert,
                                                      Pass pass,
                                                      std::vector<Tensor> tensors,
                                                      std::uint64_t request_id) {
    const TimePoint begun = host_.clock().now();
    const Duration may_take = timeout(expert, pass);
    const TimePoint deadline = begun + may_take;
    DEDLOC_CO_TRY(const ExpertSchema schema, co_await this->schema(expert, deadline));
    const bool is_forward = pass == Pass::forward;
    const auto specs = is_forward ? schema.inputs : schema.backward_inputs();
    DEDLOC_CO_TRY(const std::size_t rows, check_tensors(specs, tensors, limits_.rows_max));
    wire::ExpertRequest request;
    request.uid = expert.uid.text();
    request.request_id = request_id;
    request.timeout_ms = static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(may_take).count()));
    DEDLOC_CO_TRY(request.tensors, write_tensors(specs, tensors));
    tensors.clear();
    Result<std::vector<wire::RuntimeTensor>> answer = std::vector<wire::RuntimeTensor>();
    for (int tries = 0; tries < 2; ++tries) {
        wire::ExpertRequest copy = request;
        answer = co_await exchange(expert.server, pass, std::move(copy), deadline);
        // Only with an id may it be asked twice, and only if the connection was lost.
        const bool lost = !answer && answer.error().kind() == ErrorKind::peer_gone;
        if (!lost || request_id == 0 || host_.clock().now() >= deadline) break;
    }
    if (!answer) {
        note(expert, pass, begun, &answer.error());
        co_return std::move(answer).error();
    }
    auto result = checked(expert, is_forward ? schema.outputs : schema.inputs, *answer, rows);
    note(expert, pass, begun, result ? nullptr : &result.error());
    co_return result;
}

Result<std::vector<Tensor>> RemoteExperts::checked(const Location& expert,
                                                   const std::vector<TensorSpec>& specs,
                                                   const std::vector<wire::RuntimeTensor>& answer,
                                                   std::size_t rows) {
    auto tensors = read_tensors(specs, answer, limits_.rows_max);
    ServerRecord& record = records_[expert.server];
    if (!tensors || tensors->front().rows() != rows) {
        ++record.wrong_shape;
        return make_error(ErrorKind::peer_broke_protocol,
                          "server {} answers for expert {} with other tensors than it said: {}",
                          expert.server.short_text(),
                          expert.uid.text(),
                          tensors ? "another number of rows" : tensors.error().message());
    }
    if (!all_finite(*tensors)) {
        ++record.not_finite;
        return make_error(ErrorKind::peer_broke_protocol,
                          "server {} answers for expert {} with numbers that are not finite",
                          expert.server.short_text(),
                          expert.uid.text());
    }
    return tensors;
}

Task<Result<std::vector<wire::RuntimeTensor>>> RemoteExperts::exchange(PeerId server,
                                                                       Pass pass,
                                                                       wire::ExpertRequest request,
                                                                       TimePoint deadline) {
    std::size_t bytes = 0;
    for (const auto& tensor : request.tensors) bytes += tensor.buffer.size();
    if (bytes > unary_bytes_max)
        co_return co_await runtime::with_deadline(
            host_.clock(),
            deadline,
            "a call of an expert",
            stream(std::move(server), pass, std::move(request), deadline));
    const char* method = pass == Pass::forward ? forward_method : backward_method;
    auto answer = co_await host_.call(server, method, wire::encode(request), deadline);
    if (!answer) co_return std::move(answer).error();
    auto response = wire::decode<wire::ExpertResponse>(*answer);
    // A response that cannot be read has no tensors; the check of shapes says so.
    co_return response ? std::move(response->tensors) : std::vector<wire::RuntimeTensor>();
}

Task<Result<std::vector<wire::RuntimeTensor>>> RemoteExperts::stream(PeerId server,
                                                                     Pass pass,
                                                                     wire::ExpertRequest request,
                                                                     TimePoint deadline) {
    const char* method = pass == Pass::forward ? forward_stream_method : backward_stream_method;
    DEDLOC_CO_TRY(const auto stream, co_await host_.open_stream(server, method, deadline));
    for (auto& tensor : request.tensors)
        for (auto& piece : split_for_stream(std::move(tensor))) {
            wire::ExpertRequest part;
            part.uid = request.uid;
            part.request_id = request.request_id;
            part.timeout_ms = request.timeout_ms;
            part.tensors.push_back(std::move(piece));
            Bytes message = wire::encode(part);
            DEDLOC_CO_TRY_VOID(co_await stream->write(std::move(message)));
        }
    DEDLOC_CO_TRY_VOID(co_await stream->finish());
    TensorJoiner joiner(tensor_bytes_max);
    for (;;) {
        auto message = co_await stream->read();
        if (!message) co_return std::move(message).error();
        if (!*message) break;
        auto part = wire::decode<wire::ExpertResponse>(**message);
        if (!part) break;  // what has come does not fit the schema then
        for (auto& tensor : part->tensors)
            if (!joiner.add(std::move(tensor))) co_return std::vector<wire::RuntimeTensor>();
    }
    co_return std::move(joiner).finish();
}

}  // namespace dedloc::experts
