#include "dedloc/averaging/line_probe.h"

#include <algorithm>

#include "dedloc/averaging/line_meter.h"
#include "dedloc/base/counted.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr std::size_t partners_max = 8;
constexpr std::size_t block_bytes = 32u << 10;
constexpr std::uint64_t bytes_with_one_max = 8u << 20;
constexpr std::uint64_t bytes_before_line_max = 512u << 10;  // until the line is seen to move
constexpr Duration fill_time = 1500ms;
constexpr Duration answer_max = 2s;
constexpr Duration serve_max = answer_max + fill_time * 2;
constexpr double busier_share = 0.7;  // of a probe: without TCP's slow start
constexpr Duration look = 20ms;
constexpr Duration pause_min = 1s;
constexpr Duration pause_max = 4s;
constexpr std::size_t served_at_once_max = 3;  // they share the line; who probes has others as well
constexpr Duration one_peer_pause = 5s;     // between two probes that are served for the same peer
constexpr double round_seconds_min = 0.25;  // that a vector takes; less is not worth a probe

}  // namespace

// One way of a probe, as the peer that measures sees it.
struct LineProbe::Filling {
    Filling(Way which, const p2p::Host& host) : way(which), meter(host, busier_share) {}
    const Throughput& line() const { return way == Way::up ? meter.up() : meter.down(); }

    Way way;
    LineMeter meter;
    std::vector<std::shared_ptr<p2p::MessageStream>> streams;
    TimePoint until;
    std::size_t sending = 0;  // streams that still send, or are read from
};

LineProbe::LineProbe(RoundContext& context, std::function<bool()> idle)
    : context_(context), idle_(std::move(idle)), random_(context.node.random.fork("line probe")) {}

void LineProbe::round_gave(const LineRates& rates) {
    upload_.round_gave(rates.upload);
    download_.round_gave(rates.download);
}

bool LineProbe::pays() const {
    const auto bytes = static_cast<double>(
        codec::encoded_size(context_.options.codec, context_.options.vector_count));
    return bytes > context_.options.rate_unknown * round_seconds_min;
}

bool LineProbe::wants(Way way) const {
    const RoundOptions& options = context_.options;
    return way == Way::up ? options.upload_max <= 0 && upload_.wants_probe()
                          : options.download_max <= 0 && download_.wants_probe();
}

std::vector<PeerId> LineProbe::candidates() const {
    std::vector<PeerId> peers = context_.directory.live_trainers();
    std::erase_if(peers, [this](const PeerId& peer) { return !context_.host.is_connected(peer); });
    return peers;
}

Task<void> LineProbe::run() {
    Duration pause = pause_min;
    while (pays() && !same_machine_) {
        co_await context_.node.clock.sleep_for(random_.duration(pause / 4, pause));
        if (serving_ > 0 || !idle_() || !wanted()) continue;
        probing_ = true;
        const bool measured = co_await probe();
        probing_ = false;
        pause = measured ? pause_min : std::min(pause * 3 / 2, pause_max);
    }
}

Task<bool> LineProbe::probe() {
    bool measured = false;
    for (const Way way : {Way::up, Way::down}) {
        if (!wants(way) || same_machine_) continue;
        const double rate = co_await fill(way);
        (way == Way::up ? upload_ : download_).probe_gave(rate);
        measured = measured || rate > 0;
    }
    co_return measured;
}

Task<double> LineProbe::fill(Way way) {
    auto filling = std::make_shared<Filling>(way, context_.host);
    std::vector<PeerId> partners = candidates();
    random_.shuffle(partners);
    const std::size_t wanted = std::min(partners.size(), partners_max);
    for (std::size_t i = 0; i < partners.size() && filling->streams.size() < wanted; i += wanted) {
        std::vector<Task<void>> asking;
        for (std::size_t k = i; k < std::min(i + wanted, partners.size()); ++k)
            asking.push_back(ask(filling, partners[k]));
        co_await runtime::all_of(std::move(asking));
    }
    // With too few of them, what comes about is the partners' lines' rates.
    if (filling->streams.empty() || filling->streams.size() * 4 < wanted * 3) {
        for (auto& stream : filling->streams) stream->reset();
        co_return 0;
    }
    filling->until = context_.now() + fill_time;
    filling->sending = filling->streams.size();
    std::vector<Task<void>> all;
    all.push_back(watch(filling));
    for (auto& stream : filling->streams) all.push_back(fill_one(filling, stream));
    co_await runtime::all_of(std::move(all));
    for (auto& stream : filling->streams) stream->reset();
    const Throughput& line = filling->line();
    if (line.bytes() == 0) same_machine_ = true;
    const double busiest = line.bytes_per_s();
    co_return busiest > 0 ? busiest : line_rate({{line.bytes(), line.seconds()}});
}

