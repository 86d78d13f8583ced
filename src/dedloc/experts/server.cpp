#include "dedloc/experts/server.h"

#include <optional>

#include "dedloc/base/printable.h"

namespace dedloc::experts {

struct ExpertServer::Reply {
    Reply(ReplyKey of, runtime::Executor executor) : key(std::move(of)), done(executor) {}

    ReplyKey key;
    std::optional<Result<Tensors>> result;
    std::uint64_t bytes = 0;
    runtime::Event done;
};

namespace {

Error unknown_expert(std::string_view uid) {
    return make_error(ErrorKind::not_found,
                      "expert {} is not served here",
                      base::printable(uid.substr(0, uid_bytes_max)));
}

std::uint64_t buffers_of(const std::vector<wire::RuntimeTensor>& tensors) {
    std::uint64_t bytes = 0;
    for (const auto& tensor : tensors) bytes += tensor.buffer.size();
    return bytes;
}

}  // namespace

ExpertServer::ExpertServer(p2p::Host& host, runtime::Workers& device, ServerLimits limits)
    : host_(host),
      limits_(limits),
      batcher_(host.executor(), host.clock(), device, limits.batcher),
      scope_(host.executor()) {}

ExpertServer::~ExpertServer() {
    DEDLOC_CHECK(!started_ || stopped_, "stop() an ExpertServer before it is destroyed");
}

void ExpertServer::start() {
    DEDLOC_CHECK(!started_);
    started_ = true;
    host_.handle_call(info_method, [this](PeerId from, Bytes request) {
        return on_info(std::move(from), std::move(request));
    });
    host_.handle_call(forward_method, [this](PeerId from, Bytes request) {
        return on_call(Pass::forward, std::move(from), std::move(request));
    });
    host_.handle_call(backward_method, [this](PeerId from, Bytes request) {
        return on_call(Pass::backward, std::move(from), std::move(request));
    });
    host_.handle_stream(forward_stream_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
        return on_stream(Pass::forward, std::move(stream));
    });
    host_.handle_stream(backward_stream_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
        return on_stream(Pass::backward, std::move(stream));
    });
}

Task<void> ExpertServer::stop() {
    if (started_ && !stopped_)
        for (const char* method : {info_method,
                                   forward_method,
                                   backward_method,
                                   forward_stream_method,
                                   backward_stream_method})
            host_.remove_handler(method);
    stopped_ = true;
    co_await batcher_.stop();
    co_await scope_.stop();
}

Task<Result<Bytes>> ExpertServer::on_info(PeerId, Bytes request) {
    DEDLOC_CO_TRY(const auto asked, wire::decode<wire::ExpertUidMessage>(request));
    const auto backend = batcher_.find(asked.uid);
    if (!backend) {
        ++counts_.refused;
        co_return unknown_expert(asked.uid);
    }
    wire::ExpertInfoMessage info;
    info.serialized_info = encode_info(backend->schema());
    co_return wire::encode(info);
}

Task<Result<Bytes>> ExpertServer::on_call(Pass pass, PeerId from, Bytes bytes) {
    // The request and what is made of it: 8-bit numbers become four bytes each.
    DEDLOC_CO_TRY(const Batcher::Hold held, batcher_.hold(bytes.size()));
    DEDLOC_CO_TRY(wire::ExpertRequest asked, wire::decode<wire::ExpertRequest>(bytes));
    bytes = Bytes();
    Request request{
        .from = std::move(from),
        .uid = std::move(asked.uid),
        .tensors = std::move(asked.tensors),
        .id = asked.request_id,
        .timeout = std::chrono::milliseconds(std::min<std::uint64_t>(asked.timeout_ms, 3'600'000))};
    auto tensors = co_await answer(pass, std::move(request));
    if (!tensors) co_return std::move(tensors).error();
    wire::ExpertResponse response;
    response.tensors = *std::move(tensors);
    co_return wire::encode(response);
}

Task<Result<ExpertServer::Request>> ExpertServer::read_stream(p2p::MessageStream& stream,
                                                              Batcher::Hold* held) {
    Request request;
    request.from = stream.remote();
    TensorJoiner joiner(limits_.batcher.queued_bytes_max);
    std::vector<Batcher::Hold> pieces;
    for (bool first = true;; first = false) {
        auto message = co_await stream.read();
        if (!message) co_return std::move(message).error();
        if (!*message) break;
        DEDLOC_CO_TRY(Batcher::Hold piece, batcher_.hold((**message).size()));
        pieces.push_back(std::move(piece));
        DEDLOC_CO_TRY(wire::ExpertRequest part, wire::decode<wire::ExpertRequest>(**message));
        if (first) {
            request.uid = std::move(part.uid);
            request.id = part.request_id;
            request.timeout =
                std::chrono::milliseconds(std::min<std::uint64_t>(part.timeout_ms, 3'600'000));
        } else if (part.uid != request.uid) {
            co_return make_error(ErrorKind::bad_input, "one call names two experts");
        }
        for (auto& tensor : part.tensors) DEDLOC_CO_TRY_VOID(joiner.add(std::move(tensor)));
    }
    DEDLOC_CO_TRY(*held, batcher_.hold(joiner.bytes()));
    request.tensors = std::move(joiner).finish();
    co_return request;
}

