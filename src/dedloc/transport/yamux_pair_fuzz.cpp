// Two yamux sessions against each other, and the fuzzer decides what happens when: who opens,
// writes, reads, ends, resets, how the bytes between them are cut, how much time passes. Neither
// may ever blame the other, and every byte arrives once, in order.
//
// Two bytes a step: what, and how much or of which stream.
#include <algorithm>
#include <array>
#include <map>

#include "dedloc/base/check.h"
#include "dedloc/transport/yamux.h"

using namespace dedloc;
using namespace dedloc::transport;

namespace {

constexpr std::size_t streams_max = 40;
constexpr std::size_t steps_max = 4000;

// A stream's byte number `position` must be this.
std::uint8_t expected(std::uint32_t id, bool from_client, std::size_t position) {
    return static_cast<std::uint8_t>(position * 31 + id * 7 + (from_client ? 1 : 0));
}

struct Held {
    std::shared_ptr<YamuxStream> stream;
    std::size_t written = 0;
    std::size_t read = 0;
};

struct Side {
    bool is_client = false;
    std::unique_ptr<YamuxSession> session;
    std::map<std::uint32_t, Held> streams;
    Bytes wire;  // on its way to the other side

    void hold(std::shared_ptr<YamuxStream> stream) {
        const std::uint32_t id = stream->id();
        streams[id].stream = std::move(stream);
    }
    Held* pick(std::size_t number) {
        if (streams.empty()) return nullptr;
        auto it = streams.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(number % streams.size()));
        return &it->second;
    }
    void write(Held& held, std::size_t count) {
        YamuxStream& stream = *held.stream;
        if (stream.finished() || stream.failure()) return;
        Bytes bytes(count);
        for (std::uint8_t& byte : bytes) byte = expected(stream.id(), is_client, held.written++);
        stream.write(std::move(bytes));
    }
    void read(Held& held, std::size_t count) {
        Bytes bytes(count);
        bytes.resize(held.stream->read_some(bytes));
        for (const std::uint8_t byte : bytes)
            DEDLOC_CHECK(byte == expected(held.stream->id(), !is_client, held.read++));
    }
    void read_all(Held& held) {
        while (held.stream->readable_bytes() > 0) read(held, 64u << 10);
    }
    void pull(std::size_t count) {
        session->pull(count, [this](ByteView header, ByteView payload) {
            base::append(wire, header);
            base::append(wire, payload);
        });
    }
};

struct World {
    TimePoint now{1s};
    std::array<Side, 2> sides;

    World() {
        for (Side& side : sides) {
            side.is_client = &side == &sides[0];
            YamuxOptions options{.is_client = side.is_client,
                                 .now = [this] { return now; },
                                 .memory = std::make_shared<StreamMemory>()};
            side.session = std::make_unique<YamuxSession>(std::move(options));
            side.session->on_inbound = [&side](auto stream) { side.hold(std::move(stream)); };
        }
    }
    void deliver(Side& from, std::size_t count) {
        Side& to = &from == &sides[0] ? sides[1] : sides[0];
        count = std::min(count, from.wire.size());
        const Ok fed = to.session->feed(ByteView(from.wire).first(count));
        DEDLOC_CHECK(fed || fed.error().kind() != ErrorKind::peer_broke_protocol,
                     "{}",
                     fed.error().message());
        from.wire.erase(from.wire.begin(), from.wire.begin() + static_cast<std::ptrdiff_t>(count));
    }
    void step(std::uint8_t what, std::uint8_t how);
};

void World::step(std::uint8_t what, std::uint8_t how) {
    Side& side = sides[what & 1];
    Held* const held = side.pick(how);
    switch ((what >> 1) % 12) {
        case 0:
            if (side.streams.size() < streams_max)
                if (auto opened = side.session->open()) side.hold(*std::move(opened));
            break;
        case 1:
            if (held != nullptr) side.write(*held, std::size_t{how} * 5);
            break;
        case 2:
            if (held != nullptr) side.write(*held, std::size_t{how} << 9);
            break;
        case 3:
            if (held != nullptr) side.read(*held, std::size_t{how} << 10);
            break;
        case 4:
            if (held != nullptr) held->stream->finish();
            break;
        case 5:
            if (held != nullptr && how % 4 == 0) held->stream->reset();
            break;
        case 6:
            if (held != nullptr && how % 2 == 0) {
                held->stream->release();
                side.streams.erase(held->stream->id());
            }
            break;
        case 7:
            side.pull(std::size_t{how} << 8);
            break;
        case 8:
            deliver(side, how);
            break;
        case 9:
            deliver(side, std::size_t{how} << 10);
            break;
        case 10:
            now = now + Duration(how * 10ms);
            (void)side.session->tick();
            break;
        default:
            if (how == 255) side.session->go_away();
            break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    World world;
    for (std::size_t i = 0; i + 1 < std::min(size, 2 * steps_max); i += 2)
        world.step(data[i], data[i + 1]);
    // Everything that is under way arrives, whoever still reads gets it all in order.
    for (int turns = 0; turns < 8; ++turns) {
        for (Side& side : world.sides) {
            side.pull(64u << 20);
            world.deliver(side, side.wire.size());
            for (auto& [id, held] : side.streams) side.read_all(held);
        }
    }
    return 0;
}
