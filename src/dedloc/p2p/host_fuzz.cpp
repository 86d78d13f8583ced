// A whole listening host fed by one hostile connection. The first byte says how far the stranger
// behaves: not at all (the rest is what the socket says), or through the handshake (the rest is
// what is said inside TLS, where yamux, multistream and the calls are).

// First, as in every file that has it precompiled: Asio decides by what was included before it how
// coroutine frames are freed (ASIO_HAS_STD_ALIGNED_ALLOC), and all files of a program must agree.
#include "dedloc/runtime/pch.h"
//
#include <memory>

#include "dedloc/base/check.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/real.h"
#include "dedloc/transport/upgrade.h"
#include "dedloc/wire/multistream.h"
#include "dedloc/wire/rpc_frames.h"
#include "dedloc/wire/yamux_frame.h"

using namespace dedloc;
using namespace dedloc::p2p;

namespace {

// One direction of a connection in memory.
struct Pipe {
    explicit Pipe(runtime::Executor executor) : readable(std::move(executor)) {}
    Bytes bytes;
    bool closed = false;
    runtime::Event readable;
};

class PipeEnd final : public runtime::Connection {
  public:
    PipeEnd(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out)
        : in_(std::move(in)), out_(std::move(out)) {}
    ~PipeEnd() override { close(); }

    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        const auto in = in_;
        while (in->bytes.empty() && !in->closed) {
            in->readable.reset();
            co_await in->readable.wait();
        }
        const std::size_t count = std::min(into.size(), in->bytes.size());
        std::copy_n(in->bytes.begin(), count, into.begin());
        in->bytes.erase(in->bytes.begin(), in->bytes.begin() + static_cast<std::ptrdiff_t>(count));
        co_return count;
    }
    Task<Result<void>> write(ByteView bytes) override {
        if (out_->closed) co_return Error(ErrorKind::peer_gone, "closed");
        base::append(out_->bytes, bytes);
        out_->readable.set();
        co_return Ok();
    }
    void close() override {
        for (const auto& pipe : {in_, out_}) {
            pipe->closed = true;
            pipe->readable.set();
        }
    }
    runtime::SocketAddress local() const override { return {.host = "10.0.0.1", .port = 1}; }
    runtime::SocketAddress remote() const override { return {.host = "10.0.0.2", .port = 2}; }

  private:
    std::shared_ptr<Pipe> in_;
    std::shared_ptr<Pipe> out_;
};

struct Door {
    explicit Door(runtime::Executor executor) : opened(std::move(executor)) {}
    std::unique_ptr<runtime::Connection> visitor;
    bool closed = false;
    runtime::Event opened;
};

class OneListener final : public runtime::Listener {
  public:
    explicit OneListener(std::shared_ptr<Door> door) : door_(std::move(door)) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> accept() override {
        const auto door = door_;
        while (!door->visitor && !door->closed) {
            door->opened.reset();
            co_await door->opened.wait();
        }
        if (door->closed) co_return Error(ErrorKind::cancelled, "closed");
        co_return std::move(door->visitor);
    }
    runtime::SocketAddress local() const override { return {.host = "10.0.0.1", .port = 1}; }
    void close() override {
        door_->closed = true;
        door_->opened.set();
    }

  private:
    std::shared_ptr<Door> door_;
};

class OneDoor final : public runtime::Network {
  public:
    explicit OneDoor(std::shared_ptr<Door> door) : door_(std::move(door)) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress,
                                                               TimePoint) override {
        co_return Error(ErrorKind::peer_gone, "there is nobody");
    }
    Result<std::unique_ptr<runtime::Listener>> listen(const runtime::SocketAddress&) override {
        return std::unique_ptr<runtime::Listener>(std::make_unique<OneListener>(door_));
    }
    std::vector<std::string> interface_addresses() const override { return {"10.0.0.1"}; }

  private:
    std::shared_ptr<Door> door_;
};

Task<Result<Bytes>> echo(PeerId, Bytes request) { co_return request; }

Task<void> echo_stream(std::unique_ptr<MessageStream> stream) {
    for (;;) {
        auto message = co_await stream->read();
        if (!message || !*message) break;
        auto written = co_await stream->write(to_bytes(**message));
        if (!written) co_return;
    }
    auto finished = co_await stream->finish();
    (void)finished;
}

// An honest caller would begin with this: it saves the fuzzer from finding the framing by chance.
Bytes honest_beginning(std::uint8_t choice) {
    Bytes said;
    if ((choice & 2) == 0) return said;
    Bytes lines;
    wire::put_multistream_line(lines, wire::multistream_header);
    wire::put_multistream_line(lines, (choice & 4) != 0 ? "echo" : "stream");
    if ((choice & 8) != 0) base::append(lines, wire::encode_unary_request({}, "echo", Bytes(3)));
    wire::put_yamux_header(said,
                           {.type = wire::YamuxType::data,
                            .flags = wire::yamux_syn,
                            .stream_id = 1,
                            .length = static_cast<std::uint32_t>(lines.size())});
    base::append(said, lines);
    return said;
}

struct World {
    runtime::Loop loop;
    std::unique_ptr<runtime::Clock> clock = runtime::real_clock(loop.executor());
    std::shared_ptr<Door> door = std::make_shared<Door>(loop.executor());
    OneDoor network{door};
    std::unique_ptr<Host> host;
};

Task<void> attack(World* world, ByteView input) {
    const auto executor = world->loop.executor();
    auto up = std::make_shared<Pipe>(executor);
    auto down = std::make_shared<Pipe>(executor);
    world->door->visitor = std::make_unique<PipeEnd>(up, down);
    world->door->opened.set();
    std::unique_ptr<runtime::Connection> raw = std::make_unique<PipeEnd>(down, up);
    const std::uint8_t choice = input[0];
    input = input.subspan(1);
    if ((choice & 1) == 0) {
        auto written = co_await raw->write(input);
        (void)written;
    } else {
        static const security::Identity identity =
            security::Identity::from_seed(Bytes(32, 9)).value();
        static const auto context = transport::UpgradeContext::make(identity).value();
        PeerId anyone;
        auto secured =
            co_await transport::upgrade_dialled(std::move(raw), context, anyone, *world->clock);
        DEDLOC_CHECK(secured.has_value(), "{}", secured.error().message());
        Bytes plain = honest_beginning(choice);
        base::append(plain, input);
        const auto encrypted = secured->channel->encrypt(plain);
        DEDLOC_CHECK(encrypted.has_value() || plain.empty());
        raw = std::move(secured->raw);
        const Bytes cipher = secured->channel->take_output();
        auto written = co_await raw->write(cipher);
        (void)written;
        // Leave it a few turns of the loop to answer before the connection ends.
        for (int turn = 0; turn < 4; ++turn) co_await world->clock->sleep_for(Duration(1));
    }
    raw->close();
    co_await world->host->stop();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    static const security::Identity identity = security::Identity::from_seed(Bytes(32, 7)).value();
    World world;
    HostOptions options{.executor = world.loop.executor(),
                        .clock = *world.clock,
                        .network = world.network,
                        .random = Random(1),
                        .identity = identity,
                        .listen = {"/ip4/10.0.0.1/tcp/1"},
                        .announce = {}};
    world.host = make_host(std::move(options)).value();
    world.host->handle_call("echo", echo);
    world.host->handle_stream("stream", echo_stream);
    world.loop.run_task(attack(&world, ByteView(data, size)));
    return 0;
}
