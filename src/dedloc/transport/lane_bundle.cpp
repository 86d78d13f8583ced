#include "dedloc/transport/lane_bundle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "dedloc/runtime/event.h"

namespace dedloc::transport {

namespace {

constexpr std::size_t header_bytes = 12;
constexpr std::size_t piece_overhead_bytes = 128;
// Accepted from write() and not yet taken by a lane.
constexpr std::size_t queued_bytes_max = 2 * lane_piece_bytes_max;

// A piece costs this while it waits, tiny ones too.
std::size_t memory_of(std::size_t piece) { return piece + piece_overhead_bytes; }

struct State {
    State(std::vector<std::unique_ptr<runtime::Connection>> given,
          std::shared_ptr<LaneMemory> shared,
          runtime::Executor executor)
        : lanes(std::move(given)),
          memory(std::move(shared)),
          has_output(executor),
          has_room(executor),
          readable(executor),
          advanced(executor) {}
    ~State() { memory->lent -= borrowed(); }

    std::vector<std::unique_ptr<runtime::Connection>> lanes;
    std::shared_ptr<LaneMemory> memory;
    std::optional<Error> failure;
    std::size_t ended = 0;              // lanes that the other side has closed
    std::multiset<std::uint64_t> late;  // pieces for which there is no room yet, one a lane

    std::deque<Bytes> queue;  // pieces with their headers
    std::size_t queued_bytes = 0;
    std::uint64_t next_to_send = 0;
    runtime::Event has_output;
    runtime::Event has_room;

    std::map<std::uint64_t, Bytes> arrived;
    std::size_t arrived_bytes = 0;
    std::uint64_t next_to_read = 0;
    std::size_t read_of_first = 0;
    bool trusted = false;
    runtime::Event readable;
    runtime::Event advanced;

    void fail(Error error) {
        if (!failure) failure = std::move(error);
        for (const auto& lane : lanes) lane->close();
        for (runtime::Event* event : {&has_output, &has_room, &readable, &advanced}) event->set();
    }
    bool has_ended() const { return ended == lanes.size(); }
    // Each lane has ended or waits for a piece before its own, and nobody brings that any more.
    bool has_lost_a_piece() const {
        return !late.empty() && ended + late.size() == lanes.size() &&
               !arrived.contains(next_to_read) && *late.begin() > next_to_read;
    }

