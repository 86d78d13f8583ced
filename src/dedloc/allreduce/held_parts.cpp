#include "dedloc/allreduce/held_parts.h"

#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {
namespace {

// The search has this share of what is left of a round; the rest is for reducing again.
constexpr int search_share = 4;

constexpr Duration check_part_again = 50ms;  // whether a part that another was asked for has come

struct Search {
    Search(const TransferEnvironment& where,
           std::shared_ptr<Exchange> whose,
           std::vector<std::uint32_t> which)
        : environment(where),
          exchange(std::move(whose)),
          parts(std::move(which)),
          answered(where.node.executor) {
        go_on();
    }

    // As long as parts come; else what is left of the round is needed to reduce them again.
    void go_on() {
        const TimePoint end = exchange->round_deadline();
        const Duration left = end - environment.now();
        until = std::min(end,
                         environment.now() +
                             std::max(environment.timeouts.within_answer(), left / search_share));
    }

    const TransferEnvironment& environment;
    std::shared_ptr<Exchange> exchange;
    std::vector<std::uint32_t> parts;
    std::set<std::uint32_t> asked_for;  // of somebody, now
    TimePoint until;
    runtime::Event answered;
};

// The next part to ask a member for; `wait`: all that is left is asked of others just now.
std::optional<std::uint32_t> next_part(const Search& search,
                                       const std::set<std::uint32_t>& asked,
                                       std::size_t first,
                                       bool& wait) {
    wait = false;
    for (std::size_t i = 0; i < search.parts.size(); ++i) {
        const std::uint32_t part = search.parts[(first + i) % search.parts.size()];
        if (search.exchange->finished().contains(part) || asked.contains(part)) continue;
        if (!search.asked_for.contains(part)) return part;
        wait = true;
    }
    return std::nullopt;
}

// True: this member may be asked again.
Task<bool> ask_for(std::shared_ptr<Search> search, PeerId member, std::uint32_t part) {
    const TransferEnvironment& environment = search->environment;
    Fetch request;
    request.plan = search->exchange->digest();
    request.part = part;
    Bytes bytes = wire::encode(request);
    const TimePoint deadline =
        std::min(search->until, environment.now() + environment.timeouts.within_answer());
    auto reply = co_await environment.host.call(member, fetch_method, std::move(bytes), deadline);
    if (!reply) co_return reply.error().kind() == ErrorKind::not_found;
    const SharedBytes whole(*std::move(reply));
    auto data = decode_with_body<FinishedPartData>(whole);
    if (data && data->header.part == part) {
        SharedBytes encoded = whole.part(data->encoded);
        const bool adopted = co_await search->exchange->collected().adopt(std::move(data->header),
                                                                          std::move(encoded));
        if (adopted) {
            search->go_on();
            co_return true;
        }
    }
    environment.complain_of(member, "an average that was fetched: not what its owner signed");
    co_return false;
}

// Members begin at different parts: `first`.
Task<void> ask_member(std::shared_ptr<Search> search, PeerId member, std::size_t first) {
    std::set<std::uint32_t> asked;
    while (search->environment.now() < search->until) {
        bool wait = false;
        const auto part = next_part(*search, asked, first, wait);
        if (!part && !wait) co_return;
        if (!part) {
            const TimePoint until = search->environment.now() + check_part_again;
            (void)co_await search->answered.wait_until(search->environment.node.clock, until);
            continue;
        }
        asked.insert(*part);
        search->asked_for.insert(*part);
        const bool go_on = co_await ask_for(search, member, *part);
        search->asked_for.erase(*part);
        search->answered.pulse();
        if (!go_on) co_return;
    }
}

}  // namespace

Task<void> collect_held_parts(const TransferEnvironment& environment,
                              std::shared_ptr<Exchange> exchange,
                              std::vector<PeerId> members,
                              std::vector<std::uint32_t> parts) {
    auto search = std::make_shared<Search>(environment, std::move(exchange), std::move(parts));
    std::vector<Task<void>> asking;
    for (std::size_t i = 0; i < members.size(); ++i)
        asking.push_back(ask_member(search, members[i], i));
    co_await runtime::all_of(std::move(asking));
}

}  // namespace dedloc::allreduce
