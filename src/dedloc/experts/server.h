// ExpertServer: answers hivemind's calls of experts, from this process's backends.
//
//   ConnectionHandler.rpc_info              call    ExpertUID -> ExpertInfo
//   ConnectionHandler.rpc_forward           call    ExpertRequest -> ExpertResponse
//   ConnectionHandler.rpc_backward          call    likewise; updates the expert
//   ConnectionHandler.rpc_forward_stream    stream  pieces of tensors both ways
//   ConnectionHandler.rpc_backward_stream   stream
// (docs/experts.md)
//
// A request is refused before anything is read from its tensors when a shape does not fit the
// expert's schema. Numbers that are not finite are refused, too. A backward call with a request id
// is applied once: whoever repeats it (the first answer was lost) gets the same answer, from up to
// replies_max kept ones of replies_bytes_max bytes; it also goes on when its caller leaves, since
// nobody knows whether it will be repeated.
//
// Errors to callers: not_found, bad_input, overloaded, timeout, cannot_compute.
// Lifetime: host, clock and device outlive it; stop() before it is destroyed.
// Thread: the network thread.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "dedloc/experts/batcher.h"
#include "dedloc/p2p/host.h"

namespace dedloc::experts {

inline constexpr char info_method[] = "ConnectionHandler.rpc_info";
inline constexpr char forward_method[] = "ConnectionHandler.rpc_forward";
inline constexpr char backward_method[] = "ConnectionHandler.rpc_backward";
inline constexpr char forward_stream_method[] = "ConnectionHandler.rpc_forward_stream";
inline constexpr char backward_stream_method[] = "ConnectionHandler.rpc_backward_stream";

struct ServerLimits {
    BatcherLimits batcher;
    std::size_t replies_max = 4096;               // of backward calls
    std::uint64_t replies_bytes_max = 64u << 20;  // likewise
};

struct ServerCounts {
    std::uint64_t refused = 0;   // shapes, numbers, names
    std::uint64_t repeated = 0;  // backward calls answered without being applied again
};

class ExpertServer {
  public:
    ExpertServer(p2p::Host& host, runtime::Workers& device, ServerLimits limits = {});
    ~ExpertServer();
    ExpertServer(const ExpertServer&) = delete;
    ExpertServer& operator=(const ExpertServer&) = delete;

    void start();
    Task<void> stop();

    Batcher& batcher() { return batcher_; }
    const Batcher& batcher() const { return batcher_; }
    const ServerCounts& counts() const { return counts_; }

  private:
    struct Reply;
    using Tensors = std::vector<Tensor>;
    using ReplyKey = std::tuple<PeerId, std::string, std::uint64_t>;
    struct Request {
        PeerId from;
        std::string uid;
        std::vector<wire::RuntimeTensor> tensors;
        std::uint64_t id = 0;
        Duration timeout{0};
    };

    Task<Result<Bytes>> on_info(PeerId from, Bytes request);
    Task<Result<Bytes>> on_call(Pass pass, PeerId from, Bytes request);
    Task<void> on_stream(Pass pass, std::unique_ptr<p2p::MessageStream> stream);
    Task<Result<Request>> read_stream(p2p::MessageStream& stream, Batcher::Hold* held);
    // The answer's messages, compressed as the schema says.
    Task<Result<std::vector<wire::RuntimeTensor>>> answer(Pass pass, Request request);
    Task<Result<Tensors>> apply_once(ReplyKey key, Tensors tensors, Duration timeout);
    Task<void> apply(std::shared_ptr<Reply> reply, Tensors tensors, Duration timeout);
    void forget_replies();

    p2p::Host& host_;
    ServerLimits limits_;
    Batcher batcher_;
    std::map<ReplyKey, std::shared_ptr<Reply>> replies_;
    std::deque<ReplyKey> reply_order_;
    std::uint64_t reply_bytes_ = 0;
    ServerCounts counts_;
    bool started_ = false;
    bool stopped_ = false;
    runtime::Scope scope_;
};

}  // namespace dedloc::experts
