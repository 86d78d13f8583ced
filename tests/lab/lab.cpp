#include "tests/lab/lab.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <optional>

#include "dedloc/audit/audit_command.h"
#include "dedloc/base/edit_distance.h"
#include "dedloc/codec/codec.h"

#include "experiments/codecs_command.h"
#include "experiments/experts_command.h"
#include "experiments/grid_command.h"
#include "tests/common/exit_codes.h"
#include "tests/lab/process_commands.h"
#include "tests/netns/link_member.h"
#include "tests/netns/links.h"
#include "tests/netns/longfat.h"
#include "tests/netns/nat_matrix.h"
#include "tests/netns/nat_peer.h"
#include "tests/sim/corpus_command.h"
#include "tests/sim/dht_command.h"
#include "tests/sim/enumerate_command.h"
#include "tests/sim/planted.h"
#include "tests/sim/simulate_command.h"

namespace dedloc::lab {
namespace {

// The codecs that a run may choose.
std::vector<std::string> codec_names() {
    std::vector<std::string> names;
    for (const codec::CodecId id : codec::all_codecs())
        if (codec::codec_from_string(codec::to_string(id)))
            names.emplace_back(codec::to_string(id));
    return names;
}

// The subcommand writes into this; it lives as long as the app.
std::shared_ptr<CodecsCommand> add_codecs_command(CLI::App& app, int& code) {
    auto command = std::make_shared<CodecsCommand>();
    CLI::App* codecs =
        app.add_subcommand("codecs", "error, bytes and speed of every codec, measured here");
    codecs->add_option("--data", command->data, "normal, laplace or spread");
    codecs->add_option("--seed", command->seed, "of the data");
    codecs->add_option("--mebibytes", command->mebibytes, "of the vector for speeds")
        ->check(CLI::Range(1, 4096));
    codecs->add_flag("--json", command->json, "one JSON object as the last line");
    codecs->callback([command, &code] { code = run_codecs(*command); });
    return command;
}

std::shared_ptr<EnumerateCommand> add_enumerate_command(CLI::App& app, int& code) {
    auto command = std::make_shared<EnumerateCommand>();
    CLI::App* enumerate = app.add_subcommand(
        "enumerate", "every message of one step, with every fault at that moment, in virtual time");
    enumerate->add_option("--peers", command->peers, "how many, aggregators among them")
        ->check(CLI::Range(2, 16));
    enumerate
        ->add_option("--group-max",
                     command->group_max,
                     "more trainers than that average in a grid (default: one group of all)")
        ->check(CLI::Range(1, 16));
    enumerate->add_option("--aggregators", command->aggregators, "of the peers, only aggregate")
        ->check(CLI::Range(1, 14));
    enumerate->add_flag("--delayed", command->delayed, "trainers compute while a step is made");
    enumerate->add_option("--codec", command->codec, "that averages travel in")
        ->check(CLI::IsMember(codec_names()));
    enumerate->add_option("--seed", command->seed, "of the collaboration");
    enumerate->add_option("--step", command->step, "whose messages")->check(CLI::Range(1, 8));
    enumerate->add_option("--method", command->method, "only messages whose method contains this");
    enumerate
        ->add_option("--gap-max",
                     command->gap_max_s,
                     "seconds between two steps, with a majority that is well; else the run fails")
        ->check(CLI::Range(0.1, 1000.0));
    enumerate->add_flag("--after-fault",
                        command->after_fault,
                        "second faults, at messages that only a fault brings about");
    enumerate->add_option("--second-max", command->second_max, "second faults of one run")
        ->check(CLI::Range(1, 1000));
    enumerate->add_option("--first", command->first, "the first run");
    enumerate->add_option("--runs", command->runs, "how many (default: all)");
    enumerate->add_option("--threads,--workers", command->workers, "worker processes")
        ->check(CLI::Range(1, 256));
    enumerate->add_flag("--json", command->json, "one JSON object as the last line");
    enumerate->add_flag("--trace", command->trace, "print what happens, one run at a time");
    enumerate->add_flag(
        "--messages", command->messages, "with --trace: every message that arrives, too");
    enumerate->callback([command, &code] { code = run_enumerate(*command); });
    return command;
}

std::shared_ptr<CorpusCommand> add_corpus_command(CLI::App& app, int& code) {
    auto command = std::make_shared<CorpusCommand>();
    CLI::App* corpus = app.add_subcommand("corpus", "data through the run, in virtual time");
    corpus->add_option("--megabytes", command->megabytes, "of the corpus")
        ->check(CLI::Range(10, 10'000));
    corpus->add_option("--homes", command->homes, "that join")->check(CLI::Range(2, 64));
    corpus->add_option("--cache-megabytes", command->cache_megabytes, "of the disk of a home");
    corpus->add_option("--alone-minutes", command->alone_minutes, "after the host has left");
    corpus->add_option("--seed", command->seed, "of the world");
    corpus->add_flag("--json", command->json, "one JSON object as the last line");
    corpus->callback([command, &code] { code = run_corpus(*command); });
    return command;
}

std::shared_ptr<DhtCommand> add_dht_command(CLI::App& app, int& code) {
    auto command = std::make_shared<DhtCommand>();
    CLI::App* dht = app.add_subcommand("dht", "the distributed table in virtual time");
    dht->add_option("--nodes", command->nodes, "of the table")->check(CLI::Range(100, 20000));
    dht->add_option("--start", command->start, "nodes that start at once, instead");
    dht->add_option("--repeat", command->repeat, "such starts");
    dht->add_option("--seed", command->seed, "of the world");
    dht->add_flag("--json", command->json, "one JSON object as the last line");
    dht->callback([command, &code] { code = run_dht(*command); });
    return command;
}

std::shared_ptr<ExpertsCommand> add_experts_command(CLI::App& app, int& code) {
    auto command = std::make_shared<ExpertsCommand>();
    CLI::App* experts = app.add_subcommand("experts", "mixtures of remote experts");
    experts->add_option("--nodes", command->nodes, "of the largest table that is searched")
        ->check(CLI::Range(100, 20000));
    experts->add_option("--only", command->only, "search, throughput or emulation");
    experts->add_option("--steps", command->steps, "of the emulation (1200)");
    experts->add_option("--svg", command->svg, "file for the search beside the paper's curve");
    experts->add_flag("--processes",
                      command->processes,
                      "real processes instead: a model larger than any, a kill and a stop");
    experts->add_option("--dir", command->folder, "with --processes: where their files go");
    experts->add_flag("--keep", command->keep, "with --processes: leave the files there");
    experts->add_option("--seed", command->seed, "of the worlds");
    experts->add_flag("--json", command->json, "one JSON object as the last line");
    experts->callback([command, &code] { code = run_experts(*command); });
    return command;
}

std::shared_ptr<GridCommand> add_grid_command(CLI::App& app, int& code) {
    auto command = std::make_shared<GridCommand>();
    CLI::App* grid = app.add_subcommand(
        "grid", "what averaging in a grid costs, against one group of all, in virtual time");
    grid->add_option("--peers", command->peers, "that train")->check(CLI::Range(2, 256));
    grid->add_option("--group-max", command->group_max, "sizes to try: 16,8")->delimiter(',');
    grid->add_option("--steps", command->steps, "of each")->check(CLI::Range(3, 1000));
    grid->add_flag("--json", command->json, "one JSON object as the last line");
    grid->callback([command, &code] { code = run_grid(*command); });
    return command;
}

// The commands that need network namespaces.
struct NetworkCommands {
    NatCommand nat;
    LongfatCommand longfat;
    NatPeerCommand nat_peer;
    LinksCommand links;
    LinkMemberCommand link_member;
};

void add_links_commands(CLI::App& app, NetworkCommands& commands, int& code) {
    LinksCommand& links = commands.links;
    CLI::App* command = app.add_subcommand(
        "links", "real peers on shaped lines: how long a round takes beside what was planned");
    command->add_option("--setup", links.setup, "a network of dedloc plan --setup");
    command->add_option("--peers", links.peers, "without a setup")->check(CLI::Range(2, 64));
    command->add_option("--rtt-ms", links.round_trip_ms, "without a setup: between any two")
        ->check(CLI::Range(0.0, 2000.0));
    command
        ->add_option(
            "--elements", links.elements, "of the vector (default: for rounds of half a minute)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 28));
    command
        ->add_option("--slower",
                     links.slower,
                     "than the setup's rates (default: by powers of two, until all lines together "
                     "carry at most 160 Mbit/s)")
        ->check(CLI::Range(1.0, 10'000.0));
    command->add_option("--codec", links.codec)->check(CLI::IsMember(codec_names()));
    command->add_option("--congestion-control",
                        links.congestion_control,
                        "of all peers: cubic (default, as on most machines at home), bbr, …");
    command->add_option("--rounds", links.rounds, "that count")->check(CLI::Range(1, 1000));
    command
        ->add_option("--warm-up",
                     links.warm_up,
                     "rounds before, in which rates are measured (default: 2; with aggregators 4)")
        ->check(CLI::Range(1, 100));
    command->add_flag("--no-equal", links.no_equal, "do not compare with equal parts");
    command->add_flag("--rates-told",
                      links.rates_told,
                      "tell the members what their lines carry; nothing is left to measure");
    command->add_option("--ratio-max",
                        links.ratio_max,
                        "of a setup's planned time; else exit code 9 (default: 1.15; 0: any)");
    command->add_option("--speedup-min",
                        links.speedup_min,
                        "over equal parts; else exit code 9 (default: of C 1.85; 0: any)");
    command->add_option(
        "--program", links.program, "the dedloc to start (default: the one beside this)");
    command->add_option("--dir", links.directory, "folder for the members' files, kept");
    command->add_flag("--json", links.json, "one JSON object as the last line");
    command->callback([&links, &code] { code = run_links(links); });

    LinkMemberCommand& member = commands.link_member;
    CLI::App* one = app.add_subcommand("link-member", "");  // one machine of `links`
    one->group("");
    one->add_option("--rank", member.rank)->required();
    one->add_option("--size", member.size)->required();
    one->add_option("--aggregators", member.aggregators);
    one->add_option("--elements", member.elements)->required();
    one->add_option("--codec", member.codec);
    one->add_option("--congestion-control", member.congestion_control);
    one->add_option("--ip", member.ip)->required();
    one->add_option("--folder", member.folder)->required();
    one->add_option("--rate-unknown", member.rate_unknown);
    one->add_option("--granted-up", member.granted_up);
    one->add_option("--granted-down", member.granted_down);
    one->add_flag("--granted-is-true", member.granted_is_true);
    one->callback([&member, &code] { code = run_link_member(member); });
}

std::shared_ptr<NetworkCommands> add_network_commands(CLI::App& app, int& code) {
    auto commands = std::make_shared<NetworkCommands>();
    CLI::App* nat = app.add_subcommand(
        "nat", "machines behind NATs find each other: every pair of kinds, in network namespaces");
    nat->add_option("--cell",
                    commands->nat.cells,
                    "KIND:KIND of public, full, restricted, "
                    "symmetric, same (default: all pairs)");
    nat->add_option("--delay-ms", commands->nat.delay_ms, "one way, between public addresses")
        ->check(CLI::Range(0.0, 1000.0));
    nat->add_option("--log", commands->nat.log, "of the peers: warning, debug");
    nat->add_option("--dir", commands->nat.directory, "folder for what the peers say, kept");
    nat->add_flag("--no-kill", commands->nat.no_kill, "do not kill a relay at the end");
    nat->add_flag("--json", commands->nat.json, "one JSON object as the last line");
    nat->callback([commands, &code] { code = run_nat(commands->nat); });

    CLI::App* longfat = app.add_subcommand(
        "longfat",
        "how much of a long, fat link a stream fills, with one connection and with lanes");
    longfat->add_option("--rtt-ms", commands->longfat.round_trip_ms, "round trip")
        ->check(CLI::Range(0.0, 2000.0));
    longfat->add_option("--mbit", commands->longfat.mbit_per_s, "of the line, each way")
        ->check(CLI::Range(1.0, 500.0));
    longfat->add_option("--megabytes", commands->longfat.megabytes, "of the stream over lanes")
        ->check(CLI::Range(8, 4096));
    longfat->add_option("--congestion-control",
                        commands->longfat.congestion_control,
                        "of both peers: cubic (default), bbr, …");
    longfat->add_option("--log", commands->longfat.log, "of the peers: warning, debug");
    longfat->add_flag("--json", commands->longfat.json, "one JSON object as the last line");
    longfat->callback([commands, &code] { code = run_longfat(commands->longfat); });

    CLI::App* nat_peer = app.add_subcommand("nat-peer", "");  // one machine of `nat`
    nat_peer->group("");
    nat_peer->add_option("--socket", commands->nat_peer.socket)->required();
    nat_peer->add_option("--listen", commands->nat_peer.listen);
    nat_peer->add_option("--relay", commands->nat_peer.relay);
    nat_peer->add_option("--congestion-control", commands->nat_peer.congestion_control);
    nat_peer->add_option("--log", commands->nat_peer.log);
    nat_peer->callback([commands, &code] { code = run_nat_peer(commands->nat_peer); });
    add_links_commands(app, *commands, code);
    return commands;
}

}  // namespace

namespace {

// Says which words of a command line are wrong, and which ones they look like.
std::string what_was_wrong(const CLI::App* app, const CLI::Error& error) {
    const auto chosen = app->get_subcommands();
    const CLI::App* command = chosen.empty() ? app : chosen.front();
    const std::vector<std::string> unknown = command->remaining();
    std::string what = error.what();
    std::vector<std::string> known;
    if (!unknown.empty() && unknown.front().starts_with("-")) {
        for (const CLI::Option* option : command->get_options())
            for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
        what = fmt::format("there is no option '{}'{}",
                           unknown.front(),
                           base::did_you_mean(unknown.front(), known));
    } else if (chosen.empty() && !unknown.empty()) {
        for (const CLI::App* each : app->get_subcommands([](const CLI::App*) { return true; }))
            known.push_back(each->get_name());
        what = fmt::format("there is no command '{}'{}",
                           unknown.front(),
                           base::did_you_mean(unknown.front(), known));
    } else if (chosen.empty()) {
        what = "say what to do";
    }
    const std::string words = app->get_name() + (chosen.empty() ? "" : " " + command->get_name());
    return fmt::format(
        "dedloc: {}{} `{} --help` says more\n", what, what.ends_with('?') ? "" : ";", words);
}

std::shared_ptr<audit::AuditCommand> add_audit_command(CLI::App& app, int& code) {
    auto command = std::make_shared<audit::AuditCommand>();
    CLI::App* audit_app = app.add_subcommand(
        "audit", "check the certificates that peers left on disk: nothing twice, nothing lost");
    audit_app->add_option("paths", command->paths, "peers' folders, or a folder of them")
        ->required();
    audit_app->add_option("--killed", command->killed, "ids or names of peers that were killed");
    audit_app
        ->add_option("--lost-max",
                     command->lost_max,
                     "samples lost of peers that were not killed; more is exit code 9")
        ->check(CLI::NonNegativeNumber);
    audit_app->add_flag("--json", command->json, "one JSON object as the last line");
    audit_app->callback([&code, command] { code = static_cast<int>(audit::run_audit(*command)); });
    return command;
}

}  // namespace

int run(const std::vector<std::string>& arguments, const std::string& program) {
    CLI::App app("Simulates, breaks and audits runs.", program);
    app.require_subcommand(1);
    app.failure_message(what_was_wrong);
    int code = 0;

    const auto audit_command = add_audit_command(app, code);

    SimulateCommand simulate_command;
    std::string plants;
    for (const std::string& name : planted_names()) plants += " " + name;
    CLI::App* simulate = app.add_subcommand(
        "simulate", "whole collaborations in virtual time, with faults, checked");
    simulate->add_option("--seeds", simulate_command.seeds, "how many")
        ->check(CLI::Range(1, 100'000'000));
    simulate->add_option("--first,--first-seed", simulate_command.first, "the first seed");
    simulate->add_option("--peers", simulate_command.peers, "how many peers: 8, or 5-20");
    simulate
        ->add_option("--group-max",
                     simulate_command.group_max,
                     "more peers than that average in a grid, in all seeds, not in a quarter")
        ->check(CLI::Range(std::size_t{1}, std::size_t{64}));
    simulate->add_flag("--two-networks",
                       simulate_command.two_networks,
                       "members of two networks that reach each other through those in both");
    simulate->add_flag("--light",
                       simulate_command.light,
                       "steps of each peer's own, sparse rounds or of low rank, mostly computing "
                       "beside them");
    simulate->add_flag("--robust",
                       simulate_command.robust,
                       "rounds that prove themselves, in each seed another liar");
    simulate->add_option("--lie", simulate_command.lie, "of --robust: always this one");
    simulate->add_flag("--delayed",
                       simulate_command.delayed,
                       "trainers compute while a step is made, in all seeds, not in a third");
    simulate->add_option("--codec", simulate_command.codec, "that averages travel in")
        ->check(CLI::IsMember(codec_names()));
    simulate->add_option("--plant", simulate_command.plant, "a bug that must be found:" + plants);
    simulate->add_option("--threads,--workers", simulate_command.workers, "worker processes")
        ->check(CLI::Range(1, 256));
    simulate->add_option("--resume", simulate_command.resume_file, "file of results; go on there");
    simulate->add_option("--seed-seconds-max", simulate_command.seed_seconds_max);
    simulate->add_flag("--json", simulate_command.json, "one JSON object as the last line");
    simulate->add_flag("--trace,--verbose", simulate_command.trace, "print what happens");
    simulate->add_flag(
        "--messages", simulate_command.messages, "with --trace: every message that arrives, too");
    simulate->callback([&] { code = run_simulate(simulate_command, program); });

    const auto network_commands = add_network_commands(app, code);
    const auto codecs_command = add_codecs_command(app, code);
    const auto corpus_command = add_corpus_command(app, code);
    const auto dht_command = add_dht_command(app, code);
    const auto experts_command = add_experts_command(app, code);
    const auto grid_command = add_grid_command(app, code);
    const auto enumerate_command = add_enumerate_command(app, code);
    const auto process_commands = add_process_commands(app, code);
    try {
        std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
        app.parse(reversed);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_bad_input;
    }
    return code;
}

}  // namespace dedloc::lab
