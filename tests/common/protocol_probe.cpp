#include "tests/common/protocol_probe.h"

#include "dedloc/runtime/deadline.h"

namespace dedloc::lab {
namespace {

constexpr Duration probe_timeout = 10s;
constexpr Duration silence_is_consent = 1s;

}  // namespace

Task<Result<bool>> probe_protocol(p2p::Host& host, PeerId to, std::string method) {
    const TimePoint deadline = host.clock().now() + probe_timeout;
    std::string streamed = method;
    Bytes question(3, 1);
    Bytes message = question;
    auto answer = co_await host.call(to, std::move(method), std::move(question), deadline);
    if (answer) co_return true;
    if (is_refused_by_gate(answer.error())) co_return std::move(answer).error();
    // The protocol may be one that is spoken over a stream, where a call makes no sense.
    auto stream = co_await host.open_stream(to, std::move(streamed), deadline);
    if (!stream) co_return std::move(stream).error();
    (void)co_await (*stream)->write(std::move(message));
    (void)co_await (*stream)->finish();
    Task<Result<std::optional<SharedBytes>>> reading = (*stream)->read();
    const TimePoint until = host.clock().now() + silence_is_consent;
    auto read =
        co_await runtime::with_deadline(host.clock(), until, "an answer", std::move(reading));
    if (!read) co_return std::move(read).error();
    co_return true;
}

bool is_refused_by_gate(const Error& error) {
    return error.kind() == ErrorKind::denied &&
           (error.message().find("say hello first") != std::string::npos ||
            error.message().find("revoked") != std::string::npos);
}

}  // namespace dedloc::lab
