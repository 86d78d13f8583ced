// One stream over two to four lanes, and the fuzzer decides how it is cut into pieces, which lane
// takes which, and how much of each lane arrives when. What is read is a prefix of what was sent;
// all of it, unless a lane was cut. Or a lane says anything at all: then it only must end well.
//
// The first byte: how many lanes, trusted or not, honest or not. Then two bytes a step: what on
// which lane, and how much.

// First: see host_fuzz.cpp.
#include "dedloc/runtime/pch.h"
//
#include <algorithm>
#include <memory>

#include "dedloc/base/check.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/transport/lane_bundle.h"

using namespace dedloc;
using namespace dedloc::transport;

namespace {

constexpr std::size_t steps_max = 500;

// The other side's end of a lane: what it sent and what of it has arrived.
struct Lane {
    explicit Lane(runtime::Executor executor) : readable(std::move(executor)) {}
    Bytes sent;
    Bytes arrived;
    bool ended = false;
    runtime::Event readable;

    void arrive(std::size_t count) {
        count = std::min(count, sent.size());
        base::append(arrived, ByteView(sent).first(count));
        sent.erase(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(count));
        readable.set();
    }
    void end() {
        ended = true;
        readable.set();
    }
};

class LaneEnd final : public runtime::Connection {
  public:
    explicit LaneEnd(std::shared_ptr<Lane> lane) : lane_(std::move(lane)) {}

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        const auto lane = lane_;
        while (lane->arrived.empty() && !lane->ended) {
            lane->readable.reset();
            co_await lane->readable.wait();
        }
        const std::size_t count = std::min(into.size(), lane->arrived.size());
        std::copy_n(lane->arrived.begin(), count, into.begin());
        lane->arrived.erase(lane->arrived.begin(),
                            lane->arrived.begin() + static_cast<std::ptrdiff_t>(count));
        co_return count;
    }
    Task<Result<void>> write(ByteView) override { co_return Ok(); }
    void close() override { lane_->end(); }
    runtime::SocketAddress local() const override { return {.host = "10.0.0.1", .port = 1}; }
    runtime::SocketAddress remote() const override { return {.host = "10.0.0.2", .port = 2}; }

  private:
    std::shared_ptr<Lane> lane_;
};

struct World {
    runtime::Loop loop;
    runtime::Scope scope{loop.executor()};
    std::vector<std::shared_ptr<Lane>> lanes;
    std::shared_ptr<LaneMemory> memory = std::make_shared<LaneMemory>();
    std::unique_ptr<LaneBundle> bundle;
    Bytes sent;
    Bytes received;
    std::uint64_t pieces = 0;
    bool cut = false;
    bool reader_ended = false;

    void send_piece(Lane& lane, std::size_t size) {
        base::put_u64_be(lane.sent, pieces++);
        base::put_u32_be(lane.sent, static_cast<std::uint32_t>(size));
        for (std::size_t i = 0; i < size; ++i) {
            sent.push_back(static_cast<std::uint8_t>(sent.size() * 31 + sent.size() / 251));
            lane.sent.push_back(sent.back());
        }
    }
    void step(std::uint8_t what, std::uint8_t how) {
        Lane& lane = *lanes[(what >> 3) % lanes.size()];
        if (lane.ended) return;
        switch (what % 8) {
            case 0:
                return send_piece(lane, std::size_t{how} + 1);
            case 1:
                return send_piece(lane, (std::size_t{how} << 8) + 1);
            case 2:
                lane.sent.push_back(how);  // of a stranger only: see run()
                return;
            case 3:
                if (how != 255) return;
                cut = true;
                return lane.end();
            case 4:
                return lane.arrive(std::size_t{how} << 8);
            default:
                return lane.arrive(how);
        }
    }
};

Task<void> read_to_the_end(World* world) {
    Bytes buffer(5000);
    for (;;) {
        auto got = co_await world->bundle->read_some(buffer);
        if (!got || *got == 0) break;
        base::append(world->received, ByteView(buffer).first(*got));
    }
    world->reader_ended = true;
}

Task<void> run(World* world, ByteView program, bool honest) {
    world->scope.spawn("read", read_to_the_end(world));
    for (std::size_t i = 0; i + 1 < std::min(program.size(), 2 * steps_max); i += 2) {
        const bool strange = program[i] % 8 == 2;
        if (!honest || !strange) world->step(program[i], program[i + 1]);
        if (program[i] % 8 > 3) co_await runtime::next_turn();
    }
    for (const auto& lane : world->lanes) {
        if (!lane->ended) lane->arrive(lane->sent.size());
        lane->end();
    }
    while (!world->reader_ended) co_await runtime::next_turn();
    world->bundle.reset();
    co_await world->scope.stop();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    World world;
    std::vector<std::unique_ptr<runtime::Connection>> ends;
    for (int i = 0; i < 2 + data[0] % 3; ++i) {
        world.lanes.push_back(std::make_shared<Lane>(world.loop.executor()));
        ends.push_back(std::make_unique<LaneEnd>(world.lanes.back()));
    }
    world.bundle =
        make_lane_bundle(std::move(ends), world.memory, world.loop.executor(), world.scope);
    if ((data[0] & 64) != 0) world.bundle->trust();
    const bool honest = (data[0] & 128) == 0;
    world.loop.run_task(run(&world, ByteView(data + 1, size - 1), honest));
    DEDLOC_CHECK(world.memory->lent == 0);
    if (!honest) return 0;
    DEDLOC_CHECK(world.received.size() <= world.sent.size());
    DEDLOC_CHECK(std::equal(world.received.begin(), world.received.end(), world.sent.begin()));
    if (!world.cut) DEDLOC_CHECK(world.received.size() == world.sent.size());
    return 0;
}
