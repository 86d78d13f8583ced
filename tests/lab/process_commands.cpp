#include "tests/lab/process_commands.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "experiments/albert_mini.h"
#include "experiments/btard.h"
#include "experiments/delayed.h"
#include "experiments/downstream.h"
#include "experiments/equivalence.h"
#include "experiments/fleet.h"
#include "experiments/home.h"
#include "experiments/journey.h"
#include "experiments/language_mini.h"
#include "experiments/light.h"
#include "experiments/local.h"
#include "experiments/paper.h"
#include "experiments/paper_swav.h"
#include "experiments/swav_mini.h"
#include "experiments/text_to_image_mini.h"
#include "experiments/unlike.h"
#include "tests/process/admission.h"
#include "tests/process/faults.h"
#include "tests/process/resume.h"
#include "tests/process/storm.h"

namespace dedloc::lab {
namespace {

constexpr const char* json_help = "one JSON object as the last line";

struct Commands {
    PaperCommand paper;
    std::string paper_task = "albert";
    FaultsCommand faults;
    StormCommand storm;
    ResumeCommand resume;
    AdmissionCommand admission;
    JourneyCommand journey;
    HomeCommand home;
    DownstreamCommand downstream;
    EquivalenceCommand equivalence;
    DelayedCommand delayed;
    LocalCommand local;
    FleetCommand fleet;
    LightCommand light;
    AlbertMiniCommand albert_mini;
    LanguageMiniCommand language_mini;
    TextToImageMiniCommand text_to_image_mini;
    SwavMiniCommand swav_mini;
    BtardCommand btard;
    UnlikeCommand unlike;
};

void add_faults(CLI::App& lab, FaultsCommand& command, int& code) {
    CLI::App* faults = lab.add_subcommand(
        "faults", "real processes, killed and stopped: what it costs the others");
    faults
        ->add_option(
            "--repeat",
            command.repeat,
            "how often one is stopped and one is killed (default: 10, or what --minutes hold)")
        ->check(CLI::Range(1, 100'000));
    faults->add_option("--parallel", command.parallel, "collaborations side by side")
        ->check(CLI::Range(1, 64));
    faults->add_option("--stop-seconds", command.stop_seconds, "how long one is stopped")
        ->check(CLI::Range(0.5, 3600.0));
    faults->add_option("--minutes", command.minutes, "begin no repeat after this time")
        ->check(CLI::Range(0.0, 1e6));
    faults->add_option("--seed", command.seed, "of victims and moments");
    faults
        ->add_option(
            "--bad", command.bad, "no faults: one peer of a robust run lies, until it is out")
        ->check(CLI::IsMember(std::vector<std::string>{"sign_flip", "collude"}));
    faults->add_flag("--local", command.local, "with --bad: inner steps between rounds");
    faults->add_option("--peers", command.peers, "with --bad: how many")->check(CLI::Range(4, 16));
    faults->add_option("--program", command.program, "the dedloc to start (default: this one)");
    faults->add_option("--dir", command.directory, "folder for the peers' files, kept");
    faults->add_flag("--json", command.json, json_help);
    faults->callback([&command, &code] { code = run_faults(command); });
}

void add_storm(CLI::App& lab, StormCommand& command, int& code) {
    CLI::App* storm = lab.add_subcommand(
        "storm", "a thousand hostile strangers at a peer in mid-training: what it costs");
    storm->add_option("--dialers", command.dialers, "strangers at the same time")
        ->check(CLI::Range(1, 15'000));
    storm->add_option("--seconds", command.seconds, "before the storm, and of the storm")
        ->check(CLI::Range(2.0, 3600.0));
    storm->add_option(
        "--program", command.program, "the dedloc to start (default: the one beside this)");
    storm->add_flag("--json", command.json, json_help);
    storm->callback([&command, &code] { code = run_storm(command); });
}

void add_resume(CLI::App& lab, ResumeCommand& command, int& code) {
    CLI::App* resume = lab.add_subcommand(
        "resume", "real processes, all killed at once: does the run go on from its checkpoint?");
    resume->add_option("--repeat", command.repeat, "how often")->check(CLI::Range(1, 100'000));
    resume->add_option("--seed", command.seed, "of moments");
    resume->add_option(
        "--program", command.program, "the dedloc to start (default: the one beside this)");
    resume->add_option("--dir", command.directory, "folder for the peers' files, kept");
    resume->add_flag("--json", command.json, json_help);
    resume->callback([&command, &code] { code = run_resume(command); });
}

void add_admission(CLI::App& lab, AdmissionCommand& command, int& code) {
    CLI::App* admission = lab.add_subcommand(
        "admission", "real processes: who may not come in is told why, and a member is revoked");
    admission->add_option("--program", command.program, "the dedloc to start (default: this one)");
    admission->add_option("--dir", command.directory, "folder for the peers' files, kept");
    admission->add_flag("--json", command.json, json_help);
    admission->callback([&command, &code] { code = run_admission(command); });
}

void add_home(CLI::App& lab, HomeCommand& command, int& code) {
    CLI::App* home = lab.add_subcommand(
        "home", "sixteen homes that come and go, with few bytes and without, in virtual time");
    home->add_option("--homes", command.homes, "machines")->check(CLI::Range(2, 256));
    home->add_option("--minutes", command.minutes, "of training")->check(CLI::Range(1.0, 10'000.0));
    home->add_option("--away", command.away_minutes, "minutes, of every 30")
        ->check(CLI::Range(0.0, 25.0));
    home->add_flag("--leave", command.leave, "they leave in order instead of sleeping");
    home->add_option("--elements", command.elements, "of the vector");
    home->add_option("--up", command.up_mbit, "Mb/s of each")->check(CLI::Range(0.01, 1e5));
    home->add_option("--down", command.down_mbit, "Mb/s of each")->check(CLI::Range(0.01, 1e5));
    home->add_option("--samples-per-s", command.samples_per_s, "of each")
        ->check(CLI::Range(1e-3, 1e6));
    home->add_option("--batch", command.batch, "samples of all between two synchronous rounds");
    home->add_option("--aggregators", command.aggregators, "of 1 Gb/s, which only help")
        ->check(CLI::Range(0, 8));
    home->add_option("--shrunk", command.shrunk, "the vector and the lines, so many times")
        ->check(CLI::Range(1, 100'000));
    home->add_option("--only", command.only, "one mode: light, sync")
        ->check(CLI::IsMember({"light", "sync"}));
    home->add_option("--seed", command.seed, "of the network");
    home->add_flag("--json", command.json, json_help);
    home->callback([&command, &code] { code = run_home(command); });
}

void add_journey(CLI::App& lab, JourneyCommand& command, int& code) {
    CLI::App* journey = lab.add_subcommand(
        "journey", "a public run of eight days: tokens, sessions, preempted helpers, the report");
    journey->add_option("--seed", command.seed, "of the world");
    journey->add_option("--scale", command.scale, "hours of the run in one virtual hour (24)")
        ->check(CLI::Range(1.0, 60.0));
    journey->add_flag("--json", command.json, json_help);
    journey->callback([&command, &code] { code = run_journey(command); });
}

void add_downstream(CLI::App& lab, DownstreamCommand& command, int& code) {
    CLI::App* downstream = lab.add_subcommand(
        "downstream", "what a model that peers pre-trained is worth on other tasks: a table");
    downstream->add_option("--rows", command.rows, "some; the others are left out")
        ->check(CLI::IsMember(downstream_row_names()));
    downstream->add_option(
        "--program", command.program, "the dedloc to start (default: the one beside this)");
    downstream->add_option("--dir", command.directory, "folder for all files, kept");
    downstream->add_flag("--json", command.json, json_help);
    downstream->callback([&command, &code] { code = run_downstream(command); });
}

// SwAV's set-ups are others, and take fewer of the options.
int run_paper_of(const PaperCommand& command, const std::string& task) {
    if (task != "swav") return run_paper(command);
    PaperSwavCommand swav{
        .directory = command.directory, .seed = command.seed, .json = command.json};
    if (command.steps > 0) swav.steps = command.steps;
    if (command.scale > 0) swav.scale = command.scale;
    return run_paper_swav(swav);
}

void add_paper(CLI::App& lab, PaperCommand& command, std::string& task, int& code) {
    CLI::App* paper = lab.add_subcommand(
        "paper",
        "the paper's controlled experiment, in virtual time or namespaces: table and picture");
    paper
        ->add_option(
            "--task",
            task,
            "albert, or swav: servers, workstations and both (takes --steps, --scale, --to, "
            "--seed)")
        ->check(CLI::IsMember({"albert", "swav"}));
    paper->add_option("--steps", command.steps, "global steps of each setup (12; in namespaces 8)")
        ->check(CLI::Range(4, 100'000));
    paper->add_flag("--in-namespaces",
                    command.in_namespaces,
                    "with real processes on shaped lines; needs root");
    paper->add_option("--trainers", command.trainers, "a multiple of four (16; in namespaces 8)")
        ->check(CLI::Range(4, 64))
        ->check([](const std::string& text) -> std::string {
            return std::stoul(text) % 4 == 0 ? "" : "must be a multiple of four";
        });
    paper
        ->add_option(
            "--scale", command.scale, "the vector is smaller by this (8; in namespaces 16)")
        ->check(CLI::Range(1, 1000));
    paper->add_option(
        "--program", command.program, "the dedloc to start (default: the one beside this)");
    paper->add_option("--samples-per-s", command.samples_per_s, "of one trainer")
        ->check(CLI::Range(0.01, 1e6));
    paper->add_option("--only", command.only, "names of setups; the others are left out")
        ->check(CLI::IsMember(paper_setup_names()));
    paper->add_option("--to", command.directory, "folder for paper.json and paper.svg")
        ->check(CLI::ExistingDirectory);
    paper->add_option("--seed", command.seed, "of the network");
    paper->add_flag("--json", command.json, json_help);
    paper->callback([&command, &task, &code] { code = run_paper_of(command, task); });
}

#if DEDLOC_LAB_EQUIVALENCE
void add_equivalence(CLI::App& lab, EquivalenceCommand& command, int& code) {
    CLI::App* equivalence = lab.add_subcommand(
        "equivalence", "is a collaboration the same as training alone? bit by bit");
    equivalence->add_option("--steps", command.steps, "global steps")->check(CLI::Range(1, 10'000));
    equivalence->add_option("--peers", command.peers)->check(CLI::Range(2, 16));
    equivalence->add_option("--rate", command.rate, "SGD's learning rate after the warm-up")
        ->check(CLI::Range(0.0, 10.0));
    equivalence->add_option("--data", command.data_directory, "folder of the data set");
    equivalence->add_flag("--json", command.json, json_help);
    equivalence->callback([&command, &code] { code = run_equivalence(command); });
}

void add_delayed(CLI::App& lab, DelayedCommand& command, int& code) {
    CLI::App* delayed = lab.add_subcommand(
        "delayed", "a real model with and without the delayed update, in virtual time");
    delayed->add_option("--steps", command.steps, "global steps")->check(CLI::Range(4, 100'000));
    delayed
        ->add_option("--exchange-over-batch",
                     command.exchange_over_batch,
                     "how long a round's bytes take, of the time of computing one batch")
        ->check(CLI::Range(0.01, 10.0));
    delayed->add_option("--rate", command.rate, "the learning rate's peak")
        ->check(CLI::Range(1e-6, 1.0));
    delayed->add_flag("--plain", command.plain, "also train in a plain loop, to compare");
    delayed->add_option("--data", command.data_directory, "folder of the data set");
    delayed->add_option("--seed", command.seed, "of the network");
    delayed->add_flag("--json", command.json, json_help);
    delayed->callback([&command, &code] { code = run_delayed(command); });
}

void add_btard(CLI::App& lab, BtardCommand& command, int& code) {
    CLI::App* btard = lab.add_subcommand(
        "btard", "sixteen trainers, seven of which poison their gradients, in virtual time");
    btard->add_option("--attack", command.attack, "one; the others are left out")
        ->check(CLI::IsMember(btard_attack_names()));
    btard->add_option("--reducer", command.reducers, "some; the others are left out")
        ->check(CLI::IsMember(btard_reducer_names()));
    btard->add_flag("--few", command.few, "only the attacks on a run of five");
    btard->add_flag("--mistakes", command.mistakes, "no attack: two peers err, and mend it");
    btard->add_flag("--albert-mini",
                    command.albert_mini,
                    "a small ALBERT instead, attacked from a checkpoint on");
    btard->add_flag("--local", command.local, "with inner steps of each peer between rounds");
    btard->add_option("--inner-steps", command.inner_steps, "of --local, of each peer a round")
        ->check(CLI::Range(1, 1000));
    btard->add_option("--inner", command.inner, "their optimizer")
        ->check(CLI::IsMember({"sgd", "adamw", "lamb"}));
    btard->add_option("--inner-rate", command.inner_rate, "its peak")->check(CLI::Range(0.0, 10.0));
    btard->add_option("--outer-rate", command.outer_rate, "of --local")
        ->check(CLI::Range(0.0, 10.0));
    btard->add_option("--outer-momentum", command.outer_momentum, "of --local")
        ->check(CLI::Range(0.0, 0.999));
    const CLI::Option* const steps =
        btard->add_option("--steps", command.steps, "global steps")->check(CLI::Range(20, 100'000));
    const CLI::Option* const from =
        btard->add_option("--from", command.attack_from, "the step at which they begin");
    btard->add_option("--rate", command.rate, "SGD's learning rate")->check(CLI::Range(0.0, 10.0));
    btard->add_option("--norm-max", command.norm_max, "an average's length; 0: any")
        ->check(CLI::Range(0.0, 1e6));
    btard->add_option("--tau", command.tau, "of CenteredClip; 0: as the run measures it")
        ->check(CLI::Range(0.0, 1e6));
    btard->add_option("--check", command.check, "the fraction that is computed again")
        ->check(CLI::Range(0.0, 1.0));
    btard->add_option("--threads", command.threads, "runs at a time")->check(CLI::Range(1, 64));
    btard->add_option("--plot", command.plot, "an SVG file of accuracy over steps");
    btard->add_option("--data", command.data_directory, "folder of the data set");
    btard->add_option("--seed", command.seed, "of the run, its network and its attackers");
    btard->add_flag("--json", command.json, json_help);
    btard->callback([&command, &code, steps, from] {
        if (command.local && steps->count() == 0) command.steps = btard_local_steps;
        if (command.local && from->count() == 0) command.attack_from = btard_local_from;
        code = run_btard(command);
    });
}

void add_unlike(CLI::App& lab, UnlikeCommand& command, int& code) {
    CLI::App* unlike = lab.add_subcommand(
        "unlike", "how far machines are from each other in what a peer hands in");
    CLI::Option* const save =
        unlike->add_option("--save", command.save, "a file for another machine");
    unlike->add_option("--against", command.against, "another machine's file")->excludes(save);
    unlike->add_flag("--albert", command.albert, "a small ALBERT instead of the demo's network");
    unlike->add_option("--precision", command.precision, "of the gradients")
        ->check(CLI::IsMember({"fp32", "bf16"}));
    unlike->add_option("--threads", command.threads, "that compute")->check(CLI::Range(1, 64));
    unlike->add_option("--data", command.data_directory, "folder of the data set");
    unlike->add_flag("--json", command.json, json_help);
    unlike->callback([&command, &code] {
        if (command.save.empty() && command.against.empty())
            throw CLI::RequiredError("--save or --against");
        code = run_unlike(command);
    });
}

void add_local(CLI::App& lab, LocalCommand& command, int& code) {
    CLI::App* local =
        lab.add_subcommand("local", "a real model with local updates and without, in virtual time");
    local->add_option("--rounds", command.rounds, "with local updates")
        ->check(CLI::Range(2, 100'000));
    local->add_option("--inner-steps", command.inner_steps, "of each peer between two rounds")
        ->check(CLI::Range(1, 1000));
    local
        ->add_option("--exchange-over-batch",
                     command.exchange_over_batch,
                     "how long a round's bytes take, of the time of computing one inner batch")
        ->check(CLI::Range(0.01, 100.0));
    local->add_option("--rate", command.rate, "the inner learning rate's peak")
        ->check(CLI::Range(1e-6, 1.0));
    local->add_option("--outer-rate", command.outer_rate, "the outer learning rate")
        ->check(CLI::Range(1e-6, 10.0));
    local->add_option("--data", command.data_directory, "folder of the data set");
    local->add_option("--seed", command.seed, "of the network");
    local->add_flag("--json", command.json, json_help);
    local->callback([&command, &code] { code = run_local(command); });
}

void add_fleet(CLI::App& lab, FleetCommand& command, int& code) {
    CLI::App* fleet = lab.add_subcommand(
        "fleet", "what a fleet of preemptible machines costs, beside others, in virtual time");
    fleet->add_option("--trace", command.trace, "CSV: when which machine is taken, and is back");
    fleet->add_option("--prices", command.prices, "TOML: what machines cost");
    fleet->add_option("--steps", command.steps, "of plain rounds")->check(CLI::Range(20, 100'000));
    fleet->add_option("--rate", command.rate, "the learning rate's peak");
    fleet->add_option("--light-rate", command.light_rate, "that between sparse rounds");
    fleet->add_option("--only", command.only, "one mode: large, on_demand, spot, spot_light");
    fleet->add_option("--plot", command.plot, "an SVG file of accuracy, hours and cost");
    fleet->add_option("--data", command.data_directory, "folder of the data set");
    fleet->add_option("--seed", command.seed, "of the network");
    fleet->add_flag("--json", command.json, json_help);
    fleet->callback([&command, &code] { code = run_fleet(command); });
}

void add_light(CLI::App& lab, LightCommand& command, int& code) {
    CLI::App* light =
        lab.add_subcommand("light", "a real model with fewer and fewer bytes, in virtual time");
    light->add_option("--rounds", command.rounds, "with local updates")
        ->check(CLI::Range(2, 100'000));
    light->add_option("--inner-steps", command.inner_steps, "of each peer between two rounds")
        ->check(CLI::Range(1, 1000));
    light->add_option("--rate", command.rate, "the inner learning rate's peak")
        ->check(CLI::Range(1e-6, 1.0));
    light->add_option("--sparse-rate", command.sparse_rate, "that between sparse rounds")
        ->check(CLI::Range(1e-6, 1.0));
    light->add_option("--outer-rate", command.outer_rate, "the outer rate of dense rounds")
        ->check(CLI::Range(1e-6, 10.0));
    light->add_option("--sparse-outer-rate", command.sparse_outer_rate, "that of sparse ones")
        ->check(CLI::Range(1e-6, 10.0));
    light->add_option("--sparse-outer-momentum", command.sparse_outer_momentum, "of sparse ones")
        ->check(CLI::Range(0.0, 0.9999));
    light
        ->add_option("--overlap-outer-rate", command.overlap_outer_rate, "with rounds beside steps")
        ->check(CLI::Range(1e-6, 10.0));
    light->add_flag("--albert", command.albert, "a small ALBERT on the Bible instead");
    light->add_option("--albert-rounds", command.albert_rounds, "of its light run")
        ->check(CLI::Range(2, 100'000));
    light->add_option("--albert-steps", command.albert_steps, "of each peer between two of them")
        ->check(CLI::Range(1, 1000));
    light->add_option("--albert-rate", command.albert_rate, "LAMB's, synchronous");
    light->add_option("--albert-inner-rate", command.albert_inner_rate, "and between rounds");
    light->add_option("--albert-outer-rate", command.albert_outer_rate, "of its light run");
    light->add_option("--albert-outer-momentum", command.albert_outer_momentum, "likewise")
        ->check(CLI::Range(0.0, 0.99));
    light
        ->add_option(
            "--albert-final", command.albert_final, "of both inner rates, their share at the end")
        ->check(CLI::Range(0.0, 1.0));
    light->add_option("--albert-batch", command.albert_batch, "samples of one step of one peer")
        ->check(CLI::Range(2, 256));
    light->add_option("--only", command.only, "one mode: sync, local, sparse, sparse_16, …");
    light->add_option("--plot", command.plot, "an SVG file of accuracy over bytes");
    light->add_option("--data", command.data_directory, "folder of the data set");
    light->add_option("--seed", command.seed, "of the network");
    light->add_flag("--json", command.json, json_help);
    light->callback([&command, &code] { code = run_light(command); });
}

void add_albert_mini(CLI::App& lab, AlbertMiniCommand& command, int& code) {
    CLI::App* mini = lab.add_subcommand(
        "albert-mini", "a small ALBERT on the Bible: alone, and with peers that come and go");
    mini->add_option("--loss", command.loss, "of masked words on held-out text, to be reached")
        ->check(CLI::Range(0.1, 20.0));
    mini->add_option("--target", command.target, "samples of a global step")
        ->check(CLI::Range(1, 65536));
    mini->add_option("--micro", command.micro, "samples of one gradient of one peer")
        ->check(CLI::Range(1, 65536));
    mini->add_option("--samples-max", command.samples_max, "give up after so many");
    mini->add_option("--seconds-max", command.seconds_max, "give up after so long, of each run");
    mini->add_flag("--json", command.json, json_help);
    mini->callback([&command, &code] { code = run_albert_mini(command); });
}

void add_language_mini(CLI::App& lab, LanguageMiniCommand& command, int& code) {
    CLI::App* mini = lab.add_subcommand(
        "language-mini",
        "a small decoder on the Bible: alone, and in processes that fetch the text from the host");
    mini->add_option("--steps", command.steps, "global steps of 16 samples")
        ->check(CLI::Range(8, 100'000));
    mini->add_option("--rate", command.rate, "the learning rate's peak")
        ->check(CLI::Range(1e-6, 1.0));
    mini->add_option("--prompt", command.prompt, "what the model goes on with");
    mini->add_option(
        "--program", command.program, "the dedloc to start (default: the one beside this)");
    mini->add_option("--dir", command.directory, "folder for the peers' files, kept");
    mini->add_flag("--alone", command.alone, "one process alone, told as it learns");
    mini->add_flag("--json", command.json, json_help);
    mini->callback([&command, &code] { code = run_language_mini(command); });
}

void add_text_to_image_mini(CLI::App& lab, TextToImageMiniCommand& command, int& code) {
    CLI::App* mini =
        lab.add_subcommand("text-to-image-mini",
                           "a small transformer learns to draw emoji, with peers that come and go");
    mini->add_option("--steps", command.steps, "global steps of 64 samples")
        ->check(CLI::Range(1, 1'000'000));
    mini->add_option("--seconds-max", command.seconds_max, "of the training");
    mini->add_option("--rate", command.rate, "the learning rate's peak")
        ->check(CLI::Range(1e-6, 1.0));
    mini->add_option("--seed", command.seed, "of the model and of the image codes");
    mini->add_flag("--alone", command.alone, "in a plain loop instead, to compare");
    mini->add_option("--sheet", command.sheet, "PNG file for 16 held-out prompts");
    mini->add_option("--words", command.words, "of a caption (11, as many as the longest has)")
        ->check(CLI::Range(1, 64));
    mini->add_option("--caption-drop", command.caption_drop, "text_to_image.caption_drop (0.1)")
        ->check(CLI::Range(0.0, 0.9));
    mini->add_option("--code-noise", command.code_noise, "text_to_image.code_noise (0.1)")
        ->check(CLI::Range(0.0, 0.9));
    mini->add_option("--guidance", command.guidance, "text_to_image.guidance (2)")
        ->check(CLI::Range(0.0, 100.0));
    mini->add_option("--model", command.model, "folder for the model, as dedloc export has it");
    mini->add_flag("--json", command.json, json_help);
    mini->callback([&command, &code] { code = run_text_to_image_mini(command); });
}

void add_swav_mini(CLI::App& lab, SwavMiniCommand& command, int& code) {
    CLI::App* mini = lab.add_subcommand(
        "swav-mini",
        "SwAV learns clothes without labels; a peer is killed, one joins, all is replayed");
    mini->add_option("--steps", command.steps, "global steps (600)")
        ->check(CLI::Range(100, 100'000));
    mini->add_flag("!--no-replay", command.replay, "leave the replay out");
    mini->add_option("--seconds-max", command.seconds_max, "give up after so long");
    mini->add_flag("--json", command.json, json_help);
    mini->callback([&command, &code] { code = run_swav_mini(command); });
}
#endif

}  // namespace

std::shared_ptr<void> add_process_commands(CLI::App& lab, int& code) {
    auto commands = std::make_shared<Commands>();
    add_faults(lab, commands->faults, code);
    add_storm(lab, commands->storm, code);
    add_resume(lab, commands->resume, code);
    add_admission(lab, commands->admission, code);
    add_journey(lab, commands->journey, code);
    add_home(lab, commands->home, code);
    add_downstream(lab, commands->downstream, code);
    add_paper(lab, commands->paper, commands->paper_task, code);
#if DEDLOC_LAB_EQUIVALENCE
    add_equivalence(lab, commands->equivalence, code);
    add_delayed(lab, commands->delayed, code);
    add_btard(lab, commands->btard, code);
    add_unlike(lab, commands->unlike, code);
    add_local(lab, commands->local, code);
    add_fleet(lab, commands->fleet, code);
    add_light(lab, commands->light, code);
    add_albert_mini(lab, commands->albert_mini, code);
    add_language_mini(lab, commands->language_mini, code);
    add_text_to_image_mini(lab, commands->text_to_image_mini, code);
    add_swav_mini(lab, commands->swav_mini, code);
#endif
    return commands;
}

}  // namespace dedloc::lab
