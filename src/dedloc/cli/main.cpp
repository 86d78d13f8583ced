// The command line of dedloc: every subcommand with its options; those about people are in
// people_commands.cpp. No other file of the program includes CLI11.

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <new>
#include <signal.h>
#include <system_error>
#include <unistd.h>

#include "dedloc/audit/audit_command.h"
#include "dedloc/base/log.h"
#include "dedloc/cli/command_line_error.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/fleet.h"
#include "dedloc/cli/help_text.h"
#include "dedloc/cli/in_trainer.h"
#include "dedloc/cli/option_words.h"
#include "dedloc/cli/people_commands.h"
#include "dedloc/cli/with_join_string.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/early_failure.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/join_string.h"
#include "dedloc/runtime/heap.h"
#include "dedloc/runtime/machine.h"
#include "dedloc/runtime/open_files.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/text/recipe.h"

namespace dedloc::cli {
namespace {

constexpr const char* port_mapping_help =
    "do not ask the router to pass the port on (UPnP, NAT-PMP)";

struct AllOptions {
    InitOptions init;
    CheckOptions check;
    TokenizerTrainOptions tokenizer_train;
    TokenizerShowOptions tokenizer_show;
    DataEmojiOptions data_emoji;
    CheckNetworkOptions check_network;
    RelayOptions relay;
    VersionOptions version;
    EvalOptions eval;
    audit::AuditCommand certificates;
    PeopleOptions people;
    ExportOptions exported;
    SampleOptions sample;
    ServeApiOptions serve_api;
    HostOptions host;
    JoinOptions join;
    AssistOptions assist;
    ServeOptions serve;
    FindOptions find;
    WatchOptions watch;
    DemoOptions demo;
    PlanOptions plan;
    FleetOptions fleet;
    std::string log_level = "warning";
    int exit_code = 0;
    bool ran = false;
};

constexpr char set_help[] =
    "section.key=value of the run file, as batch.target=2048; as often as you like";

constexpr char congestion_control_help[] =
    "of this peer's TCP connections: cubic, bbr, … (default: what the system is set to)";

constexpr char own_folder_help[] =
    "folder of this peer: its identity, log and checkpoints (default: "
    "~/.local/state/dedloc/RUN/1, or the first number that no other peer at work here has; RUN: 8 "
    "digits of the run's hash)";

// For measurements of plans: not in the help.
template <typename Options>
void add_plan_options(CLI::App& command, Options& peer) {
    command.add_option("--plan-up", peer.plan_up)->check(CLI::PositiveNumber)->group("");
    command.add_option("--plan-down", peer.plan_down)->check(CLI::PositiveNumber)->group("");
}

// Given several times, it has several values; but what follows its value is not its own (CLI11
// would take the run file or join string behind it as well).
CLI::Option* add_repeated(CLI::App& command,
                          const std::string& name,
                          std::vector<std::string>& values,
                          const std::string& help) {
    return command.add_option(name, values, help)->allow_extra_args(false);
}

// Adds the options of all who take part.
template <typename Options>
void add_line_options(CLI::App& command, Options& peer) {
    add_repeated(command,
                 "--listen",
                 peer.listen,
                 "where others may dial us: /ip4/0.0.0.0/tcp/4001 or 0.0.0.0:4001, for IPv6 "
                 "'[::]:4001', as often as you like (default: a free port on all interfaces, IPv4 "
                 "only; 'none': do not listen)");
    add_repeated(command,
                 "--announce",
                 peer.announce,
                 "what others are told to dial instead (behind a forwarded port, on cloud "
                 "machines): /ip4/203.0.113.7/tcp/4001, 203.0.113.7:4001, example.org:4001");
    add_repeated(command,
                 "--relay",
                 peer.relays,
                 "a relay to stay connected to (what `dedloc relay` printed); relays among the "
                 "run's peers are found without it");
    command
        .add_option("--relay-for",
                    peer.relay_for,
                    "whom this peer carries connections for, once it can be dialled: members of "
                    "the run (default), anyone, nobody; what it carries counts towards its caps")
        ->check(CLI::IsMember({"members", "anyone", "nobody"}));
    command.add_flag("--no-port-mapping", peer.no_port_mapping, port_mapping_help);
    command.add_option("--congestion-control", peer.congestion_control, congestion_control_help);
    command.add_option("--dir", peer.directory, own_folder_help);
    command.add_option("--name", peer.name, "name shown to others (default: host name)");
    add_cap_options(command, peer.caps);
    add_plan_options(command, peer);
    command.add_flag("--json", peer.json, json_help);
    command.add_flag("--plain", peer.plain, "plain lines instead of the live view");
    command.add_flag("--quiet",
                     peer.quiet,
                     "no view at all; failures that need you go to standard error; `host` prints "
                     "its join string alone (with --json: its folder's join.txt has it)");
}

void add_peer_options(CLI::App& command, peer::PeerOptions& peer) {
    add_line_options(command, peer);
    command.add_option("--threads", peer.threads, threads_help)->check(threads_check());
    command.add_option("--device", peer.device, device_help);
    command.add_option("--data", peer.data_directory, "folder of the task's data");
    command.add_flag("--yes",
                     peer.agrees,
                     "take the data that the run sends, under the licence that it names, without "
                     "being asked");
    command
        .add_option("--data-cache",
                    peer.data_cache_bytes,
                    "of a run that sends its data: bytes of them on this disk at most, such as "
                    "500MB (4GB)")
        ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
        ->check(CLI::Range(std::uint64_t{16'000'000}, std::uint64_t{1} << 60));
    command.add_option("--keep-checkpoints", peer.checkpoints_kept, "the newest so many (3)")
        ->check(CLI::Range(1, 1000));
    command.add_option("--keep-checkpoint-every",
                       peer.checkpoint_kept_every,
                       "and one of every so many steps for good (0: none)");
    command.add_option("--publish",
                       peer.publish_directory,
                       "folder, of this peer alone, that gets a copy of every checkpoint that it "
                       "keeps, and the name `latest`");
    add_web_option(command, peer.web);
    add_tensorboard_option(command, peer.tensorboard);
    command.add_option("--preemption-notice",
                       peer.preemption_notice,
                       "ask whether this machine will be taken away, and leave in order before: "
                       "aws, gcp, azure (their metadata services), http://HOST:PORT/PATH, "
                       "file=PATH (docs/fleets.md)");
    command.add_flag("--flip-signs", peer.flips_signs)->group("");
    command.add_option("--flip-from", peer.flips_from)->group("");
    command.add_option("--accomplice", peer.accomplice)->group("");
    command.add_option("--on-checkpoint",
                       peer.on_checkpoint,
                       "shell command after every checkpoint; $1 its folder, $2 its step, $3 the "
                       "state's hash; never waited for by the training");
    command.add_option("--watch-prompts",
                       peer.watch_prompts,
                       "file with a prompt a line: after every checkpoint they are drawn, or "
                       "written on, into prompts/ of this peer's folder (text_to_image, "
                       "language_model)");
}

template <typename Run>
void on_run(CLI::App* command, AllOptions& all, Run run) {
    command->callback([&all, run] {
        all.ran = true;
        all.exit_code = run();
    });
}

// "rank=16,targets=all" is short for two settings of the run file.
void add_lora_option(CLI::App& command, std::vector<std::string>& settings) {
    command.add_option_function<std::string>(
        "--lora",
        [&settings](const std::string& text) {
            for (const std::string& part : CLI::detail::split(text, ','))
                settings.push_back("language_model.lora_" + part);
        },
        "rank=16, or rank=16,alpha=32,targets=all: train adapters beside the weights of --weights, "
        "which stay as they are (language_model)");
}

void add_init_command(CLI::App& app, AllOptions& all) {
    CLI::App* init = app.add_subcommand("init", "write a run file to start from, with comments");
    init->add_option("task",
                     all.init.task,
                     fmt::format("what to train: {}, own_loop (a program of your own)",
                                 fmt::join(tasks::task_kinds(), ", ")));
    init->add_option("-o,--output", all.init.output, "file to write ('-': standard output)");
    init->add_option("--size",
                     all.init.size,
                     "another size of that task: small, for laptops; published (text_to_image), "
                     "the publication's; tiny, gpt2, … (language_model)");
    init->add_option("--weights",
                     all.init.weights,
                     "a folder in Hugging Face's format: a run file of that model's sizes "
                     "(language_model)");
    add_lora_option(*init, all.init.settings);
    add_repeated(*init, "--set", all.init.settings, set_help);
    init->add_flag("--force", all.init.force, "overwrite the file");
    init->add_flag("--robust",
                   all.init.robust,
                   "with a section [robust], explained: for members that do not trust each other");
    init->add_flag("--home",
                   all.init.home,
                   "for slow lines: local steps, sparse rounds, computing beside them "
                   "(docs/few-bytes.md)");
    init->add_option("--peers", all.init.peers, "how many homes there will be, about")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    on_run(init, all, [&all] { return run_init(all.init); });
}

void add_audit_command(CLI::App& app, AllOptions& all) {
    CLI::App* audited = app.add_subcommand(
        "audit",
        "check the certificates that peers left on disk: nothing twice, nothing lost, every order "
        "about a peer proved by evidence there");
    audited->add_option("paths", all.certificates.paths, "peers' folders, or a folder of them")
        ->required();
    audited->add_option(
        "--killed", all.certificates.killed, "ids or names of peers that were killed");
    audited
        ->add_option("--lost-max",
                     all.certificates.lost_max,
                     "samples lost of peers that were not killed; more is exit code 9")
        ->check(CLI::NonNegativeNumber);
    audited->add_flag("--json", all.certificates.json, json_help);
    on_run(audited, all, [&all] { return static_cast<int>(audit::run_audit(all.certificates)); });
}

void add_eval_command(CLI::App& app, AllOptions& all) {
    CLI::App* eval = app.add_subcommand("eval", "measure a checkpoint on the held-out data");
    eval->add_option("checkpoint", all.eval.checkpoint, "a checkpoint, or a folder of them")
        ->required();
    eval->add_option("--run",
                     all.eval.join_string,
                     "join string of the run, for a model whose experts its servers have");
    eval->add_option("--threads", all.eval.threads, threads_help)->check(threads_check());
    eval->add_option("--device", all.eval.device, device_help);
    eval->add_option("--data", all.eval.data_directory, "folder of the task's data");
    eval->add_option("--perplexity",
                     all.eval.perplexity_file,
                     "how likely the model finds this text, instead of the held-out data "
                     "(language_model)");
    eval->add_option("--choices",
                     all.eval.choices_file,
                     "a JSONL of questions with choices: how often the model prefers the answer "
                     "(language_model)");
    eval->add_flag("--json", all.eval.json, json_help);
    eval->add_option("--dir",
                     all.eval.directory,
                     "with --run of a run that lets in by invitation: folder of the peer that the "
                     "string is for, which must not be at work");
    on_run(eval, all, [&all] { return with_join_string(all.eval, in_trainer<run_eval>); });
}

void add_file_commands(CLI::App& app, AllOptions& all) {
    CLI::App* check =
        app.add_subcommand("check", "say what a run file means, or how others reach this machine");
    check->add_option("runfile", all.check.run_file);
    CLI::Option* network = check->add_option("--network",
                                             all.check_network.join_string,
                                             "ask the peers of a join string (as for join) how "
                                             "we are reachable");
    add_repeated(*check, "--listen", all.check_network.listen, "where to listen meanwhile")
        ->needs(network);
    check->add_flag("--no-port-mapping", all.check_network.no_port_mapping, port_mapping_help)
        ->needs(network);
    check->add_option("--data", all.check.data_directory, "folder of the task's data");
    check->add_option("--device", all.check.device, device_help);
    check->add_option("--threads", all.check.threads, threads_help)->check(threads_check());
    check->add_option("--samples", all.check.samples, "training samples to show (2)")
        ->check(CLI::Range(0, 64));
    check->add_option("--peers", all.check.peers, "of the predicted round (16)")
        ->check(CLI::Range(1, 10000));
    check->add_option("--mbit", all.check.mbit, "link of each of them, up and down, Mb/s (100)")
        ->check(CLI::Range(0.001, 1e6));
    check->add_flag("--json", all.check.json, json_help);
    on_run(check, all, [&all] {
        all.check_network.json = all.check.json;
        const bool about_network = !all.check_network.join_string.empty();
        return about_network ? with_join_string(all.check_network, run_check_network)
                             : in_trainer<run_check>(all.check);
    });

    CLI::App* exported =
        app.add_subcommand("export",
                           "write a checkpoint's model for other programs (safetensors; of some "
                           "tasks also Hugging Face's form and TorchScript)");
    exported->add_option("checkpoint", all.exported.checkpoint, "a checkpoint, or a folder of them")
        ->required();
    exported->add_option("--to", all.exported.directory, "folder for the files")->required();
    exported->add_option("--data", all.exported.data_directory, "folder of the task's data");
    exported->add_flag("--json", all.exported.json, json_help);
    on_run(exported, all, [&all] { return in_trainer<run_export>(all.exported); });

    CLI::App* plan = app.add_subcommand(
        "plan", "who should reduce how much in a network, how long a round takes, and why");
    plan->add_option("file", all.plan.file, "a network (docs/plan.md)");
    plan->add_option("--setup", all.plan.setup, "a network that dedloc knows: A, B, C, D, aux, …");
    plan->add_option("--svg", all.plan.svg, "file for a drawing of who sends what to whom");
    plan->add_flag("--print", all.plan.print, "print the network itself, to start a file from");
    plan->add_flag("--json", all.plan.json, json_help);
    on_run(plan, all, [&all] { return run_plan(all.plan); });

    CLI::App* version = app.add_subcommand("version", "print what this program is");
    version->add_flag("--json", all.version.json, json_help);
    version->add_option("--check",
                        all.version.check,
                        "a file of a release: is it whole, by the SHA256SUMS beside it");
    on_run(version, all, [&all] { return run_version(all.version); });
}

void add_data_commands(CLI::App& app, AllOptions& all) {
    CLI::App* data = app.add_subcommand("data", "make data to train on");
    data->require_subcommand(1);

    DataEmojiOptions& options = all.data_emoji;
    CLI::App* emoji = data->add_subcommand(
        "emoji", "the emoji of Debian's colour font as pictures with their names as captions");
    emoji->add_option("folder", options.folder, "where the pictures go")->required();
    emoji->add_option("--language", options.language, "of the names: en, bn, de, …");
    emoji->add_option("--side", options.side, "pixels of a picture's side")
        ->check(CLI::Range(8, 1024));
    emoji->add_flag("--force", options.force, "replace what is there");
    emoji->add_flag("--json", options.json, json_help);
    on_run(emoji, all, [&all] { return run_data_emoji(all.data_emoji); });
}

void add_tokenizer_commands(CLI::App& app, AllOptions& all) {
    CLI::App* tokenizer = app.add_subcommand("tokenizer", "make a tokenizer, look at one");
    tokenizer->require_subcommand(1);

    TokenizerTrainOptions& options = all.tokenizer_train;
    CLI::App* train = tokenizer->add_subcommand(
        "train", "train a tokenizer: SentencePiece unigram, or byte-pair encoding");
    train->add_option("--input",
                      options.input,
                      "text: kjv, text:PATH, jsonl:PATH?field=NAME, several with commas "
                      "(default: kjv; docs/text-data.md)");
    train->add_option("--output", options.output, "file to write")->required();
    train->add_option("--kind",
                      options.kind,
                      "unigram (default), byte_bpe: for language models, a tokenizer.json");
    train->add_option("--vocab-size", options.vocabulary, "pieces, special ones included")
        ->check(CLI::Range(text::vocabulary_min, text::vocabulary_max));
    train->add_option(
        "--normalization", options.normalization, "identity, nmt_nfkc, nmt_nfkc_cf (default)");
    train->add_option("--rules", options.rules, "none (default), bengali: sahajBERT's");
    train->add_flag("--split-digits", options.split_digits, "every digit is a piece");
    train->add_option("--recipe", options.recipe, "all of this in one, as a run file says it");
    train->add_option("--megabytes", options.megabytes, "of text at most (default: 200)")
        ->check(CLI::Range(1, 100'000));
    train->add_option("--data", options.data_directory, "folder of relative paths");
    train->add_flag("--force", options.force, "overwrite the file");
    train->add_flag("--json", options.json, json_help);
    on_run(train, all, [&all] { return run_tokenizer_train(all.tokenizer_train); });

    CLI::App* show = tokenizer->add_subcommand("show", "hash and recipe of a tokenizer");
    show->add_option("file", all.tokenizer_show.file, "a tokenizer")->required();
    show->add_option("--text", all.tokenizer_show.text, "a text to part into pieces");
    show->add_flag("--json", all.tokenizer_show.json, json_help);
    on_run(show, all, [&all] { return run_tokenizer_show(all.tokenizer_show); });
}

void add_watch_command(CLI::App& app, AllOptions& all) {
    CLI::App* watch = app.add_subcommand("watch", "show a run live without taking part");
    watch->add_option("string", all.watch.join_string, join_string_help)->required();
    watch->add_option("--dir",
                      all.watch.directory,
                      "of a run that lets in by invitation: folder of the peer that the string is "
                      "for, which must not be at work");
    watch->add_option("--seconds", all.watch.seconds, "end after this time")
        ->check(CLI::Range(0.0, 1e9));
    add_web_option(*watch, all.watch.web);
    add_tensorboard_option(*watch, all.watch.tensorboard);
    CLI::Option* json = watch->add_flag("--json", all.watch.json, json_help);
    watch->add_flag("--plain", all.watch.plain, "plain lines instead of the live view");
    CLI::Option* plan = watch->add_flag(
        "--print-plan",
        all.watch.print_plan,
        "print the peers and their measured lines as a file for 'plan', after --seconds (10)");
    plan->excludes(json);
    watch
        ->add_option("--elements",
                     all.watch.elements,
                     "for --print-plan, where the run does not tell: parameters of the model")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 50))
        ->needs(plan);
    on_run(watch, all, [&all] { return with_join_string(all.watch, run_watch); });
}

void add_sample_command(CLI::App& app, AllOptions& all) {
    SampleOptions& options = all.sample;
    CLI::App* sample =
        app.add_subcommand("sample", "what a model makes of prompts: pictures, or text");
    CLI::Option* checkpoint = sample->add_option(
        "checkpoint", options.checkpoint, "a checkpoint, a folder of them, or a join string");
    sample
        ->add_option("--join",
                     options.join_string,
                     "a join string instead: the newest state of a run that is under way")
        ->excludes(checkpoint);
    sample->add_option("--dir",
                       options.directory,
                       "with --join of a run that lets in by invitation: folder of the peer that "
                       "the string is for, which must not be at work");
    add_repeated(*sample,
                 "--prompt",
                 options.prompts,
                 "what to draw or to go on with, as often as you like");
    sample->add_option("--prompts", options.prompts_file, "a file with a prompt a line");
    sample
        ->add_option("--watch-prompts",
                     options.watch_prompts,
                     "a file with a prompt a line: a page of answers at each newer state, until "
                     "Ctrl-C, in the folder --out (prompts)")
        ->excludes("--prompt")
        ->excludes("--prompts");
    sample->add_option("--refresh", options.refresh, "seconds between two looks for one (10)")
        ->check(CLI::Range(1.0, 1e6));
    sample->add_option("--n", options.count, "of each prompt (16 pictures, 1 text)")
        ->check(CLI::Range(1, 256));
    sample->add_option("--tokens", options.tokens, "of a text at most (200)")
        ->check(CLI::Range(1, 1 << 20));
    sample->add_option("--top-k", options.top_k, "only so many of the likeliest choices (0: all)")
        ->check(CLI::Range(0, 1 << 20));
    sample
        ->add_option("--top-p",
                     options.top_p,
                     "of a text: only the likeliest that have this probability together (1)")
        ->check(CLI::Range(0.0, 1.0));
    sample->add_option("--temperature", options.temperature, "0: always the likeliest (1)")
        ->check(CLI::Range(0.0, 10.0));
    sample
        ->add_option("--guidance",
                     options.guidance,
                     "of pictures: how far the prompt pushes each code from what it would be "
                     "without; 1: not at all (what the run file says)")
        ->check(CLI::Range(0.0, 100.0));
    sample->add_option("--seed", options.seed, "another one, other pictures or texts (1)");
    sample->add_option("--out", options.output, "PNG file (grid.png); of texts a file for them");
    sample->add_option("--threads", options.threads, threads_help)->check(threads_check());
    sample->add_option("--device", options.device, device_help);
    sample->add_flag("--json", options.json, json_help);
    on_run(sample, all, [&all] {
        const std::string& what = all.sample.checkpoint;
        if (what.starts_with('@') || what == "-" || run::parse_join_string(what))
            std::swap(all.sample.checkpoint, all.sample.join_string);
        if (!all.sample.join_string.empty())
            return with_join_string(all.sample, in_trainer<run_sample>);
        if (!all.sample.checkpoint.empty()) return in_trainer<run_sample>(all.sample);
        return peer::report(
            {peer::ExitCode::bad_input,
             "say which model is meant: dedloc sample CHECKPOINT, or dedloc sample STRING"});
    });
}

void add_serve_api_command(CLI::App& app, AllOptions& all) {
    ServeApiOptions& options = all.serve_api;
    CLI::App* serve = app.add_subcommand(
        "serve-api", "a model behind HTTP: for clients of OpenAI's interface, and a page");
    serve
        ->add_option("model",
                     options.checkpoint,
                     "a checkpoint, a folder of them, or a join string: then the run is followed")
        ->required();
    serve->add_option("--port", options.port, "0: a free one (8490)")->check(CLI::Range(0, 65535));
    serve->add_option("--address",
                      options.address,
                      "an address of this machine at which others' machines may ask, such as "
                      "0.0.0.0: without encryption, for those who have the token that is printed "
                      "(127.0.0.1: this machine alone)");
    serve
        ->add_option("--refresh",
                     options.refresh,
                     "with a join string: seconds between two looks for a newer state (60)")
        ->check(CLI::Range(1.0, 1e6));
    serve->add_option("--dir",
                      options.directory,
                      "with a join string of a run that lets in by invitation: folder of the peer "
                      "that the string is for, which must not be at work");
    serve->add_option("--threads", options.threads, threads_help)->check(threads_check());
    serve->add_option("--device", options.device, device_help);
    serve->add_option("--seconds", options.seconds, "end after this time")
        ->check(CLI::Range(0.0, 1e9));
    serve->add_flag("--json", options.json, "say in one JSON object where it listens");
    on_run(serve, all, [&all] {
        if (run::parse_join_string(all.serve_api.checkpoint))
            std::swap(all.serve_api.checkpoint, all.serve_api.join_string);
        return with_join_string(all.serve_api, in_trainer<run_serve_api>);
    });
}

void add_serve_command(CLI::App& app, AllOptions& all) {
    CLI::App* serve = app.add_subcommand(
        "serve", "lend a run this machine for experts of its model; needs no data");
    serve->add_option("string", all.serve.join_string, join_string_help)->required();
    add_line_options(*serve, all.serve);
    serve->add_option("--threads", all.serve.threads, threads_help)->check(threads_check());
    serve
        ->add_option("--memory",
                     all.serve.memory_mib,
                     "MiB that are lent, beside what the program itself takes: experts, computing, "
                     "copies (512)")
        ->check(CLI::Range(1, 1 << 20));
    serve->add_option("--seconds", all.serve.seconds, "end after this time")
        ->check(CLI::Range(0.0, 1e9));
    on_run(serve, all, [&all] { return with_join_string(all.serve, in_trainer<run_serve>); });
}

void add_find_command(CLI::App& app, AllOptions& all) {
    CLI::App* find = app.add_subcommand("find", "list the runs of a name");
    find->add_option("name", all.find.name, "as the run file says it")->required();
    find->add_option("--at",
                     all.find.at,
                     "where to ask: the address of a relay (as `dedloc relay` prints it), or any "
                     "join string")
        ->required();
    find->add_option("--dir", all.find.directory, "folder of our identity");
    find->add_flag("--json", all.find.json, json_help);
    on_run(find, all, [&all] { return with_join_string(all.find, run_find, &FindOptions::at); });
}

void add_relay_command(CLI::App& app, AllOptions& all) {
    CLI::App* relay = app.add_subcommand(
        "relay", "lend a public machine to peers that nobody can dial; carries, sees nothing");
    relay->add_option(
        "string", all.relay.join_string, "a join string (as for join): help that run's peers");
    add_repeated(*relay, "--listen", all.relay.listen, "as for host (default: port 4001)");
    add_repeated(*relay, "--announce", all.relay.announce, "as for host");
    relay
        ->add_option("--relay-for",
                     all.relay.relay_for,
                     "whom it serves: members of the run (default with a join string), anyone")
        ->check(CLI::IsMember({"members", "anyone"}));
    relay->add_flag("--no-port-mapping", all.relay.no_port_mapping, port_mapping_help);
    relay->add_option(
        "--congestion-control", all.relay.congestion_control, congestion_control_help);
    add_cap_options(*relay, all.relay.caps);
    relay->add_option("--dir", all.relay.directory, "folder of its identity");
    relay->add_option("--seconds", all.relay.seconds, "end after this time")
        ->check(CLI::Range(0.0, 1e9));
    relay->add_flag("--json", all.relay.json, json_help);
    on_run(relay, all, [&all] { return with_join_string(all.relay, run_relay); });
}

void add_host_command(CLI::App& app, AllOptions& all) {
    CLI::App* host = app.add_subcommand("host", "start a run and print its join string");
    host->add_option("runfile", all.host.run_file, "run file; with --resume it may be left out");
    host->add_option("--resume",
                     all.host.resume,
                     "go on from a checkpoint: its folder, a folder of them, or a peer's folder, "
                     "which then is this peer's, too (unless --dir says another, or nothing can be "
                     "written there)");
    host->add_option("--from",
                     all.host.from,
                     "begin a new run, at step 0 and with a run file of its own, with the model of "
                     "a checkpoint (written as for --resume)");
    host->add_option("--weights",
                     all.host.weights,
                     "begin a new run with a model in Hugging Face's format: a folder with "
                     "config.json, model.safetensors and the tokenizer (language_model, albert)");
    add_lora_option(*host, all.host.settings);
    add_repeated(*host, "--set", all.host.settings, set_help);
    host->add_flag("--open",
                   all.host.open,
                   "no run secret: whoever has a join string, old or new, takes part, and whoever "
                   "knows the run file and an address can make one");
    host->add_flag("--listed",
                   all.host.peer.listed,
                   "let `dedloc find NAME` show the run, by way of the peers and relays that this "
                   "one is connected to; no secret is shown");
    host->add_option("--admit",
                     all.host.admit,
                     "whom it lets in: secret (default: whoever has a join string), open (as "
                     "--open), list (by `dedloc invite NAME` only, each person with a token that "
                     "can be revoked)")
        ->check(CLI::IsMember({"secret", "open", "list"}));
    host->add_option("--token-hours",
                     all.host.token_hours,
                     "with --admit list: how long a token is good; it is renewed by itself (6)")
        ->check(CLI::Range(0.001, 24.0 * 31));
    add_peer_options(*host, all.host.peer);
    on_run(host, all, [&all] { return in_trainer<run_host>(all.host); });
}

void add_run_commands(CLI::App& app, AllOptions& all) {
    add_host_command(app, all);

    CLI::App* join = app.add_subcommand("join", "take part in a run; needs only its join string");
    join->add_option("string", all.join.join_string, join_string_help)->required();
    add_peer_options(*join, all.join.peer);
    on_run(join, all, [&all] { return with_join_string(all.join, in_trainer<run_join>); });

    CLI::App* assist = app.add_subcommand(
        "assist", "lend a run this machine's line: reduce parts, without GPU, model or libtorch");
    assist->add_option("string", all.assist.join_string, join_string_help)->required();
    add_line_options(*assist, all.assist);
    assist
        ->add_option("--memory",
                     all.assist.memory_mib,
                     "MiB that contributions waiting for slower ones may take (256)")
        ->check(CLI::Range(1, 1 << 20));
    on_run(assist, all, [&all] { return with_join_string(all.assist, run_assist); });

    add_serve_command(app, all);
    add_find_command(app, all);
    add_watch_command(app, all);

    add_relay_command(app, all);
}

void add_demo_command(CLI::App& app, AllOptions& all, const std::string& program) {
    CLI::App* demo = app.add_subcommand(
        "demo", "a whole collaboration on this machine, with a kill, a leave and a join");
    demo->add_option("--run", all.demo.run_file, "another run file");
    demo->add_option("--dir", all.demo.directory, "folder for all peers (default: temporary)");
    demo->add_option("--peers", all.demo.peers, "at the start (4)")->check(CLI::Range(3, 16));
    demo->add_option("--seconds-max", all.demo.seconds_max, "give up after this time (600)")
        ->check(CLI::Range(10.0, 86400.0));
    demo->add_flag("--keep", all.demo.keep, "keep the temporary folder");
    demo->add_flag("--json", all.demo.json, json_help);
    demo->add_flag("--plain", all.demo.plain, "plain lines instead of the live view");
    on_run(demo, all, [&all, program] { return run_demo(all.demo, program); });
}

void set_level(const std::string& level) {
    if (level == "debug") base::set_log_level(LogLevel::debug);
    if (level == "info") base::set_log_level(LogLevel::info);
    if (level == "error") base::set_log_level(LogLevel::error);
    if (level == "silent") base::set_log_level(LogLevel::silent);
}

// Else the next file that is opened, a lock or a socket, would be the output that is closed
// (`>&-`), and get what is meant for people.
void open_closed_standard_files() {
    int file = ::open("/dev/null", O_RDWR);
    while (file >= 0 && file <= STDERR_FILENO) file = ::open("/dev/null", O_RDWR);
    if (file >= 0) ::close(file);
}

// A command did not do what it was for if its output is not all there.
int unless_output_is_missing(int code) {
    const int error = peer::output_error();
    if (code != 0 || error == 0) return code;
    return peer::report(
        {peer::ExitCode::disk,
         fmt::format("standard output cannot be written: {}; what was to be printed is "
                     "not all there",
                     std::strerror(error))});
}

int run_program(int argc, char** argv) {
    AllOptions all;
    CLI::App app("Trains one neural network on many people's computers.", "dedloc");
    app.require_subcommand(1);
    app.fallthrough(false);
    app.failure_message(what_was_wrong);
    app.set_version_flag("--version", version_line, "print what this program is");
    app.add_option("--log", all.log_level, "debug, info, warning, error, silent")
        ->check(CLI::IsMember({"debug", "info", "warning", "error", "silent"}))
        ->each([](const std::string& level) { set_level(level); });
    add_run_commands(app, all);
    add_init_command(app, all);
    add_file_commands(app, all);
    add_eval_command(app, all);
    add_audit_command(app, all);
    add_sample_command(app, all);
    add_serve_api_command(app, all);
    add_tokenizer_commands(app, all);
    add_data_commands(app, all);
    const std::string program = peer::own_program();
    add_demo_command(app, all, program);
    const OnRun run_people = [&all](CLI::App* command, std::function<int()> run) {
        on_run(command, all, std::move(run));
    };
    add_fleet_command(app, all.fleet, run_people);
    add_people_commands(app, all.people, run_people, program);
    arrange_help(app);
    std::vector<std::string> words = with_web_places(argc, argv);
    std::ranges::reverse(words);  // as CLI11 takes them
    try {
        app.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);  // prints help, or what was wrong
        return code == 0 ? 0 : static_cast<int>(peer::ExitCode::bad_input);
    }
    return all.exit_code;
}

}  // namespace
}  // namespace dedloc::cli

int main(int argc, char** argv) {
    dedloc::cli::open_closed_standard_files();
    // A reader of our output that went away is noticed by write(), not by dying.
    ::signal(SIGPIPE, SIG_IGN);
    dedloc::runtime::load_unwinder();
    dedloc::runtime::keep_freed_memory();
    dedloc::runtime::raise_open_files();
    try {
        const int code = dedloc::cli::run_program(argc, argv);
        return dedloc::cli::unless_output_is_missing(code);
    } catch (const std::bad_alloc&) {
        return dedloc::peer::report({dedloc::peer::ExitCode::cannot_compute,
                                     "this machine, or what limits this program on it, has not "
                                     "enough memory for that"});
    } catch (const std::exception& error) {
        const auto* refused = dynamic_cast<const std::system_error*>(&error);
        if (refused != nullptr &&
            refused->code() == std::errc::resource_unavailable_try_again)  // a thread
            return dedloc::peer::report({dedloc::peer::ExitCode::cannot_compute,
                                         dedloc::runtime::no_more_threads().message()});
        std::fprintf(stderr, "dedloc: a bug, please report it: %s\n", error.what());
        return static_cast<int>(dedloc::peer::ExitCode::internal);
    }
}
