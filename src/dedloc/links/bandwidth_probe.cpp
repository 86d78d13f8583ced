#include "dedloc/links/bandwidth_probe.h"

#include <algorithm>

#include "dedloc/base/counted.h"
#include "dedloc/links/link_meter.h"
#include "dedloc/links/messages.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::links {
namespace {

// When all come they all look, and few have time for many; later more are needed, as eight slow
// links do not fill a fast one.
constexpr std::size_t first_partners_max = 8;
constexpr std::size_t partners_max = 16;
constexpr std::size_t block_bytes_min = 8u << 10;  // a partner sees how a slow link gives them
constexpr std::size_t block_bytes_max = 32u << 10;
constexpr std::uint64_t bytes_with_one_max = 8u << 20;
constexpr std::uint64_t bytes_before_link_max = 512u << 10;  // until the link is seen to move
constexpr Duration fill_time = 1500ms;
constexpr Duration fill_time_max = 4s;  // of a slow link: so long TCP mends what its queue lost
constexpr std::uint64_t bytes_telling = 2u << 20;  // are enough after fill_time
constexpr Duration answer_max = 2s;
constexpr Duration report_max = 3s;  // behind all that waits in the partner's link
constexpr Duration serve_max = answer_max + fill_time_max + report_max;
constexpr Duration mark_apart = 10ms;
constexpr double busier_share = 0.7;  // of a probe: without TCP's slow start
constexpr Duration look = 20ms;
constexpr std::size_t served_at_once_max = 3;  // they share the link; who probes has others as well
constexpr Duration one_peer_pause = 5s;     // between two probes that are served for the same peer
constexpr double spare_uplinks = 2;         // as much as came: partners serve others meanwhile
constexpr double round_seconds_min = 0.25;  // that a vector takes; less is not worth a probe

// The next block after so many bytes: a fast link is not to cost many messages.
std::size_t block_after(std::uint64_t bytes) {
    return std::clamp(static_cast<std::size_t>(bytes / 16), block_bytes_min, block_bytes_max);
}

// More than was sent is nobody's word; moments that do not rise are nobody's either.
bool is_possible(const ProbeReport& report, std::uint64_t sent) {
    return report.milliseconds.size() == report.bytes.size() && !report.bytes.empty() &&
           report.bytes.back() <= sent && report.milliseconds.back() <= serve_max / 1ms &&
           std::ranges::is_sorted(report.milliseconds) && std::ranges::is_sorted(report.bytes);
}

// A partner's notes. Marks are some time apart: of bytes between two, the first one tells.
void note_arrival(ProbeReport& report, Duration since, std::uint64_t bytes) {
    const auto now = static_cast<std::uint32_t>(since / 1ms);
    const auto total = static_cast<std::uint32_t>(bytes);
    const bool near =
        !report.milliseconds.empty() && now < report.milliseconds.back() + mark_apart / 1ms;
    if (near || report.bytes.size() == probe_marks_max) {
        report.bytes.back() = total;
        return;
    }
    report.milliseconds.push_back(now);
    report.bytes.push_back(total);
}

// More goes over a link than a relay's greetings.
constexpr std::uint64_t link_used_bytes = 1u << 20;

Error round_has_begun() { return Error(ErrorKind::overloaded, "a round has begun"); }

double rate_of(const Throughput& link) {
    const double busiest = link.bytes_per_s();
    return busiest > 0 ? busiest : link_rate({{link.bytes(), link.seconds()}});
}

// The rate of a link that carried all this at the same time, and was full for so long. Partners
// began as the first bytes came; the slowest get theirs when the link is idle again.
double rate_of(const std::vector<ProbeReport>& reports, double full_s) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> arrivals;  // milliseconds, bytes
    for (const ProbeReport& report : reports)
        for (std::size_t i = 0; i < report.bytes.size(); ++i)
            arrivals.emplace_back(report.milliseconds[i],
                                  report.bytes[i] - (i == 0 ? 0 : report.bytes[i - 1]));
    std::ranges::sort(arrivals);
    Throughput link(busier_share);
    for (const auto& [milliseconds, bytes] : arrivals)
        if (milliseconds <= full_s * 1e3) link.add(bytes, TimePoint{milliseconds * 1ms});
    return rate_of(link);
}

}  // namespace