Task<void> ExpertServer::on_stream(Pass pass, std::unique_ptr<p2p::MessageStream> stream) {
    Batcher::Hold held;
    auto request = co_await read_stream(*stream, &held);
    Result<std::vector<wire::RuntimeTensor>> tensors = std::vector<wire::RuntimeTensor>();
    if (request)
        tensors = co_await answer(pass, *std::move(request));
    else
        tensors = std::move(request).error();
    if (!tensors) {
        (void)co_await stream->fail(std::move(tensors).error());
        co_return;
    }
    for (auto& tensor : *tensors)
        for (auto& piece : split_for_stream(std::move(tensor))) {
            wire::ExpertResponse part;
            part.tensors.push_back(std::move(piece));
            Bytes message = wire::encode(part);
            auto written = co_await stream->write(std::move(message));
            if (!written) co_return;
        }
    (void)co_await stream->finish();
}

Task<Result<std::vector<wire::RuntimeTensor>>> ExpertServer::answer(Pass pass, Request request) {
    const auto backend = batcher_.find(request.uid);
    if (!backend) {
        ++counts_.refused;
        co_return unknown_expert(request.uid);
    }
    const ExpertSchema& schema = backend->schema();
    DEDLOC_CO_TRY(const Batcher::Hold held, batcher_.hold(buffers_of(request.tensors)));
    const auto specs = pass == Pass::forward ? schema.inputs : schema.backward_inputs();
    auto tensors = read_tensors(specs, request.tensors, limits_.batcher.batch_rows_max);
    if (tensors && !all_finite(*tensors))
        tensors = make_error(ErrorKind::bad_input, "the tensors are not finite");
    if (!tensors) {
        ++counts_.refused;
        co_return std::move(tensors).error();
    }
    request.tensors.clear();
    Result<Tensors> computed = Tensors();
    if (pass == Pass::backward && request.id != 0) {
        ReplyKey key(request.from, request.uid, request.id);
        computed = co_await apply_once(std::move(key), *std::move(tensors), request.timeout);
    } else {
        computed = co_await batcher_.submit(
            pass, request.from, request.uid, *std::move(tensors), request.timeout);
    }
    if (!computed) co_return std::move(computed).error();
    co_return write_tensors(pass == Pass::forward ? schema.outputs : schema.inputs, *computed);
}

Task<Result<ExpertServer::Tensors>> ExpertServer::apply_once(ReplyKey key,
                                                             Tensors tensors,
                                                             Duration timeout) {
    std::shared_ptr<Reply> reply;
    if (const auto found = replies_.find(key); found != replies_.end()) {
        ++counts_.repeated;
        reply = found->second;
    } else {
        reply = std::make_shared<Reply>(key, host_.executor());
        replies_.emplace(key, reply);
        reply_order_.push_back(key);
        forget_replies();
        scope_.spawn("apply a backward call", apply(reply, std::move(tensors), timeout));
    }
    co_await reply->done.wait();
    co_return *reply->result;
}

Task<void> ExpertServer::apply(std::shared_ptr<Reply> reply, Tensors tensors, Duration timeout) {
    const PeerId from = std::get<0>(reply->key);
    const std::string uid = std::get<1>(reply->key);
    auto result = co_await batcher_.submit(Pass::backward, from, uid, std::move(tensors), timeout);
    reply->result.emplace(std::move(result));
    reply->done.set();
    const auto found = replies_.find(reply->key);
    if (found == replies_.end() || found->second != reply) co_return;  // forgotten meanwhile
    if (!*reply->result) {
        replies_.erase(found);  // what was not applied may be tried again
        co_return;
    }
    reply->bytes = bytes_of(**reply->result);
    reply_bytes_ += reply->bytes;
    forget_replies();
}

void ExpertServer::forget_replies() {
    while (!reply_order_.empty() && (reply_order_.size() > limits_.replies_max ||
                                     reply_bytes_ > limits_.replies_bytes_max)) {
        const auto found = replies_.find(reply_order_.front());
        reply_order_.pop_front();
        if (found == replies_.end()) continue;
        // A reply that is still computed has no bytes yet; its waiting caller holds it.
        reply_bytes_ -= found->second->bytes;
        replies_.erase(found);
    }
}

}  // namespace dedloc::experts
