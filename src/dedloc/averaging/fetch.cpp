#include "dedloc/averaging/fetch.h"

#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// Each costs a round trip: so many at once that a line is full, and no more.
constexpr std::size_t fetches_at_once_min = 4;
constexpr std::size_t fetches_at_once_max = 32;
constexpr std::uint64_t fetched_at_once_bytes = 2u << 20;

std::size_t fetches_at_once(const RoundContext& context, std::size_t parts_in_all) {
    const std::uint64_t bytes = context.options.vector_count * sizeof(float);
    const std::uint64_t part_bytes = bytes / std::max<std::size_t>(1, parts_in_all) + 1;
    return std::clamp<std::size_t>(
        fetched_at_once_bytes / part_bytes, fetches_at_once_min, fetches_at_once_max);
}

// Whoever did not answer is asked last from now on.
void demote(std::vector<PeerId>& candidates, const PeerId& peer) {
    const auto found = std::find(candidates.begin(), candidates.end(), peer);
    if (found != candidates.end()) std::rotate(found, found + 1, candidates.end());
}

Task<Result<SharedBytes>> ask_for_part(RoundContext& context,
                                       FinishedPart header,
                                       std::shared_ptr<std::vector<PeerId>> candidates,
                                       PeerId candidate,
                                       TimePoint until) {
    Fetch request;
    request.digest = header.digest;
    Bytes message = wire::encode(request);
    auto reply = co_await context.host.call(candidate, fetch_method, std::move(message), until);
    if (!reply) {
        if (reply.error().kind() != ErrorKind::not_found) demote(*candidates, candidate);
        co_return std::move(reply).error();
    }
    const SharedBytes whole(*std::move(reply));
    auto data = decode_with_body<FinishedPartData>(whole);
    if (!data) {
        context.refuse(
            RoundNote::Kind::refused_message, candidate, "an average that was fetched: unreadable");
        co_return std::move(data).error();
    }
    SharedBytes encoded = whole.part(data->encoded);
    auto work = [encoded] { return security::sha256(*encoded); };
    const Digest digest = co_await context.node.workers.run(std::move(work));
    if (digest != header.digest) {
        demote(*candidates, candidate);
        context.refuse(RoundNote::Kind::refused_message,
                       candidate,
                       "an average that was fetched: other bytes than were asked for");
        co_return make_error(ErrorKind::peer_broke_protocol, "other bytes than were asked for");
    }
    context.parts.put(header, encoded);
    co_return encoded;
}

Task<void> fetch_some(RoundContext& context,
                      std::shared_ptr<std::vector<FinishedPart>> parts,
                      std::shared_ptr<std::size_t> next,
                      std::shared_ptr<std::vector<PeerId>> candidates,
                      TimePoint deadline,
                      std::shared_ptr<Result<void>> outcome) {
    while (*outcome && *next < parts->size()) {
        const FinishedPart header = (*parts)[(*next)++];
        auto fetched = co_await fetch_part(context, header, candidates, deadline);
        if (!fetched) *outcome = std::move(fetched).error();
    }
}

}  // namespace

Task<Result<SharedBytes>> fetch_part(RoundContext& context,
                                     FinishedPart header,
                                     std::shared_ptr<std::vector<PeerId>> candidates,
                                     TimePoint deadline) {
    if (auto here = context.parts.find(header.digest)) co_return here;
    if (context.arrival) co_await context.arrival(header, deadline);
    if (auto here = context.parts.find(header.digest)) co_return here;
    // First everybody briefly, so that one who sleeps costs little; then with all the patience
    // that slow links need.
    for (const bool patient : {false, true}) {
        const std::vector<PeerId> order = *candidates;  // others may change it meanwhile
        for (const PeerId& candidate : order) {
            if (candidate == context.me()) continue;
            if (context.now() >= deadline) break;
            const Duration share = patient
                                       ? std::max<Duration>((deadline - context.now()) / 4, 200ms)
                                       : context.patience();
            const TimePoint until = std::min(deadline, context.now() + share);
            auto fetched = co_await ask_for_part(context, header, candidates, candidate, until);
            if (fetched) co_return fetched;
        }
    }
    co_return make_error(
        ErrorKind::not_found, "nobody who was asked has averaged part {}", header.part);
}

Task<Result<void>> fetch_parts(RoundContext& context,
                               std::vector<FinishedPart> parts,
                               std::vector<PeerId> candidates,
                               TimePoint deadline) {
    const std::size_t lanes_max = fetches_at_once(context, parts.size());
    auto missing = std::make_shared<std::vector<FinishedPart>>();
    for (FinishedPart& part : parts)
        if (!context.parts.find(part.digest)) missing->push_back(std::move(part));
    auto shared = std::make_shared<std::vector<PeerId>>(std::move(candidates));
    std::stable_partition(shared->begin(), shared->end(), [&](const PeerId& peer) {
        return context.host.is_connected(peer);
    });
    auto next = std::make_shared<std::size_t>(0);
    auto outcome = std::make_shared<Result<void>>();
    std::vector<Task<void>> lanes;
    for (std::size_t i = 0; i < std::min(lanes_max, missing->size()); ++i)
        lanes.push_back(fetch_some(context, missing, next, shared, deadline, outcome));
    co_await runtime::all_of(std::move(lanes));
    co_return *outcome;
}

Result<Bytes> answer_fetch(const PartStore& parts, ByteView request_bytes) {
    DEDLOC_TRY(const Fetch request, wire::decode<Fetch>(request_bytes));
    FinishedPartData reply;
    SharedBytes encoded;
    if (!request.digest.is_zero()) {
        encoded = parts.find(request.digest);
    } else if (const auto header = parts.header(request.plan, request.part)) {
        reply.header = *header;
        encoded = parts.find(header->digest);
    }
    if (!encoded) return make_error(ErrorKind::not_found, "that average is not here");
    reply.encoded = *encoded;
    return wire::encode(reply);
}

}  // namespace dedloc::averaging