// One way of a probe, as the peer that measures sees it.
struct BandwidthProbe::Filling {
    Filling(Way which, const p2p::Host& host) : way(which), meter(host, busier_share) {}
    const Throughput& link() const { return way == Way::up ? meter.up() : meter.down(); }

    Way way;
    LinkMeter meter;
    std::vector<std::shared_ptr<p2p::MessageStream>> streams;
    std::vector<ProbeReport> reports;  // of partners that took
    TimePoint enough;                  // if there were bytes_telling
    TimePoint until;
    std::size_t sending = 0;  // streams that still send, or are read from
};

BandwidthProbe::BandwidthProbe(runtime::Node node, p2p::Host& host, BandwidthProbeOptions options)
    : node_(node),
      host_(host),
      options_(std::move(options)),
      random_(node_.random.fork("line probe")) {}

void BandwidthProbe::round_gave(const LinkRates& rates, bool as_planned) {
    const auto gave = as_planned ? &LinkEstimate::round_as_planned_gave : &LinkEstimate::round_gave;
    (upload_.*gave)(rates.upload);
    (download_.*gave)(rates.download);
}

bool BandwidthProbe::goes_on(const Filling& filling) const {
    const TimePoint now = node_.clock.now();
    return options_.idle() && now < filling.until &&
           (now < filling.enough || filling.link().bytes() < bytes_telling);
}

// A small vector takes a slow link long as well, but then rounds are long enough to tell, and a
// probe would fill that link for as long as many of them.
bool BandwidthProbe::pays() const {
    return options_.vector_bytes > options_.rate_unknown * round_seconds_min;
}

bool BandwidthProbe::wants(Way way) const {
    if (options_.granted_is_true) return false;
    return way == Way::up ? upload_.wants_probe() : download_.wants_probe();
}

std::vector<PeerId> BandwidthProbe::candidates() const {
    std::vector<PeerId> peers = options_.partners();
    std::erase_if(peers, [this](const PeerId& peer) { return !host_.is_connected(peer); });
    return peers;
}

Task<void> BandwidthProbe::run() {
    Duration pause = options_.pauses.min;
    while (pays() || options_.vector_bytes == 0) {
        co_await node_.clock.sleep_for(random_.duration(pause / 4, pause));
        if (same_machine_ && link_is_used()) {
            same_machine_ = false;
            ask_again();
            pause = options_.pauses.min;
        }
        if (same_machine_ || serving_ > 0 || !options_.idle() || !pays() || !wanted()) continue;
        probing_ = true;
        const bool measured = co_await probe();
        probing_ = false;
        pause = measured ? options_.pauses.min : std::min(pause * 3 / 2, options_.pauses.max);
    }
}

std::uint64_t BandwidthProbe::link_bytes() const {
    const runtime::Traffic traffic = host_.traffic();
    return traffic.sent_bytes + traffic.received_bytes;
}

// The first peers were on this machine; now others are there as well.
bool BandwidthProbe::link_is_used() const {
    return link_bytes() > link_bytes_before_ + link_used_bytes;
}

Task<bool> BandwidthProbe::probe() {
    bool measured = false;
    for (const Way way : {Way::up, Way::down}) {
        if (!wants(way) || same_machine_) continue;
        const double rate = co_await fill(way);
        estimate(way).probe_gave(rate);
        measured = measured || rate > 0;
    }
    co_return measured;
}

