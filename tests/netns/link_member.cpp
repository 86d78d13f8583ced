#include "tests/netns/link_member.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dedloc/measure/need.h"
#include "dedloc/measure/round_member.h"
#include "dedloc/monitor/json_line.h"

namespace dedloc::lab {
namespace {

using allreduce::RoundInput;
using Json = nlohmann::ordered_json;

constexpr Duration pause_max = 15s;   // between rounds
constexpr Duration probes_max = 90s;  // of all members, who share each other's lines

measure::RoundMemberOptions options_of(const LinkMemberCommand& command) {
    measure::RoundMemberOptions options;
    options.run = "links";
    options.rank = command.rank;
    options.size = command.size;
    options.aggregators = command.aggregators;
    options.congestion_control = command.congestion_control;
    options.listen = fmt::format("/ip4/{}/tcp/4001", command.ip);
    options.folder = command.folder;
    options.timeout = 600s;
    options.round.codec = measure::need(codec::codec_from_string(command.codec));
    options.round.vector_count = command.elements;
    options.round.deadline_max = options.timeout;
    options.round.rate_unknown = command.rate_unknown;
    options.round.upload_max = command.granted_up;
    options.round.download_max = command.granted_down;
    options.round.granted_is_true = command.granted_is_true;
    return options;
}

Json report(const measure::RoundMember& member,
            const LinkMemberCommand& command,
            TimePoint before,
            TimePoint after) {
    const consensus::Decision& decision = member.decision();
    const consensus::RoundPlan& plan = member.plan();
    double owned = 0;
    double included = 0;
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        const auto count = static_cast<double>(plan.parts[i].count);
        if (plan.members[plan.parts[i].owner].peer == member.id()) owned += count;
        for (std::size_t m = 0; m < plan.members.size(); ++m)
            if (decision.parts[i].includes(m))
                included += count / (command.size - command.aggregators);
    }
    const auto elements = static_cast<double>(command.elements);
    return {{"begin", to_seconds(before.since_start)},
            {"end", to_seconds(after.since_start)},
            {"decision", member.decision_digest().hex()},
            {"owned", owned / elements},
            {"included", included / elements},
            {"parts", plan.parts.size()},
            {"upload", member.upload_bytes_per_s()},
            {"download", member.download_bytes_per_s()},
            {"leads", plan.leader == member.id()},
            {"rmse", command.rank == 0 ? member.error() : 0.0}};
}

Task<void> take_part(measure::RoundMember& member, const LinkMemberCommand& command) {
    co_await member.start();
    co_await member.probe_line(member.clock().now() + probes_max);
    const std::vector<float> sum = member.contribution();
    member.leave_note(fmt::format("ready-{}", command.rank), "");
    for (std::uint64_t round = 0;; ++round) {
        std::string go = fmt::format("go-{}", round);
        std::string how = co_await member.read_note(go);
        if (how == "end") break;
        auto input = std::make_shared<RoundInput>();
        input->sum = sum;
        input->input.fresh = {round, round + 1};
        const TimePoint before = member.clock().now();
        co_await member.do_round(input);
        const Json done = report(member, command, before, member.clock().now());
        // Between rounds lines are idle, as in training.
        co_await member.probe_line(member.clock().now() + pause_max);
        member.leave_note(fmt::format("done-{}-{}", round, command.rank), monitor::json_line(done));
    }
    co_await member.stop();
}

}  // namespace

int run_link_member(const LinkMemberCommand& command) {
    runtime::Loop loop;
    std::unique_ptr<measure::RoundMember> member;
    try {
        member = std::make_unique<measure::RoundMember>(options_of(command), loop);
        loop.run_task(take_part(*member, command));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "dedloc-lab link-member %u: %s\n", command.rank, error.what());
        std::_Exit(1);  // tasks still run; there is nothing to save
    }
    return 0;
}

}  // namespace dedloc::lab
