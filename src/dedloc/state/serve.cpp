#include <utility>

#include "dedloc/runtime/deadline.h"
#include "dedloc/state/state_messages.h"
#include "dedloc/state/transfer.h"

namespace dedloc::state {

struct StateServer::State {
    State(p2p::Host& given_host, SnapshotStore& given_store, Gate given_gate, ServeLimits given)
        : clock(given_host.clock()),
          store(&given_store),
          gate(std::move(given_gate)),
          limits(given) {}

    runtime::Clock& clock;
    SnapshotStore* store;  // nullptr once the server is gone
    Gate gate;
    ServeLimits limits;
    std::map<PeerId, std::size_t> lanes_of;
    std::size_t lanes = 0;
    std::uint64_t bytes_sent = 0;
    std::uint64_t refused = 0;

    Ok may_ask(const PeerId& peer) const {
        if (!store) return make_error(ErrorKind::peer_gone, "this peer stops serving states");
        if (gate && !gate(peer))
            return make_error(
                ErrorKind::denied, "peer {} may not ask for states here", peer.short_text());
        return {};
    }

    Ok may_open_lane(const PeerId& peer) {
        DEDLOC_TRY_VOID(may_ask(peer));
        const auto own = lanes_of.find(peer);
        if (lanes < limits.lanes_max &&
            (own == lanes_of.end() || own->second < limits.lanes_per_peer_max))
            return {};
        ++refused;
        return make_error(ErrorKind::overloaded,
                          "this donor already serves {} lanes; ask another one or later",
                          lanes);
    }

    Result<std::shared_ptr<const PublishedState>> pinned(const Digest& root) {
        if (!store) return make_error(ErrorKind::peer_gone, "this peer stops serving states");
        auto state = store->pin(root);
        if (!state)
            return make_error(
                ErrorKind::not_found, "state {} is not here (any more)", root.short_hex());
        return state;
    }

    Result<Bytes> manifest_for(ByteView request) {
        DEDLOC_TRY(const ManifestRequest asked, wire::decode<ManifestRequest>(request));
        DEDLOC_TRY(const auto state, pinned(asked.root));
        return wire::encode(state->manifest);
    }

    Result<Bytes> chunk_for(ByteView request) {
        DEDLOC_TRY(const ChunkRequest asked, wire::decode<ChunkRequest>(request));
        DEDLOC_TRY(const auto state, pinned(asked.root));
        if (asked.index >= state->manifest.chunks_count())
            return make_error(ErrorKind::bad_input,
                              "state {} has no chunk {}",
                              asked.root.short_hex(),
                              asked.index);
        return chunk(*state->snapshot, static_cast<std::size_t>(asked.index));
    }
};

namespace {

using ServerState = StateServer::State;

// Counts a lane as long as it lives.
class LaneSlot {
  public:
    LaneSlot(std::shared_ptr<ServerState> state, PeerId peer)
        : state_(std::move(state)), peer_(std::move(peer)) {
        ++state_->lanes;
        ++state_->lanes_of[peer_];
    }
    ~LaneSlot() {
        --state_->lanes;
        const auto own = state_->lanes_of.find(peer_);
        if (--own->second == 0) state_->lanes_of.erase(own);
    }
    LaneSlot(const LaneSlot&) = delete;
    LaneSlot& operator=(const LaneSlot&) = delete;

  private:
    std::shared_ptr<ServerState> state_;
    PeerId peer_;
};

Task<Result<Bytes>> answer_manifest(std::shared_ptr<ServerState> state,
                                    PeerId from,
                                    Bytes request) {
    DEDLOC_CO_TRY_VOID(state->may_ask(from));
    co_return state->manifest_for(request);
}

Task<void> end_lane(std::shared_ptr<ServerState> state,
                    std::unique_ptr<p2p::MessageStream> stream,
                    Error error) {
    const TimePoint until = state->clock.now() + state->limits.request_wait_max;
    Task<Result<void>> failing = stream->fail(std::move(error));
    (void)co_await runtime::with_deadline(state->clock, until, "ending a lane", std::move(failing));
}

Task<void> serve_lane(std::shared_ptr<ServerState> state,
                      std::unique_ptr<p2p::MessageStream> stream) {
    const PeerId peer = stream->remote();
    if (Ok allowed = state->may_open_lane(peer); !allowed) {
        co_await end_lane(state, std::move(stream), std::move(allowed).error());
        co_return;
    }
    const LaneSlot slot(state, peer);
    while (true) {
        const TimePoint ask_until = state->clock.now() + state->limits.request_wait_max;
        Task<Result<std::optional<SharedBytes>>> reading = stream->read();
        auto request = co_await runtime::with_deadline(
            state->clock, ask_until, "a request for a chunk", std::move(reading));
        if (!request || !request->has_value()) co_return;
        Result<Bytes> answer = state->chunk_for(**request);
        if (!answer) {
            co_await end_lane(state, std::move(stream), std::move(answer).error());
            co_return;
        }
        const std::size_t size = answer->size();
        const TimePoint send_until = state->clock.now() + state->limits.send_wait_max;
        Task<Result<void>> writing = stream->write(*std::move(answer));
        auto sent = co_await runtime::with_deadline(
            state->clock, send_until, "sending a chunk", std::move(writing));
        if (!sent) co_return;
        state->bytes_sent += size;
    }
}

}  // namespace

StateServer::StateServer(p2p::Host& host, SnapshotStore& store, Gate gate, ServeLimits limits)
    : host_(host), state_(std::make_shared<State>(host, store, std::move(gate), limits)) {
    host_.handle_call(manifest_method, [state = state_](PeerId from, Bytes request) {
        return answer_manifest(state, std::move(from), std::move(request));
    });
    host_.handle_stream(chunk_method, [state = state_](std::unique_ptr<p2p::MessageStream> stream) {
        return serve_lane(state, std::move(stream));
    });
}

StateServer::~StateServer() {
    host_.remove_handler(manifest_method);
    host_.remove_handler(chunk_method);
    state_->store = nullptr;
}

std::size_t StateServer::lanes() const { return state_->lanes; }
std::uint64_t StateServer::bytes_sent() const { return state_->bytes_sent; }
std::uint64_t StateServer::refused() const { return state_->refused; }

}  // namespace dedloc::state