Task<double> BandwidthProbe::fill(Way way) {
    auto filling = std::make_shared<Filling>(way, host_);
    std::vector<PeerId> partners = candidates();
    random_.shuffle(partners);
    const bool first = !estimate(way).was_probed();
    const std::size_t wanted = std::min(partners.size(), first ? first_partners_max : partners_max);
    for (std::size_t i = 0; i < partners.size() && filling->streams.size() < wanted; i += wanted) {
        std::vector<Task<void>> asking;
        for (std::size_t k = i; k < std::min(i + wanted, partners.size()); ++k)
            asking.push_back(ask(filling, partners[k]));
        co_await runtime::all_of(std::move(asking));
    }
    // With too few of them, what comes about is the partners' links' rates.
    if (filling->streams.empty() || filling->streams.size() * 4 < wanted * 3) {
        for (auto& stream : filling->streams) stream->reset();
        co_return 0;
    }
    filling->enough = node_.clock.now() + fill_time;
    filling->until = node_.clock.now() + fill_time_max;
    filling->sending = filling->streams.size();
    std::vector<Task<void>> all;
    all.push_back(watch(filling));
    for (auto& stream : filling->streams) all.push_back(fill_one(filling, stream));
    co_await runtime::all_of(std::move(all));
    for (auto& stream : filling->streams) stream->reset();
    if (!options_.idle()) co_return 0;  // a round has begun: the link is its
    link_seen_ = link_seen_ || filling->link().bytes() > 0;
    if (!link_seen_) {
        same_machine_ = true;
        link_bytes_before_ = link_bytes();
    }
    if (same_machine_ || way == Way::down) {
        const double rate = rate_of(filling->link());
        if (rate > 0) download_filled_ = gave_less_than_they_could(*filling, rate);
        co_return rate;
    }
    const bool enough = filling->reports.size() * 4 >= filling->streams.size() * 3;
    co_return enough ? rate_of(filling->reports, filling->link().seconds()) : 0;
}

// Else what came is their links' rate, and says of ours how much it carries at least.
bool BandwidthProbe::gave_less_than_they_could(const Filling& filling, double rate) const {
    double uplinks = 0;
    for (const auto& stream : filling.streams) uplinks += options_.uplink_of(stream->remote());
    return uplinks >= rate * spare_uplinks;
}

Task<void> BandwidthProbe::ask(std::shared_ptr<Filling> filling, PeerId partner) {
    const TimePoint deadline = node_.clock.now() + answer_max;
    auto opened = co_await host_.open_stream(partner, probe_method, deadline);
    if (!opened) co_return;
    std::shared_ptr<p2p::MessageStream> stream = *std::move(opened);
    ProbeRequest request;
    request.prober_sends = filling->way == Way::up;
    Bytes message = wire::encode(request);
    const auto written = co_await stream->write(std::move(message));
    if (!written) co_return;
    auto reading = stream->read();
    const auto reply = co_await runtime::with_deadline(
        node_.clock, deadline, "a partner of a probe", std::move(reading));
    if (reply && reply->has_value())
        filling->streams.push_back(std::move(stream));
    else
        stream->reset();
}

// The prober's side of one stream.
Task<void> BandwidthProbe::fill_one(std::shared_ptr<Filling> filling,
                                    std::shared_ptr<p2p::MessageStream> stream) {
    Bytes begin(1);
    const auto written = co_await stream->write(std::move(begin));
    if (written && filling->way == Way::up) co_await give(filling, stream);
    if (written && filling->way == Way::down) co_await take(filling, stream);
    --filling->sending;
}

Task<void> BandwidthProbe::give(std::shared_ptr<Filling> filling,
                                std::shared_ptr<p2p::MessageStream> stream) {
    const auto given = co_await give_blocks(filling, stream);
    if (!given) co_return;
    auto reading = stream->read();
    const auto message = co_await runtime::with_deadline(
        node_.clock, filling->until + report_max, "what came of a probe", std::move(reading));
    if (!message || !message->has_value()) co_return;
    auto report = wire::decode<ProbeReport>(***message);
    if (report && is_possible(*report, *given)) filling->reports.push_back(*std::move(report));
}

