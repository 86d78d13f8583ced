#include "dedloc/allreduce/fetch.h"

#include <algorithm>
#include <set>

#include "dedloc/runtime/event.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

// Each costs a round trip: so many at once that a link is full, and no more. A slow link is full
// with the few that are asked for at first, and several may fetch over it: where none comes in time
// fewer are asked for, or what is sent too late for us would fill it for ever.
constexpr std::size_t fetches_at_first = 4;
constexpr std::size_t fetches_at_least = 2;  // at the next fetch
constexpr std::size_t fetches_at_once_max = 32;
constexpr std::uint64_t fetched_at_once_bytes = 2u << 20;
constexpr Duration soon = 500ms;  // a part that came sooner allows one more at once
constexpr Duration late = 2s;     // one that came later, one less
constexpr Duration slow = 500ms;  // from there on a co-downloader's round trip is worth it
constexpr std::size_t co_downloaders_asked_max = 2;

// How many parts before this one a peer begins.
std::size_t begins_before(std::uint32_t part, const PeerId& peer, std::size_t parts_in_all) {
    const std::size_t first = std::hash<PeerId>{}(peer) % parts_in_all;
    return (part + parts_in_all - first) % parts_in_all;
}

// Members that fetch the same at once begin at different parts.
void begin_elsewhere(std::vector<consensus::FinishedPart>& parts,
                     std::size_t all,
                     const PeerId& me) {
    const auto first =
        std::ranges::min_element(parts, {}, [&](const consensus::FinishedPart& part) {
            return begins_before(part.part, me, all);
        });
    std::rotate(parts.begin(), first, parts.end());
}

// The co-downloaders that had it before we did, if they are as quick: the nearest first.
std::vector<PeerId> co_downloaders_ahead(const std::vector<PeerId>& co_downloaders,
                                         const std::set<PeerId>& silent,
                                         std::size_t all,
                                         const PeerId& me,
                                         std::uint32_t part) {
    std::vector<std::pair<std::size_t, PeerId>> ahead;
    for (const PeerId& co_downloader : co_downloaders)
        if (!silent.contains(co_downloader) &&
            begins_before(part, co_downloader, all) < begins_before(part, me, all))
            ahead.emplace_back(begins_before(part, co_downloader, all), co_downloader);
    std::ranges::sort(ahead);
    std::vector<PeerId> nearest;
    for (auto& [distance, co_downloader] : ahead)
        if (nearest.size() < co_downloaders_asked_max) nearest.push_back(std::move(co_downloader));
    return nearest;
}

}  // namespace

struct PartFetcher::Fetching {
    explicit Fetching(runtime::Executor executor) : changed(std::move(executor)) {}
    std::vector<consensus::FinishedPart> parts;
    std::size_t next = 0;
    std::size_t parts_in_all = 0;
    std::vector<PeerId> members;
    std::vector<PeerId> candidates;
    std::vector<PeerId> co_downloaders;
    std::set<PeerId> silent;  // they did not answer
    std::size_t at_once = fetches_at_first;
    std::size_t at_once_max = fetches_at_once_max;
    Duration usual{0};  // until who has a part has sent it, smoothed
    Result<void> outcome;
    runtime::Event changed;

    bool ended() const { return !outcome || next >= parts.size(); }
    void came(Duration took) {
        if (took < soon && at_once < at_once_max) ++at_once;
        if (took > late && at_once > 1) --at_once;
    }
    void failed(Error error) {
        if (outcome) at_once = std::max<std::size_t>(at_once / 2, 1);
        outcome = std::move(error);
    }
    // A peer that did not answer is asked last from now on.
    void demote(const PeerId& peer) {
        silent.insert(peer);
        const auto found = std::find(candidates.begin(), candidates.end(), peer);
        if (found != candidates.end()) std::rotate(found, found + 1, candidates.end());
    }
    std::vector<PeerId> order_for(const consensus::FinishedPart& part) const {
        std::vector<PeerId> order = candidates;
        if (part.owner >= members.size() || silent.contains(members[part.owner])) return order;
        const auto owner = std::find(order.begin(), order.end(), members[part.owner]);
        if (owner != order.end()) std::rotate(order.begin(), owner, owner + 1);
        return order;
    }
};

std::size_t PartFetcher::at_once_max(std::size_t parts_in_all) const {
    const std::uint64_t bytes = environment_.options.vector_count * sizeof(float);
    const std::uint64_t part_bytes = bytes / std::max<std::size_t>(1, parts_in_all) + 1;
    return std::clamp<std::size_t>(
        fetched_at_once_bytes / part_bytes, fetches_at_first, fetches_at_once_max);
}

Task<Result<SharedBytes>> PartFetcher::ask_for_part(consensus::FinishedPart header,
                                                    std::shared_ptr<Fetching> fetching,
                                                    PeerId candidate,
                                                    TimePoint until) {
    Fetch request;
    request.digest = header.digest;
    Bytes message = wire::encode(request);
    const TimePoint asked = environment_.now();
    auto reply =
        co_await environment_.host.call(candidate, fetch_method, std::move(message), until);
    if (!reply) {
        if (reply.error().kind() != ErrorKind::not_found) fetching->demote(candidate);
        co_return std::move(reply).error();
    }
    fetching->usual = smoothed(fetching->usual, environment_.now() - asked);
    const SharedBytes whole(*std::move(reply));
    auto data = decode_with_body<FinishedPartData>(whole);
    if (!data) {
        environment_.complain_of(candidate, "an average that was fetched: unreadable");
        co_return std::move(data).error();
    }
    SharedBytes encoded = whole.part(data->encoded);
    auto work = [encoded] { return security::hash_list(*encoded); };
    const Digest digest = co_await environment_.node.workers.run(std::move(work));
    if (digest != header.digest) {
        fetching->demote(candidate);
        environment_.complain_of(candidate,
                                 "an average that was fetched: other bytes than were asked for");
        co_return make_error(ErrorKind::peer_broke_protocol, "other bytes than were asked for");
    }
    environment_.parts.put(header, encoded);
    co_return encoded;
}

