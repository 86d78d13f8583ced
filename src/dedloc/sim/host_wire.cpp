#include "dedloc/sim/host_wire.h"

#include "dedloc/base/check.h"
#include "dedloc/sim/process.h"
#include "dedloc/sim/sim_host.h"

namespace dedloc::sim {

namespace {

Error lost(const PeerId& peer, const std::string& why) {
    return make_error(
        ErrorKind::peer_gone, "the connection to {} is gone: {}", peer.short_text(), why);
}

Error unsupported(const PeerId& peer, const std::string& method) {
    return make_error(ErrorKind::unsupported, "{} does not know {}", peer.short_text(), method);
}

std::uint64_t counted(const Bytes& message) { return message.size() + overhead_bytes; }

class SimStream final : public p2p::MessageStream {
  public:
    explicit SimStream(std::shared_ptr<StreamEnd> end) : end_(std::move(end)) {}
    ~SimStream() override {
        if (!end_->we_finished) reset();
        end_->wire->forget_stream(*end_);
    }

    const PeerId& remote() const override { return end_->remote; }
    Task<Result<void>> write(Bytes message) override { return write_to(end_, std::move(message)); }
    Task<Result<void>> write_with_body(Bytes head, SharedBytes body) override {
        base::append(head, *body);
        return write_to(end_, std::move(head));
    }
    Task<Result<std::optional<SharedBytes>>> read() override { return read_from(end_); }
    Task<Result<void>> finish() override { return finish_with(end_, nullptr); }
    Task<Result<void>> fail(Error error) override {
        return finish_with(end_, std::make_unique<Error>(std::move(error)));
    }
    void reset() override {
        if (end_->broken) return;
        end_->wire->send_stream(*end_, PacketKind::reset, Bytes(), nullptr);
        end_->broken = Error(ErrorKind::peer_gone, "the stream was reset here");
        end_->we_finished = true;
        end_->wake();
    }

  private:
    static Task<Result<void>> write_to(std::shared_ptr<StreamEnd> end, Bytes message) {
        if (message.size() > p2p::message_bytes_max)
            co_return make_error(ErrorKind::bad_input,
                                 "a stream message of {} bytes is larger than the limit of {}",
                                 message.size(),
                                 p2p::message_bytes_max);
        const std::uint64_t window =
            end->wire->process(end->side).world.options().stream_window_bytes;
        auto start = [&end](std::shared_ptr<runtime::Parked> parked) {
            end->writer = std::move(parked);
        };
        while (!end->broken && !end->we_finished && end->sent_bytes >= window)
            co_await runtime::park(start);
        if (end->broken) co_return *end->broken;
        if (end->we_finished)
            co_return Error(ErrorKind::bad_input, "writing to a stream after its end was said");
        end->sent_bytes += counted(message);
        const bool small = message.size() <= small_bytes_max;
        end->wire->send_stream(*end, PacketKind::message, std::move(message), nullptr);
        if (small) co_return Ok();
        // A kernel takes no more than what leaves soon.
        Process& process = end->wire->process(end->side);
        const Duration ahead = process.node.upload_backlog() - line_backlog_max;
        if (ahead > Duration::zero()) co_await process.clock.sleep_for(ahead);
        co_return Ok();
    }

    static Task<Result<std::optional<SharedBytes>>> read_from(std::shared_ptr<StreamEnd> end) {
        auto start = [&end](std::shared_ptr<runtime::Parked> parked) {
            end->reader = std::move(parked);
        };
        while (!end->broken && end->inbox.empty() && !end->they_finished)
            co_await runtime::park(start);
        if (end->broken) co_return *end->broken;
        if (end->inbox.empty()) {
            if (end->their_error) co_return *end->their_error;
            co_return std::optional<SharedBytes>();
        }
        Bytes message = std::move(end->inbox.front());
        end->inbox.pop_front();
        end->read_bytes += counted(message);
        const std::uint64_t window =
            end->wire->process(end->side).world.options().stream_window_bytes;
        if (end->read_bytes >= window / 2) {
            Bytes credit;
            base::put_u64_le(credit, end->read_bytes);
            end->read_bytes = 0;
            end->wire->send_stream(*end, PacketKind::credit, std::move(credit), nullptr);
        }
        co_return std::optional<SharedBytes>(SharedBytes(std::move(message)));
    }

