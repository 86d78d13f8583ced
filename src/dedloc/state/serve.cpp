#include <utility>

#include "dedloc/base/bits.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/state/state_messages.h"
#include "dedloc/state/transfer.h"

namespace dedloc::state {

struct StateServer::State {
    State(p2p::Host& given_host, SnapshotStore& given_store, Gate given_gate, ServeLimits given)
        : clock(given_host.clock()),
          store(&given_store),
          gate(std::move(given_gate)),
          limits(given),
          lanes_now(std::min(given.lanes_at_first, given.lanes_max)) {}

    runtime::Clock& clock;
    SnapshotStore* store;  // nullptr once the server is gone
    Gate gate;
    ServeLimits limits;
    std::map<PeerId, std::size_t> lanes_of;
    std::size_t lanes_now;  // may be open
    TimePoint soon_at;      // when a chunk went out soon, the last time
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
        // However few there are, no peer has all.
        const std::size_t each =
            std::clamp<std::size_t>(lanes_now / 2, 1, limits.lanes_per_peer_max);
        if (lanes < lanes_now && (own == lanes_of.end() || own->second < each)) return {};
        ++refused;
        return too_many();
    }

    Error too_many() const {
        return make_error(ErrorKind::overloaded,
                          "this provider already serves {} lanes; ask another one or later",
                          lanes);
    }

    // A chunk went out in that time, or did not in all the time it had. A small one tells nothing.
    // Where others went out soon meanwhile, it was the reader who is slow.
    void learn(std::size_t bytes, TimePoint begun) {
        if (bytes < chunk_bytes / 2) return;
        const Duration took = clock.now() - begun;
        if (took < limits.chunk_soon) {
            lanes_now = std::min(lanes_now + 1, limits.lanes_max);
            soon_at = clock.now();
        } else if (took > limits.chunk_late && soon_at <= begun) {
            const std::size_t fewest = std::min(limits.lanes_least, lanes_now);
            lanes_now =
                std::clamp<std::size_t>(lanes * limits.chunk_late / took, fewest, lanes_now);
        }
    }

    Result<std::shared_ptr<const PublishedState>> pinned(const Digest& root) {
        if (!store) return make_error(ErrorKind::peer_gone, "this peer stops serving states");
        auto state = store->pin(root);
        if (!state) return not_here(root);
        return state;
    }

    Error not_here(const Digest& root) const {
        return make_error(
            ErrorKind::not_found, "state {} is not here (any more)", root.short_hex());
    }

    Result<Bytes> manifest_for(ByteView request) {
        DEDLOC_TRY(const StateRequest asked, wire::decode<StateRequest>(request));
        DEDLOC_TRY(const auto state, pinned(asked.root));
        return wire::encode(state->manifest);
    }

    // Answers a peer that may ask, as the manifest.
    Result<Bytes> have_for(ByteView request) {
        DEDLOC_TRY(const StateRequest asked, wire::decode<StateRequest>(request));
        const auto arriving = store->arriving(asked.root);
        const auto whole = store->pin(asked.root);
        if (!whole && !arriving) return not_here(asked.root);
        const std::size_t count = whole ? whole->manifest.chunks_count() : arriving->chunks_count();
        const Bytes none(base::bits_bytes(count));
        HaveReply reply{.bits = none, .coming = none};
        for (std::size_t i = 0; i < count; ++i) {
            if (whole || arriving->has(i)) base::set_bit(reply.bits, i);
            if (!whole && arriving->is_coming(i)) base::set_bit(reply.coming, i);
        }
        return wire::encode(reply);
    }

    Result<Bytes> chunk_for(ByteView request) {
        DEDLOC_TRY(const ChunkRequest asked, wire::decode<ChunkRequest>(request));
        const auto arriving = store ? store->arriving(asked.root) : nullptr;
        if (arriving && arriving->has(asked.index)) return arriving->chunk(asked.index);
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

Task<Result<Bytes>> answer_have(std::shared_ptr<ServerState> state, PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(state->may_ask(from));
    co_return state->have_for(request);
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
        const TimePoint begun = state->clock.now();
        const TimePoint send_until = begun + state->limits.send_wait_max;
        Task<Result<void>> writing = stream->write(*std::move(answer));
        auto sent = co_await runtime::with_deadline(
            state->clock, send_until, "sending a chunk", std::move(writing));
        state->learn(size, begun);
        if (!sent) co_return;
        state->bytes_sent += size;
        if (state->lanes > state->lanes_now) {
            co_await end_lane(state, std::move(stream), state->too_many());
            co_return;
        }
    }
}

}  // namespace

StateServer::StateServer(p2p::Host& host, SnapshotStore& store, Gate gate, ServeLimits limits)
    : host_(host), state_(std::make_shared<State>(host, store, std::move(gate), limits)) {
    host_.handle_call(manifest_method, [state = state_](PeerId from, Bytes request) {
        return answer_manifest(state, std::move(from), std::move(request));
    });
    host_.handle_call(have_method, [state = state_](PeerId from, Bytes request) {
        return answer_have(state, std::move(from), std::move(request));
    });
    host_.handle_stream(chunk_method, [state = state_](std::unique_ptr<p2p::MessageStream> stream) {
        return serve_lane(state, std::move(stream));
    });
}

StateServer::~StateServer() {
    host_.remove_handler(manifest_method);
    host_.remove_handler(have_method);
    host_.remove_handler(chunk_method);
    state_->store = nullptr;
}

std::size_t StateServer::lanes() const { return state_->lanes; }
std::uint64_t StateServer::bytes_sent() const { return state_->bytes_sent; }
std::uint64_t StateServer::refused() const { return state_->refused; }

}  // namespace dedloc::state