// Asks one candidate after the other until the bytes are there.
Task<Result<SharedBytes>> PartFetcher::fetch_part(consensus::FinishedPart header,
                                                  std::shared_ptr<Fetching> fetching,
                                                  TimePoint deadline) {
    if (auto here = environment_.parts.find(header.digest)) co_return here;
    const bool one_has_it = fetching->members.size() == 1;
    const Duration brief =
        one_has_it ? std::max<Duration>(environment_.timeouts.answer(), fetching->usual * 2)
                   : environment_.timeouts.answer();
    if (fetching->usual > slow && fetching->co_downloaders.size() > fetching->members.size()) {
        const auto ahead = co_downloaders_ahead(fetching->co_downloaders,
                                                fetching->silent,
                                                fetching->parts_in_all,
                                                environment_.me(),
                                                header.part);
        for (const PeerId& co_downloader : ahead) {
            const TimePoint until = std::min(deadline, environment_.now() + brief);
            auto fetched = co_await ask_for_part(header, fetching, co_downloader, until);
            if (fetched) co_return fetched;
        }
    }
    // First everybody briefly, so that a peer that sleeps costs little; then, with the timeout
    // that slow links need, each that has not said that it lacks the part. What is given up has
    // taken the link as well: not where the others took as long, nor where nobody else could be
    // asked.
    const TimePoint brief_until = environment_.now() + (deadline - environment_.now()) / 4;
    std::vector<PeerId> candidates = fetching->order_for(header);
    std::erase(candidates, environment_.me());
    const bool alone = candidates.size() == 1;
    for (const bool patient : {false, true}) {
        if (alone && !patient) continue;
        std::vector<PeerId> may_have_it;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            if (environment_.now() >= (patient ? deadline : brief_until)) {
                may_have_it.push_back(candidates[i]);
                continue;
            }
            const auto left =
                static_cast<std::int64_t>(std::min<std::size_t>(candidates.size() - i, 4));
            const Duration share =
                patient ? std::max<Duration>((deadline - environment_.now()) / left, 200ms) : brief;
            const TimePoint until = std::min(deadline, environment_.now() + share);
            auto fetched = co_await ask_for_part(header, fetching, candidates[i], until);
            if (fetched) co_return fetched;
            if (fetched.error().kind() != ErrorKind::not_found)
                may_have_it.push_back(candidates[i]);
        }
        candidates = std::move(may_have_it);
    }
    co_return make_error(
        ErrorKind::not_found, "nobody who was asked has averaged part {}", header.part);
}

Task<void> PartFetcher::fetch_some(std::shared_ptr<Fetching> fetching,
                                   std::size_t lane,
                                   TimePoint deadline) {
    while (!fetching->ended()) {
        if (lane >= fetching->at_once) {
            (void)co_await fetching->changed.wait_until(environment_.node.clock, deadline);
            if (environment_.now() >= deadline) co_return;
            continue;
        }
        const consensus::FinishedPart header = fetching->parts[fetching->next++];
        // The rest that its owner still sends comes by itself.
        if (arrival_ && !environment_.parts.find(header.digest))
            co_await arrival_(header, deadline);
        const TimePoint begun = environment_.now();
        auto fetched = co_await fetch_part(header, fetching, deadline);
        if (fetched)
            fetching->came(environment_.now() - begun);
        else
            fetching->failed(std::move(fetched).error());
        fetching->changed.pulse();
    }
}

std::vector<PeerId> peers_of(const std::vector<consensus::PlanMember>& members) {
    std::vector<PeerId> peers;
    for (const consensus::PlanMember& member : members) peers.push_back(member.peer);
    return peers;
}

Task<Result<void>> PartFetcher::fetch(std::vector<consensus::FinishedPart> parts,
                                      PartSources sources,
                                      TimePoint deadline) {
    auto fetching = std::make_shared<Fetching>(environment_.node.executor);
    fetching->at_once_max = at_once_max(parts.size());
    const std::size_t before = at_once_;
    const std::size_t wanted = before > 0 ? std::max(before, fetches_at_least) : fetches_at_first;
    fetching->at_once = std::min(wanted, fetching->at_once_max);
    fetching->usual = part_fetched_in_;
    for (consensus::FinishedPart& part : parts)
        if (!environment_.parts.find(part.digest)) fetching->parts.push_back(std::move(part));
    begin_elsewhere(fetching->parts, parts.size(), environment_.me());
    fetching->parts_in_all = parts.size();
    fetching->members = std::move(sources.members);
    fetching->candidates = std::move(sources.candidates);
    fetching->co_downloaders = std::move(sources.co_downloaders);
    std::stable_partition(fetching->candidates.begin(),
                          fetching->candidates.end(),
                          [&](const PeerId& peer) { return environment_.host.is_connected(peer); });
    std::vector<Task<void>> lanes;
    for (std::size_t i = 0; i < std::min(fetching->at_once_max, fetching->parts.size()); ++i)
        lanes.push_back(fetch_some(fetching, i, deadline));
    co_await runtime::all_of(std::move(lanes));
    at_once_ = fetching->at_once;
    part_fetched_in_ = fetching->usual;
    co_return fetching->outcome;
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

}  // namespace dedloc::allreduce
