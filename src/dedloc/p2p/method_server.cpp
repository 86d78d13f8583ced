#include "dedloc/p2p/method_server.h"

#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/p2p/rpc.h"

namespace dedloc::p2p {

// ------------------------------------------------------------------------------------------ loads

StreamLoads::Guard::Guard(StreamLoads& loads, PeerId peer) : loads_(loads), peer_(std::move(peer)) {
    ++load().tasks;
}

StreamLoads::Guard::~Guard() {
    Load& all = load();
    all.handlers -= mine_.handlers;
    all.pings -= mine_.pings;
    all.kads -= mine_.kads;
    all.pushes -= mine_.pushes;
    if (--all.tasks == 0) loads_.peers_.erase(peer_);
}

bool StreamLoads::Guard::becomes_handler() {
    mine_.handlers = 1;
    return ++load().handlers <= handlers_per_peer_max;
}

bool StreamLoads::Guard::becomes_ping() {
    mine_.pings = 1;
    return ++load().pings <= ping_streams_per_peer_max;
}

bool StreamLoads::Guard::becomes_kad() {
    mine_.kads = 1;
    return ++load().kads <= kad_streams_per_peer_max;
}

bool StreamLoads::Guard::becomes_push() {
    mine_.pushes = 1;
    return ++load().pushes <= identify_pushes_per_peer_max;
}

std::size_t StreamLoads::streams_of(const PeerId& peer) const {
    const auto found = peers_.find(peer);
    return found == peers_.end() ? 0 : found->second.tasks;
}

// ---------------------------------------------------------------------------------------- methods

void MethodServer::add(const std::string& method, Handler handler) {
    DEDLOC_CHECK(!handlers_.contains(method), "two handlers for \"{}\"", method);
    DEDLOC_CHECK(handlers_.size() < handlers_max);
    handler.method = method;
    handlers_.emplace(method, std::make_shared<Handler>(std::move(handler)));
    on_change_();
}

void MethodServer::remove(const std::string& method) {
    if (handlers_.erase(method) > 0) on_change_();
}

void MethodServer::handle_call(const std::string& method, CallHandler handler) {
    add(method, {.method = {}, .call = std::move(handler), .stream = nullptr});
}

void MethodServer::handle_stream(const std::string& method, StreamHandler handler) {
    add(method, {.method = {}, .call = nullptr, .stream = std::move(handler)});
}

std::vector<std::string> MethodServer::methods() const {
    std::vector<std::string> methods;
    for (const auto& [method, handler] : handlers_) methods.push_back(method);
    return methods;
}

// ---------------------------------------------------------------------------------------- serving

Task<void> MethodServer::serve(std::string method,
                               std::shared_ptr<transport::Stream> stream,
                               std::shared_ptr<Serving> serving,
                               bool overloaded) {
    const HandlerPtr handler = handlers_.at(method);
    stream->set_deadline(TimePoint::never());
    if (handler->call)
        co_await serve_call(stream, serving, handler, overloaded);
    else
        co_await serve_stream(stream, serving, handler, overloaded);
}

Task<void> MethodServer::serve_call(std::shared_ptr<transport::Stream> stream,
                                    std::shared_ptr<Serving> serving,
                                    HandlerPtr handler,
                                    bool overloaded) {
    stream->set_deadline(clock_.now() + call_request_max);
    const PeerId caller = stream->remote();
    if (swarm_.strangers().contain(caller))
        stream->set_deadline(clock_.now() + stranger_request_max);
    auto request = co_await read_call(*stream);
    if (!request) co_return;
    const wire::CallId id = request->id;
    Result<Bytes> answer = Error(ErrorKind::overloaded, "too many calls from you are being served");
    if (const Ok admitted = gate_.may_speak(caller, handler->method); !admitted) {
        answer = admitted.error();
    } else if (!overloaded) {
        // Any byte, end or reset from here on means that the caller has given up.
        const auto cancel = [this, serving] { scope_.cancel_task(serving->task); };
        stream->watch(cancel, /*failures_only=*/false);
        answer = co_await handler->call(stream->remote(), std::move(request->data));
        stream->unwatch();
    }
    stream->set_deadline(clock_.now() + call_answer_max);
    Bytes answered = encode_answer(id, answer);
    swarm_.strangers().spend(caller, {.work = answer_cost, .bytes = answered.size()});
    stream->write(std::move(answered));
    stream->finish();
    auto sent = co_await stream->sent();
    if (!sent) stream->reset();
}

Task<void> MethodServer::serve_stream(std::shared_ptr<transport::Stream> stream,
                                      std::shared_ptr<Serving> serving,
                                      HandlerPtr handler,
                                      bool overloaded) {
    auto messages = make_message_stream(stream);
    if (overloaded) {
        Error error(ErrorKind::overloaded, "too many streams from you are being served");
        auto failed = co_await messages->fail(std::move(error));
        co_return;
    }
    if (Ok admitted = gate_.may_speak(stream->remote(), handler->method); !admitted) {
        stream->set_deadline(clock_.now() + call_answer_max);
        Error error = std::move(admitted).error();
        auto failed = co_await messages->fail(std::move(error));
        co_return;
    }
    const auto cancel = [this, serving] { scope_.cancel_task(serving->task); };
    stream->watch(cancel, /*failures_only=*/true);
    co_await handler->stream(std::move(messages));
}

}  // namespace dedloc::p2p