Task<void> LineProbe::ask(std::shared_ptr<Filling> filling, PeerId partner) {
    const TimePoint deadline = context_.now() + answer_max;
    auto opened = co_await context_.host.open_stream(partner, probe_method, deadline);
    if (!opened) co_return;
    std::shared_ptr<p2p::MessageStream> stream = *std::move(opened);
    ProbeRequest request;
    request.prober_sends = filling->way == Way::up;
    Bytes message = wire::encode(request);
    const auto written = co_await stream->write(std::move(message));
    if (!written) co_return;
    auto reading = stream->read();
    const auto reply = co_await runtime::with_deadline(
        context_.node.clock, deadline, "a partner of a probe", std::move(reading));
    if (reply && reply->has_value())
        filling->streams.push_back(std::move(stream));
    else
        stream->reset();
}

// The prober's side of one stream.
Task<void> LineProbe::fill_one(std::shared_ptr<Filling> filling,
                               std::shared_ptr<p2p::MessageStream> stream) {
    Bytes begin(1);
    const auto written = co_await stream->write(std::move(begin));
    if (written && filling->way == Way::up) co_await give(filling, stream);
    if (written && filling->way == Way::down) co_await take(filling, stream);
    --filling->sending;
}

Task<void> LineProbe::give(std::shared_ptr<Filling> filling,
                           std::shared_ptr<p2p::MessageStream> stream) {
    const SharedBytes block{Bytes(block_bytes)};
    std::uint64_t bytes = 0;
    while (context_.now() < filling->until && bytes < bytes_with_one_max) {
        if (bytes >= bytes_before_line_max && filling->line().bytes() == 0) {
            co_await context_.node.clock.sleep_for(look);
            continue;
        }
        Bytes head;
        auto writing = stream->write_with_body(std::move(head), block);
        const auto written = co_await runtime::with_deadline(
            context_.node.clock, filling->until, "a block of a probe", std::move(writing));
        if (!written) co_return;
        bytes += block_bytes;
    }
}

Task<void> LineProbe::take(std::shared_ptr<Filling> filling,
                           std::shared_ptr<p2p::MessageStream> stream) {
    std::uint64_t bytes = 0;
    while (context_.now() < filling->until && bytes < bytes_with_one_max) {
        auto reading = stream->read();
        const auto message = co_await runtime::with_deadline(
            context_.node.clock, filling->until, "a block of a probe", std::move(reading));
        if (!message || !message->has_value()) co_return;
        bytes += (**message)->size();
    }
}

Task<void> LineProbe::watch(std::shared_ptr<Filling> filling) {
    filling->meter.look(context_.now());
    while (context_.now() < filling->until && filling->sending > 0) {
        co_await context_.node.clock.sleep_for(look);
        filling->meter.look(context_.now());
    }
}

// ---- as a partner -------------------------------------------------------------------------------

Task<void> LineProbe::serve(std::unique_ptr<p2p::MessageStream> owned) {
    std::shared_ptr<p2p::MessageStream> stream = std::move(owned);
    auto answering = answer(stream);
    (void)co_await runtime::with_deadline(
        context_.node.clock, context_.now() + serve_max, "somebody's probe", std::move(answering));
    stream->reset();
}

bool LineProbe::has_time_for(const PeerId& peer, bool peer_sends) {
    const TimePoint now = context_.now();
    std::erase_if(served_,
                  [now](const auto& entry) { return now - entry.second > one_peer_pause; });
    return !probing_ && serving_ < served_at_once_max && idle_() &&
           !served_.contains({peer, peer_sends});
}

Task<Result<void>> LineProbe::answer(std::shared_ptr<p2p::MessageStream> stream) {
    auto first = co_await stream->read();
    if (!first || !first->has_value()) co_return Result<void>();
    DEDLOC_CO_TRY(const ProbeRequest request, wire::decode<ProbeRequest>(***first));
    if (!has_time_for(stream->remote(), request.prober_sends)) {
        Error error = make_error(ErrorKind::overloaded, "no time for a probe");
        co_return co_await stream->fail(std::move(error));
    }
    Bytes yes(1);
    DEDLOC_CO_TRY_VOID(co_await stream->write(std::move(yes)));
    auto begin = co_await stream->read();
    if (!begin || !begin->has_value()) co_return Result<void>();
    served_[{stream->remote(), request.prober_sends}] = context_.now();
    const base::Counted counted(serving_);
    const SharedBytes block{Bytes(block_bytes)};
    for (std::uint64_t bytes = 0; bytes < bytes_with_one_max; bytes += block_bytes) {
        if (!request.prober_sends) {
            Bytes head;
            DEDLOC_CO_TRY_VOID(co_await stream->write_with_body(std::move(head), block));
            continue;
        }
        auto message = co_await stream->read();
        if (!message || !message->has_value() || (**message)->size() > block_bytes) break;
    }
    co_return Result<void>();
}

}  // namespace dedloc::averaging
