#include "dedloc/p2p/handlers.h"

#include "dedloc/base/check.h"

namespace dedloc::p2p {
namespace {

using ChildrenPtr = std::shared_ptr<runtime::Children>;

Task<void> answer_into(std::shared_ptr<Result<Bytes>> answer,
                       std::shared_ptr<const CallHandler> handler,
                       PeerId from,
                       Bytes request) {
    *answer = co_await (*handler)(std::move(from), std::move(request));
}

Task<Result<Bytes>> answer_while_open(ChildrenPtr answers,
                                      std::shared_ptr<const CallHandler> handler,
                                      PeerId from,
                                      Bytes request) {
    auto answer = std::make_shared<Result<Bytes>>(Bytes());
    Task<void> work = answer_into(answer, std::move(handler), std::move(from), std::move(request));
    if (!co_await answers->run(std::move(work)))
        co_return make_error(ErrorKind::peer_gone, "this peer ends what you asked for");
    co_return std::move(*answer);
}

Task<void> serve(std::shared_ptr<const StreamHandler> handler,
                 std::unique_ptr<MessageStream> stream) {
    co_await (*handler)(std::move(stream));
}

Task<void> serve_while_open(ChildrenPtr answers,
                            std::shared_ptr<const StreamHandler> handler,
                            std::unique_ptr<MessageStream> stream) {
    Task<void> work = serve(std::move(handler), std::move(stream));
    (void)co_await answers->run(std::move(work));
}

}  // namespace

Handlers::Handlers(Host& host)
    : host_(host), answers_(std::make_shared<runtime::Children>(host.executor())) {}

Handlers::~Handlers() {
    DEDLOC_CHECK(answers_->running() == 0, "{} handlers outlive their object", answers_->running());
}

void Handlers::on_call(const std::string& method, CallHandler handler) {
    auto shared = std::make_shared<const CallHandler>(std::move(handler));
    host_.handle_call(method, [answers = answers_, shared](PeerId from, Bytes request) {
        return answer_while_open(answers, shared, std::move(from), std::move(request));
    });
    methods_.push_back(method);
}

void Handlers::on_stream(const std::string& method, StreamHandler handler) {
    auto shared = std::make_shared<const StreamHandler>(std::move(handler));
    host_.handle_stream(method,
                        [answers = answers_, shared](std::unique_ptr<MessageStream> stream) {
                            return serve_while_open(answers, shared, std::move(stream));
                        });
    methods_.push_back(method);
}

void Handlers::on_connection(std::function<void(const PeerId&, bool)> listener) {
    host_.on_connection(
        [answers = answers_, listener = std::move(listener)](const PeerId& peer, bool connected) {
            if (!answers->stopping()) listener(peer, connected);
        });
}

Task<void> Handlers::stop() {
    for (const std::string& method : methods_) host_.remove_handler(method);
    methods_.clear();
    return answers_->stop();
}

}  // namespace dedloc::p2p