    static std::size_t beyond_own(std::size_t bytes) {
        return bytes - std::min(bytes, lane_bytes_ahead_before_trust_max);
    }
    std::size_t borrowed() const { return beyond_own(arrived_bytes); }  // of `memory`
    bool has_room_ahead(std::size_t bytes) const {
        const std::size_t all = arrived_bytes + bytes;
        if (beyond_own(all) == 0) return true;
        return trusted && all <= lane_bytes_ahead_max &&
               memory->lent - borrowed() + beyond_own(all) <= memory->lent_max;
    }
    void set_arrived_bytes(std::size_t bytes) {
        memory->lent -= borrowed();
        arrived_bytes = bytes;
        memory->lent += borrowed();
    }
};

using StatePtr = std::shared_ptr<State>;

// ------------------------------------------------------------------------------------- writing

Task<void> write_lane(StatePtr state, std::size_t index) {
    while (!state->failure) {
        if (state->queue.empty()) {
            state->has_output.reset();
            co_await state->has_output.wait();
            continue;
        }
        const Bytes piece = std::move(state->queue.front());
        state->queue.pop_front();
        state->queued_bytes -= piece.size();
        state->has_room.set();
        auto written = co_await state->lanes[index]->write(piece);
        if (!written) state->fail(std::move(written).error());
    }
}

Task<Result<void>> write_pieces(StatePtr state, ByteView bytes) {
    while (!bytes.empty()) {
        while (state->queued_bytes >= queued_bytes_max && !state->failure) {
            state->has_room.reset();
            co_await state->has_room.wait();
        }
        if (state->failure) co_return *state->failure;
        const ByteView body = bytes.first(std::min(bytes.size(), lane_piece_bytes_max));
        bytes = bytes.subspan(body.size());
        Bytes piece;
        piece.reserve(header_bytes + body.size());
        base::put_u64_be(piece, state->next_to_send++);
        base::put_u32_be(piece, static_cast<std::uint32_t>(body.size()));
        base::append(piece, body);
        state->queued_bytes += piece.size();
        state->queue.push_back(std::move(piece));
        state->has_output.set();
    }
    co_return Ok();
}

// ------------------------------------------------------------------------------------- reading

enum class Filled { header, body };

// False: the lane has ended, or failed, which the state then says. It may end before a header.
Task<bool> fill(StatePtr state, std::size_t index, std::span<std::uint8_t> into, Filled what) {
    std::size_t filled = 0;
    while (filled < into.size()) {
        auto count = co_await state->lanes[index]->read_some(into.subspan(filled));
        if (state->failure) co_return false;
        if (!count) {
            state->fail(std::move(count).error());
            co_return false;
        }
        if (*count == 0) {
            if (what == Filled::body || filled > 0)
                state->fail(Error(ErrorKind::peer_gone, "a lane ended inside a piece"));
            ++state->ended;
            state->readable.set();
            co_return false;
        }
        filled += *count;
    }
    co_return true;
}

Task<void> read_lane(StatePtr state, std::size_t index) {
    std::array<std::uint8_t, header_bytes> header{};
    std::optional<std::uint64_t> last;
    for (;;) {
        const bool more = co_await fill(state, index, header, Filled::header);
        if (!more) co_return;
        base::ByteReader reader(header);
        const std::uint64_t number = *reader.u64_be();
        const std::uint32_t size = *reader.u32_be();
        // A lane keeps order, so whatever it still owes has higher numbers: waiting with a piece
        // that is too far ahead never keeps the missing one from coming.
        const bool sound = size > 0 && size <= lane_piece_bytes_max &&
                           number >= state->next_to_read && (!last || number > *last) &&
                           !state->arrived.contains(number);
        if (!sound) {
            state->fail(Error(ErrorKind::peer_broke_protocol, "a piece that has no place"));
            co_return;
        }
        last = number;
        while (number != state->next_to_read && !state->failure &&
               !state->has_room_ahead(memory_of(size))) {
            const auto waits = state->late.insert(number);
            state->readable.set();
            state->advanced.reset();
            co_await state->advanced.wait();
            state->late.erase(waits);
        }
        if (state->failure) co_return;
        state->set_arrived_bytes(state->arrived_bytes + memory_of(size));
        Bytes piece(size);
        const bool whole = co_await fill(state, index, piece, Filled::body);
        if (!whole) co_return;
        state->arrived.emplace(number, std::move(piece));
        if (number == state->next_to_read) state->readable.set();
    }
}

Task<Result<std::size_t>> read_in_order(StatePtr state, std::span<std::uint8_t> into) {
    for (;;) {
        std::size_t copied = 0;
        while (copied < into.size()) {
            const auto first = state->arrived.find(state->next_to_read);
            if (first == state->arrived.end()) break;
            const ByteView rest = ByteView(first->second).subspan(state->read_of_first);
            const std::size_t count = std::min(rest.size(), into.size() - copied);
            std::memcpy(into.data() + copied, rest.data(), count);
            copied += count;
            state->read_of_first += count;
            if (count < rest.size()) break;
            state->set_arrived_bytes(state->arrived_bytes - memory_of(first->second.size()));
            state->arrived.erase(first);
            state->read_of_first = 0;
            ++state->next_to_read;
            state->advanced.set();
        }
        if (copied > 0) co_return copied;
        if (state->failure) co_return *state->failure;
        if (state->has_ended()) co_return std::size_t{0};
        if (state->has_lost_a_piece()) {
            state->fail(Error(ErrorKind::peer_gone, "a lane ended before its pieces had come"));
            co_return *state->failure;
        }
        state->readable.reset();
        co_await state->readable.wait();
    }
}

class Bundle final : public LaneBundle {
  public:
    Bundle(StatePtr state, runtime::Scope& scope) : state_(std::move(state)) {
        for (std::size_t i = 0; i < state_->lanes.size(); ++i) {
            scope.spawn("p2p lane reader", read_lane(state_, i));
            scope.spawn("p2p lane writer", write_lane(state_, i));
        }
    }
    ~Bundle() override { close(); }

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        return read_in_order(state_, into);
    }
    Task<Result<void>> write(ByteView bytes) override { return write_pieces(state_, bytes); }
    void close() override {
        state_->fail(Error(ErrorKind::peer_gone, "the lanes were closed here"));
    }
    runtime::SocketAddress local() const override { return state_->lanes.front()->local(); }
    runtime::SocketAddress remote() const override { return state_->lanes.front()->remote(); }
    std::size_t lanes() const override { return state_->lanes.size(); }
    void trust() override {
        state_->trusted = true;
        state_->advanced.set();
    }

  private:
    StatePtr state_;
};

}  // namespace

std::unique_ptr<LaneBundle> make_lane_bundle(
    std::vector<std::unique_ptr<runtime::Connection>> lanes,
    std::shared_ptr<LaneMemory> memory,
    runtime::Executor executor,
    runtime::Scope& scope) {
    DEDLOC_CHECK(!lanes.empty() && memory);
    auto state = std::make_shared<State>(std::move(lanes), std::move(memory), std::move(executor));
    return std::make_unique<Bundle>(std::move(state), scope);
}

std::size_t lanes_wanted(double bytes_per_s, Duration round_trip) {
    if (round_trip < lane_round_trip_min) return 1;
    // One connection's reach says little about the link: room for several times as much.
    const double in_flight = lane_headroom * bytes_per_s * to_seconds(round_trip);
    const double lanes = std::ceil(in_flight / static_cast<double>(lane_flight_bytes));
    return static_cast<std::size_t>(
        std::clamp(lanes, 1.0, static_cast<double>(lanes_per_peer_max)));
}

}  // namespace dedloc::transport