    static Task<Result<void>> finish_with(std::shared_ptr<StreamEnd> end,
                                          std::unique_ptr<Error> error) {
        if (end->broken) co_return *end->broken;
        if (end->we_finished) co_return Ok();
        end->we_finished = true;
        const PacketKind kind = error ? PacketKind::fail : PacketKind::finish;
        end->wire->send_stream(*end, kind, Bytes(), std::move(error));
        co_return Ok();
    }

    std::shared_ptr<StreamEnd> end_;
};

}  // namespace

std::unique_ptr<p2p::MessageStream> make_stream(std::shared_ptr<StreamEnd> end) {
    return std::make_unique<SimStream>(std::move(end));
}

HostWire::HostWire(World& given_world, Process& dialler, Process& acceptor)
    : Wire(given_world, dialler, acceptor) {
    sides_[0].host = dialler.host.get();
    sides_[0].remote = acceptor.node.id();
    sides_[1].host = acceptor.host.get();
    sides_[1].remote = dialler.node.id();
}

int HostWire::side_of(const SimHost& host) const { return sides_[0].host == &host ? 0 : 1; }

// --- calls ---

void HostWire::start_call(int side,
                          std::uint64_t id,
                          std::uint32_t method,
                          Bytes request,
                          std::shared_ptr<PendingCall> pending) {
    sides_[side].pending.emplace(id, std::move(pending));
    auto packet = std::make_unique<Packet>();
    packet->kind = static_cast<std::uint8_t>(PacketKind::request);
    packet->method = method;
    packet->id = id;
    packet->payload = std::move(request);
    world().tamper(process(side), process(1 - side), method, false, packet->payload);
    send(side, std::move(packet));
}

void HostWire::forget_call(int side, std::uint64_t id, bool tell) {
    sides_[side].pending.erase(id);
    if (!tell) return;
    auto packet = std::make_unique<Packet>();
    packet->kind = static_cast<std::uint8_t>(PacketKind::cancel);
    packet->id = id;
    send(side, std::move(packet));
}

void HostWire::on_request(int side, Packet& packet) {
    Side& here = sides_[side];
    const auto found = here.host->call_handlers_.find(packet.method);
    if (found == here.host->call_handlers_.end()) {
        answer(side,
               packet.id,
               packet.method,
               unsupported(here.host->id(), world().method_name(packet.method)));
        return;
    }
    const Ok admitted = here.host->may_speak(here.remote, world().method_name(packet.method));
    if (!admitted) {
        answer(side, packet.id, packet.method, admitted.error());
        return;
    }
    if (here.serving.size() >= incoming_calls_max) {
        answer(side,
               packet.id,
               packet.method,
               make_error(ErrorKind::overloaded,
                          "{} already serves {} calls of this peer",
                          here.host->id().short_text(),
                          incoming_calls_max));
        return;
    }
    auto self = std::static_pointer_cast<HostWire>(shared_from_this());
    const runtime::TaskId task = here.host->scope_.spawn(
        world().method_name(packet.method),
        serve(self, side, packet.id, packet.method, found->second, std::move(packet.payload)));
    here.serving.emplace(packet.id, task);
}

Task<void> HostWire::serve(std::shared_ptr<HostWire> wire,
                           int side,
                           std::uint64_t id,
                           std::uint32_t method,
                           std::shared_ptr<p2p::CallHandler> handler,
                           Bytes request) {
    struct Guard {
        HostWire& wire;
        int side;
        std::uint64_t id;
        ~Guard() { wire.sides_[side].serving.erase(id); }
    };
    const Guard guard{*wire, side, id};
    PeerId from = wire->sides_[side].remote;
    Result<Bytes> result = co_await (*handler)(std::move(from), std::move(request));
    if (result && result->size() > p2p::call_bytes_max)
        result = make_error(ErrorKind::local_fault,
                            "the answer of {} bytes is larger than the limit of {}",
                            result->size(),
                            p2p::call_bytes_max);
    wire->answer(side, id, method, std::move(result));
}

void HostWire::answer(int side, std::uint64_t id, std::uint32_t method, Result<Bytes> result) {
    auto packet = std::make_unique<Packet>();
    packet->id = id;
    packet->method = method;
    if (result) {
        packet->kind = static_cast<std::uint8_t>(PacketKind::answer);
        packet->payload = *std::move(result);
        world().tamper(process(side), process(1 - side), method, true, packet->payload);
    } else {
        packet->kind = static_cast<std::uint8_t>(PacketKind::failure);
        packet->error = std::make_unique<Error>(std::move(result).error());
    }
    send(side, std::move(packet));
}

// --- streams ---

std::shared_ptr<StreamEnd> HostWire::start_stream(int side, std::uint32_t method) {
    auto end = std::make_shared<StreamEnd>();
    end->wire = std::static_pointer_cast<HostWire>(shared_from_this());
    end->side = side;
    end->opened_here = true;
    end->method = method;
    end->id = next_id();
    end->remote = sides_[side].remote;
    sides_[side].streams.emplace(StreamKey(true, end->id), end);
    send_stream(*end, PacketKind::open, Bytes(), nullptr);
    return end;
}

void HostWire::send_stream(StreamEnd& end,
                           PacketKind kind,
                           Bytes payload,
                           std::unique_ptr<Error> error) {
    auto packet = std::make_unique<Packet>();
    packet->kind = static_cast<std::uint8_t>(kind);
    packet->opened_by_sender = end.opened_here;
    packet->method = end.method;
    packet->id = end.id;
    packet->sequence = end.next_sequence++;
    packet->payload = std::move(payload);
    packet->error = std::move(error);
    if (kind == PacketKind::message)
        world().tamper(process(end.side),
                       process(1 - end.side),
                       end.method,
                       !end.opened_here,
                       packet->payload);
    send(end.side, std::move(packet));
}

void HostWire::forget_stream(const StreamEnd& end) {
    Side& here = sides_[end.side];
    if (here.streams.erase(StreamKey(end.opened_here, end.id)) > 0 && !end.opened_here)
        --here.incoming_streams;
}

void HostWire::on_open(int side, Packet& packet) {
    Side& here = sides_[side];
    auto end = std::make_shared<StreamEnd>();
    end->wire = std::static_pointer_cast<HostWire>(shared_from_this());
    end->side = side;
    end->method = packet.method;
    end->id = packet.id;
    end->remote = here.remote;
    const auto found = here.host->stream_handlers_.find(packet.method);
    std::optional<Error> refusal;
    if (found == here.host->stream_handlers_.end())
        refusal = unsupported(here.host->id(), world().method_name(packet.method));
    else if (Ok admitted = here.host->may_speak(here.remote, world().method_name(packet.method));
             !admitted)
        refusal = std::move(admitted).error();
    else if (here.incoming_streams >= incoming_streams_max)
        refusal = make_error(ErrorKind::overloaded,
                             "{} already serves {} streams of this peer",
                             here.host->id().short_text(),
                             incoming_streams_max);
    if (refusal) {
        send_stream(*end, PacketKind::fail, Bytes(), std::make_unique<Error>(*refusal));
        return;
    }
    end->ready = true;
    here.streams.emplace(StreamKey(false, end->id), end);
    ++here.incoming_streams;
    end->incoming.push(packet, [](Packet&) {});  // the open itself was number 0
    send_stream(*end, PacketKind::opened, Bytes(), nullptr);
    end->handler = here.host->scope_.spawn(world().method_name(packet.method),
                                           serve_stream(found->second, make_stream(end)));
}

Task<void> HostWire::serve_stream(std::shared_ptr<p2p::StreamHandler> handler,
                                  std::unique_ptr<p2p::MessageStream> stream) {
    co_await (*handler)(std::move(stream));
}

void HostWire::on_stream_packet(int side, Packet& packet) {
    Side& here = sides_[side];
    const auto found = here.streams.find(StreamKey(!packet.opened_by_sender, packet.id));
    const bool is_reset = packet.kind == static_cast<std::uint8_t>(PacketKind::reset);
    if (found == here.streams.end()) {
        if (packet.kind != static_cast<std::uint8_t>(PacketKind::message)) return;
        // Nobody reads this any more.
        auto reply = std::make_unique<Packet>();
        reply->kind = static_cast<std::uint8_t>(PacketKind::reset);
        reply->opened_by_sender = !packet.opened_by_sender;
        reply->method = packet.method;
        reply->id = packet.id;
        send(side, std::move(reply));
        return;
    }
    const std::shared_ptr<StreamEnd> end = found->second;
    if (is_reset) {
        break_stream(*end, lost(end->remote, "the stream was reset"));
        return;
    }
    end->incoming.push(packet, [this, &end](Packet& next) { on_stream_in_order(*end, next); });
}

void HostWire::on_stream_in_order(StreamEnd& end, Packet& packet) {
    switch (static_cast<PacketKind>(packet.kind)) {
        case PacketKind::opened:
            end.ready = true;
            break;
        case PacketKind::message:
            end.inbox.push_back(std::move(packet.payload));
            break;
        case PacketKind::credit: {
            base::ByteReader reader(packet.payload);
            end.sent_bytes -= std::min(end.sent_bytes, *reader.u64_le());
            break;
        }
        case PacketKind::fail:
            end.their_error = std::move(*packet.error);
            end.they_finished = true;
            break;
        case PacketKind::finish:
            end.they_finished = true;
            break;
        default:
            DEDLOC_CHECK(false, "packet kind {} in a stream", packet.kind);
    }
    end.wake();
}

void HostWire::break_stream(StreamEnd& end, const Error& error) {
    if (end.broken) return;
    end.broken = error;
    end.we_finished = true;  // nothing more to say
    end.wake();
    if (end.handler != 0) sides_[end.side].host->scope_.cancel_task(end.handler);
}

// --- the connection ---

void HostWire::on_packet(int side, Packet& packet) {
    Side& here = sides_[side];
    switch (static_cast<PacketKind>(packet.kind)) {
        case PacketKind::request:
            on_request(side, packet);
            return;
        case PacketKind::answer:
        case PacketKind::failure: {
            const auto found = here.pending.find(packet.id);
            if (found == here.pending.end()) return;  // too late
            const std::shared_ptr<PendingCall> pending = found->second;
            here.pending.erase(found);
            if (packet.error)
                pending->complete(std::move(*packet.error));
            else
                pending->complete(std::move(packet.payload));
            return;
        }
        case PacketKind::cancel: {
            const auto found = here.serving.find(packet.id);
            if (found != here.serving.end()) here.host->scope_.cancel_task(found->second);
            return;
        }
        case PacketKind::open:
            on_open(side, packet);
            return;
        default:
            on_stream_packet(side, packet);
            return;
    }
}

void HostWire::on_close(int side, const std::string& why) {
    Side& here = sides_[side];
    const Error error = lost(here.remote, why);
    // By id: the map has no order of its own.
    std::map<std::uint64_t, std::shared_ptr<PendingCall>> pending(here.pending.begin(),
                                                                  here.pending.end());
    here.pending.clear();
    for (const auto& [id, call] : pending) call->complete(error);
    const auto serving = here.serving;
    for (const auto& [id, task] : serving) here.host->scope_.cancel_task(task);
    const auto streams = here.streams;
    for (const auto& [key, end] : streams) break_stream(*end, error);
    here.host->wire_closed(here.remote, *this);
}

}  // namespace dedloc::sim
