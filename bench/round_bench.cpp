// One member of a group of processes on loopback that does whole rounds with the real engine and
// the real host (measure/round_member.h).
//
//   round_bench --rank R --size P --elements E --rounds N --codec NAME [--robust] --folder DIR
//
// DIR is empty at the start and shared by the group. Each rank prints one JSON object: the time
// from the moment when everybody is ready until it has every averaged number, how long of that it
// took until the averages were committed and here in bytes, and its processor time until everybody
// has the numbers. Every average is checked, and its relative root mean square error
// reported. A round whose average lacks somebody's contribution is not measured but repeated, once
// (`rounds_repeated`): leaving out who is slow would be fast.
//
// Rounds before the first measured one warm up connections, make everybody a voter, and fill what
// keeps old rounds: memory that is used for the first time costs a page fault for every 4 KiB.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dedloc/measure/median.h"
#include "dedloc/measure/need.h"
#include "dedloc/measure/notes.h"
#include "dedloc/measure/round_member.h"
#include "dedloc/runtime/heap.h"

#include "bench/cpu_seconds.h"

namespace dedloc {
namespace {

using allreduce::RoundInput;
using bench::cpu_seconds;
using measure::median;
using measure::RoundMember;

struct Arguments {
    std::uint32_t rank = 0;
    std::uint32_t size = 4;
    std::uint64_t elements = 1u << 24;
    int rounds = 5;
    std::string codec = "fp32";
    std::string folder;
    int late_rounds = 0;
    bool robust = false;  // clipped, and proved
};

struct Measured {
    std::vector<double> seconds;
    std::vector<double> exchange;
    std::vector<double> cpu;
    std::vector<double> rmse;
    int rounds_repeated = 0;
};

constexpr int warm_up_rounds = 8;          // until what old rounds hold is there
constexpr auto late_max = 15s;             // that a rank is late on purpose
constexpr std::size_t inputs_in_turn = 4;  // old exchanges hold on to a few

measure::RoundMemberOptions options_of(const Arguments& arguments) {
    measure::RoundMemberOptions options;
    options.run = "round_bench";
    options.rank = arguments.rank;
    options.size = arguments.size;
    options.listen = "/ip4/127.0.0.1/tcp/0";
    options.folder = arguments.folder;
    options.threads = 2;
    options.round.codec = measure::need(codec::codec_from_string(arguments.codec));
    options.round.vector_count = arguments.elements;
    if (arguments.robust) {
        // About the length of the contributions, numbers of variance 1: some are clipped.
        options.round.clip_rule.tau = std::sqrt(static_cast<double>(arguments.elements));
        options.round.reducer =
            std::make_shared<allreduce::CenteredClipReducer>(options.round.clip_rule);
        options.round.proves = true;
    }
    return options;
}

Task<void> all_reach(RoundMember& member, const Arguments& arguments, std::string place) {
    member.leave_note(place + "-" + std::to_string(arguments.rank), "");
    for (std::uint32_t rank = 0; rank < arguments.size; ++rank) {
        std::string name = place + "-" + std::to_string(rank);
        co_await member.read_note(name);
    }
}

std::vector<std::shared_ptr<RoundInput>> make_inputs(const RoundMember& member) {
    std::vector<std::shared_ptr<RoundInput>> inputs;
    const std::vector<float> sum = member.contribution();
    for (std::size_t i = 0; i < inputs_in_turn; ++i) {
        inputs.push_back(std::make_shared<RoundInput>());
        inputs.back()->sum = sum;
    }
    return inputs;
}

// Holds up this process, its answers to others included, until they have done the round without it.
// On a busy machine another one may be late as well, and no majority be left for that.
void come_late(const Arguments& arguments, int round) {
    const std::string done = fmt::format("done-{}-{}", round, arguments.rank == 0 ? 1 : 0);
    const auto until = std::chrono::steady_clock::now() + late_max;
    while (!measure::read_note(arguments.folder, done)) {
        if (std::chrono::steady_clock::now() > until)
            throw std::runtime_error("the others do no round without this rank");
        std::this_thread::sleep_for(10ms);
    }
}

// May the newest round be measured? Everybody sees the same decision, so all repeat it or none.
bool is_whole(const RoundMember& member, bool repeated) {
    const std::vector<std::uint32_t> left_out = member.left_out();
    if (!left_out.empty() && repeated)
        throw std::runtime_error(
            fmt::format("a round and its repetition left out the contribution of rank {}",
                        fmt::join(left_out, ", ")));
    return left_out.empty();
}

Task<void> measure(RoundMember& member, const Arguments& arguments, Measured& measured) {
    co_await member.start();
    const auto inputs = make_inputs(member);
    bool repeated = false;
    const auto wanted = static_cast<std::size_t>(arguments.rounds);
    for (int round = 0; measured.seconds.size() < wanted; ++round) {
        std::string place = "round-" + std::to_string(round);
        co_await all_reach(member, arguments, place);
        const auto number = static_cast<std::uint64_t>(round);
        auto input = inputs[number % inputs.size()];
        input->input.fresh = {number, number + 1};
        if (round >= warm_up_rounds && round < warm_up_rounds + arguments.late_rounds)
            come_late(arguments, round);
        const TimePoint before = member.clock().now();
        const double cpu_before = cpu_seconds();
        co_await member.do_round(input);
        const double seconds = to_seconds(member.clock().now() - before);
        const double exchange = to_seconds(member.exchanged_at() - before);
        // A process that is done checks when all are, and does not hold up its neighbours.
        std::string done = "done-" + std::to_string(round);
        co_await all_reach(member, arguments, done);
        const double cpu = cpu_seconds() - cpu_before;
        const double rmse = member.error();
        if (round < warm_up_rounds) continue;
        const bool whole = is_whole(member, repeated);
        repeated = !whole;
        if (repeated) {
            ++measured.rounds_repeated;
            continue;
        }
        measured.seconds.push_back(seconds);
        measured.exchange.push_back(exchange);
        measured.cpu.push_back(cpu);
        measured.rmse.push_back(rmse);
    }
    std::string end = "end";
    co_await all_reach(member, arguments, end);  // others may need our vote or our parts
    co_await member.stop();
}

void print(const Measured& measured) {
    std::printf(
        "{\"seconds\": %.6f, \"exchange_s\": %.6f, \"seconds_min\": %.6f, \"cpu_s\": %.6f, "
        "\"rmse\": %.3e, \"rounds_repeated\": %d}\n",
        median(measured.seconds),
        median(measured.exchange),
        *std::min_element(measured.seconds.begin(), measured.seconds.end()),
        median(measured.cpu),
        median(measured.rmse),
        measured.rounds_repeated);
}

int run_rounds(const Arguments& arguments) {
    runtime::Loop loop;
    std::unique_ptr<RoundMember> member;
    Measured measured;
    try {
        member = std::make_unique<RoundMember>(options_of(arguments), loop);
        loop.run_task(measure(*member, arguments, measured));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "round_bench, rank %u: %s\n", arguments.rank, error.what());
        std::_Exit(1);  // tasks still run; there is nothing to save
    }
    print(measured);
    return 0;
}

}  // namespace
}  // namespace dedloc

int main(int argc, char** argv) {
    dedloc::Arguments arguments;
    CLI::App app("whole rounds among processes on loopback");
    app.add_option("--rank", arguments.rank)->required();
    app.add_option("--size", arguments.size)->required()->check(CLI::Range(1, 64));
    app.add_option("--elements", arguments.elements)->check(CLI::Range(1, 1 << 28));
    app.add_option("--rounds", arguments.rounds)->check(CLI::Range(1, 10000));
    app.add_option("--codec", arguments.codec)
        ->check(CLI::IsMember({"fp32", "fp16", "bf16", "blockwise8", "sparse"}));
    app.add_flag(
        "--robust", arguments.robust, "averages by CenteredClip, proved before the commit");
    app.add_option("--folder", arguments.folder)->required();
    app.add_option("--late-rounds", arguments.late_rounds, "come too late to so many (for tests)")
        ->check(CLI::Range(0, 2));
    CLI11_PARSE(app, argc, argv);
    dedloc::runtime::keep_freed_memory();  // as dedloc's own program does
    return dedloc::run_rounds(arguments);
}
