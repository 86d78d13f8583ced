#include "dedloc/cli/people_commands.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "dedloc/cli/in_trainer.h"
#include "dedloc/cli/join_string_source.h"
#include "dedloc/cli/option_words.h"
#include "dedloc/peer/exit_codes.h"

namespace dedloc::cli {
namespace {

void add_admission_commands(CLI::App& app, PeopleOptions& all, const OnRun& on_run) {
    CLI::App* invite = app.add_subcommand("invite", "print a join string of a peer running here");
    CLI::Option* name = invite->add_option(
        "name", all.invite.name, "the person to invite, in a run of `dedloc host --admit list`");
    invite->add_option("--list", all.invite.list, "a file of names, one a line: a string for each")
        ->excludes(name);
    invite->add_option("--days", all.invite.days, "until the string is good no longer (7)")
        ->check(CLI::Range(0.01, 90.0));
    invite->add_flag("--organiser", all.invite.organiser, "they may let people in, too");
    invite->add_option("--dir", all.invite.directory, "folder of the peer");
    invite->add_flag("--json", all.invite.json, json_help);
    on_run(invite, [&all] { return run_invite(all.invite); });

    CLI::App* members = app.add_subcommand(
        "members", "who was invited: devices, when last seen, samples in the model");
    members->add_option("--dir", all.members.directory, "folder of an organiser's peer");
    members->add_flag("--json", all.members.json, json_help);
    on_run(members, [&all] { return run_members(all.members); });

    CLI::App* revoke =
        app.add_subcommand("revoke", "end a person's admission, on all of their devices");
    revoke->add_option("name", all.revoke.name, "as it was given to `dedloc invite`")->required();
    revoke->add_option("--dir", all.revoke.directory, "folder of an organiser's peer");
    revoke->add_flag("--json", all.revoke.json, json_help);
    on_run(revoke, [&all] { return run_revoke(all.revoke); });
}

void add_report_command(CLI::App& app, ReportOptions& options, const OnRun& on_run) {
    CLI::App* report = app.add_subcommand(
        "report",
        "who took part and what came of it: a page, JSON, CSV, TensorBoard; of several runs, how "
        "they compare");
    report->add_option("folders", options.folders, "of a peer that took part; several: compared")
        ->required();
    report->add_option(
        "--to", options.output, "folder for the files (default: report in it; compared, here)");
    report->add_option("--every", options.every, "write it again after this time: 24h, 30m");
    report->add_flag("--json", options.json, json_help);
    on_run(report, [&options] { return run_report(options); });
}

void add_why_command(CLI::App& app, WhyOptions& options, const OnRun& on_run) {
    CLI::App* why = app.add_subcommand(
        "why", "where the time of a run's steps goes, and what would make them shorter");
    why->add_option("what", options.what, "a peer's folder, or a join string (as for join)")
        ->required();
    why->add_option("--dir",
                    options.directory,
                    "for a join string of a run that lets in by invitation: the peer's folder");
    why->add_option("--seconds", options.seconds, "to look at most, with a join string (30)")
        ->check(CLI::Range(1.0, 86'400.0));
    why->add_flag("--json", options.json, json_help);
    on_run(why, [&options] { return run_why(options); });
}

void add_control_commands(CLI::App& app, PeopleOptions& all, const OnRun& on_run) {
    const auto add = [&](const char* action, ControlOptions& options, const char* help) {
        CLI::App* command = app.add_subcommand(action, help);
        options.action = action;
        command->add_option(
            "folder", options.directory, "of a peer that runs here (default: the only one)");
        command->add_flag("--json", options.json, json_help);
        on_run(command, [&options] { return run_control(options); });
        return command;
    };
    add("pause", all.pause, "have a peer of this machine compute nothing, and stay in its run");
    add("resume", all.resume, "have a paused peer go on");
    add("publish", all.publish, "have a peer of this machine publish its newest state");
    add_cap_options(
        *add("limit", all.limit, "change what a peer of this machine may take of its line"),
        all.limit.caps);
}

void add_replay_command(CLI::App& app, ReplayOptions& options, const OnRun& on_run) {
    CLI::App* replay =
        app.add_subcommand("replay", "show a finished run in the web page, at any speed");
    replay->add_option("folder", options.folder, "of a peer that took part")->required();
    add_web_option(*replay, options.web);
    replay->add_option("--speed", options.speed, "times as fast (default: all of it in a minute)")
        ->check(CLI::Range(0.01, 1e6));
    replay->add_option("--seconds", options.seconds, "end after this time")
        ->check(CLI::Range(0.0, 1e9));
    add_tensorboard_option(*replay, options.tensorboard);
    on_run(replay, [&options] { return run_replay(options); });
}

void add_finetune_command(CLI::App& app, FineTuneOptions& options, const OnRun& on_run) {
    CLI::App* finetune = app.add_subcommand(
        "finetune", "how well checkpoints serve another task: a table of models, mean and std");
    finetune->add_option("checkpoints", options.checkpoints, "checkpoints, or folders of them")
        ->required();
    finetune->add_option("--task", options.task, "ner (entities), classification")
        ->check(CLI::IsMember({"ner", "classification"}))
        ->required();
    finetune
        ->add_option("--data",
                     options.data,
                     "labelled text: words with IOB2 labels, one a line; or a CSV of texts and "
                     "labels")
        ->required();
    finetune->add_option("--evaluation-data", options.evaluation_data, "the same, to stop by");
    finetune->add_option("--test-data", options.test_data, "the same, for the score");
    finetune
        ->add_option("--split",
                     options.split,
                     "of --data by each seed: chance, or names (ner): a fifth of the names are in "
                     "the test alone, so that who looks names up finds none (chance)")
        ->check(CLI::IsMember({"chance", "names"}));
    finetune->add_option("--train-max",
                         options.train_max,
                         "texts to train on at most, as if few were labelled (0: all)");
    finetune->add_option("--seeds", options.seeds, "how often (5)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100}));
    finetune->add_flag("--random", options.random, "the same model with random weights, too");
    finetune->add_option("--length", options.length, "pieces of a text at most (128)")
        ->check(CLI::Range(std::int64_t{8}, std::int64_t{8192}));
    finetune->add_option("--rate", options.rate, "learning rate at the beginning (1e-5)")
        ->check(CLI::Range(1e-9, 1.0));
    finetune->add_option("--epochs", options.epochs, "at most (20)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}));
    finetune->add_option("--batch", options.batch, "texts of a step (128)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{65536}));
    finetune->add_option("--patience", options.patience, "epochs in vain before the end (3)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}));
    finetune->add_option("--corpus", options.data_directory, "folder of the runs' own data");
    finetune->add_option("--device", options.device, device_help);
    finetune->add_option("--threads", options.threads, threads_help)->check(threads_check());
    finetune->add_flag("--json", options.json, json_help);
    on_run(finetune, [&options] { return in_trainer<run_finetune>(options); });
}

void add_service_command(CLI::App& app,
                         ServiceOptions& options,
                         const OnRun& on_run,
                         const std::string& program) {
    CLI::App* service = app.add_subcommand(
        "service", "train whenever this machine has nothing else to do (a systemd user service)");
    service->require_subcommand(1);
    const auto add = [&](const char* action, const char* help) {
        CLI::App* command = service->add_subcommand(action, help);
        command->add_option("string", options.join_string, join_string_help)->required();
        on_run(command, [&options, action, program] {
            ServiceOptions meant = options;
            meant.action = action;
            // The service reads it again at each start.
            if (meant.action == "run") return run_service(meant, program);
            auto argument = join_argument_from(meant.join_string);
            if (!argument) return peer::report(peer::failure(argument.error()));
            meant.join_string = std::move(argument->text);
            if (meant.directory.empty()) meant.directory = std::move(argument->directory);
            return run_service(meant, program);
        });
        return command;
    };
    add("remove", "stop it, and take it away; the peer's folder stays");
    for (CLI::App* command : {add("install", "write the unit, and start it"),
                              add("run", "what the unit runs, for other service managers")}) {
        command->add_option("--dir", options.directory, "folder of this peer");
        command->add_option("--name", options.name, "name shown to others (default: host name)");
        command->add_option("--data", options.data_directory, "folder of the task's data");
        command->add_flag("--yes",
                          options.agrees,
                          "take the data that the run sends, under the licence that it names");
        command->add_option("--hours", options.hours, "of the local day: 22:00-07:00,12:30-13:00");
        command->add_option("--idle", options.idle_minutes, "minutes that nobody used the machine")
            ->check(CLI::Range(0.0, 1440.0));
        command
            ->add_option("--processor",
                         options.processor_percent,
                         "of one processor at most, in percent: 150 is one and a half (install)")
            ->check(CLI::Range(1, 100'000));
        command->add_option("--threads", options.threads, threads_help)->check(threads_check());
        add_cap_options(*command, options.caps);
    }
}

}  // namespace

void add_people_commands(CLI::App& app,
                         PeopleOptions& options,
                         const OnRun& on_run,
                         const std::string& program) {
    add_finetune_command(app, options.finetune, on_run);
    add_admission_commands(app, options, on_run);
    add_report_command(app, options.report, on_run);
    add_why_command(app, options.why, on_run);
    add_control_commands(app, options, on_run);
    add_replay_command(app, options.replay, on_run);
    add_service_command(app, options.service, on_run, program);
}

}  // namespace dedloc::cli