// Bytes, when it was enough.
Task<Result<std::uint64_t>> BandwidthProbe::give_blocks(
    std::shared_ptr<Filling> filling, std::shared_ptr<p2p::MessageStream> stream) {
    const SharedBytes blocks{Bytes(block_bytes_max)};
    std::uint64_t bytes = 0;
    while (goes_on(*filling) && bytes < bytes_with_one_max) {
        if (bytes >= bytes_before_link_max && filling->link().bytes() == 0) {
            co_await node_.clock.sleep_for(look);
            continue;
        }
        Bytes head;
        SharedBytes block = blocks.part(0, block_after(bytes));
        bytes += block.size();
        auto writing = stream->write_with_body(std::move(head), std::move(block));
        const TimePoint deadline = filling->until + report_max;
        DEDLOC_CO_TRY_VOID(co_await runtime::with_deadline(
            node_.clock, deadline, "a block of a probe", std::move(writing)));
    }
    if (!options_.idle()) co_return round_has_begun();
    DEDLOC_CO_TRY_VOID(co_await stream->finish());
    co_return bytes;
}

Task<void> BandwidthProbe::take(std::shared_ptr<Filling> filling,
                                std::shared_ptr<p2p::MessageStream> stream) {
    std::uint64_t bytes = 0;
    while (goes_on(*filling) && bytes < bytes_with_one_max) {
        auto reading = stream->read();
        const auto message = co_await runtime::with_deadline(
            node_.clock, filling->until, "a block of a probe", std::move(reading));
        if (!message || !message->has_value()) co_return;
        bytes += (**message)->size();
    }
}

Task<void> BandwidthProbe::watch(std::shared_ptr<Filling> filling) {
    filling->meter.observe(node_.clock.now());
    while (goes_on(*filling) && filling->sending > 0) {
        co_await node_.clock.sleep_for(look);
        filling->meter.observe(node_.clock.now());
    }
}

// ---- as a partner -------------------------------------------------------------------------------

Task<void> BandwidthProbe::serve(std::unique_ptr<p2p::MessageStream> owned) {
    std::shared_ptr<p2p::MessageStream> stream = std::move(owned);
    auto answering = answer(stream);
    (void)co_await runtime::with_deadline(
        node_.clock, node_.clock.now() + serve_max, "somebody's probe", std::move(answering));
    stream->reset();
}

bool BandwidthProbe::has_time_for(const PeerId& peer, bool peer_sends) {
    const TimePoint now = node_.clock.now();
    std::erase_if(served_,
                  [now](const auto& entry) { return now - entry.second > one_peer_pause; });
    return !probing_ && serving_ < served_at_once_max && options_.idle() &&
           !served_.contains({peer, peer_sends});
}

Task<Result<void>> BandwidthProbe::answer(std::shared_ptr<p2p::MessageStream> stream) {
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
    served_[{stream->remote(), request.prober_sends}] = node_.clock.now();
    const base::Counted counted(serving_);
    if (request.prober_sends) co_return co_await serve_taking(stream);
    co_return co_await serve_giving(stream);
}

Task<Result<void>> BandwidthProbe::serve_giving(std::shared_ptr<p2p::MessageStream> stream) {
    const SharedBytes blocks{Bytes(block_bytes_max)};
    for (std::uint64_t bytes = 0; bytes < bytes_with_one_max;) {
        if (!options_.idle()) co_return round_has_begun();
        Bytes head;
        SharedBytes block = blocks.part(0, block_after(bytes));
        bytes += block.size();
        DEDLOC_CO_TRY_VOID(co_await stream->write_with_body(std::move(head), std::move(block)));
    }
    co_return Result<void>();
}

Task<Result<void>> BandwidthProbe::serve_taking(std::shared_ptr<p2p::MessageStream> stream) {
    const TimePoint begun = node_.clock.now();
    ProbeReport report;
    std::uint64_t bytes = 0;
    for (;;) {
        auto message = co_await stream->read();
        if (!message) co_return std::move(message).error();
        if (!message->has_value()) break;
        if (!options_.idle()) co_return round_has_begun();
        bytes += (**message)->size();
        if (bytes > bytes_with_one_max + block_bytes_max)
            co_return make_error(ErrorKind::peer_broke_protocol, "a probe of more than agreed");
        note_arrival(report, node_.clock.now() - begun, bytes);
    }
    Bytes message = wire::encode(report);
    DEDLOC_CO_TRY_VOID(co_await stream->write(std::move(message)));
    co_return co_await stream->finish();
}

}  // namespace dedloc::links
