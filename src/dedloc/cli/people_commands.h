// The command line of everything about people: admission, reports, what their model is worth, and
// the volunteer's service.
//
// Thread: the main thread.

#pragma once
#include <CLI/App.hpp>
#include <functional>
#include <string>

#include "dedloc/cli/commands.h"

namespace dedloc::cli {

struct PeopleOptions {
    InviteOptions invite;
    MembersOptions members;
    RevokeOptions revoke;
    ReportOptions report;
    WhyOptions why;
    ControlOptions pause;
    ControlOptions resume;
    ControlOptions limit;
    ControlOptions publish;
    ReplayOptions replay;
    FineTuneOptions finetune;
    ServiceOptions service;
};

// Makes `run` what a command does.
using OnRun = std::function<void(CLI::App* command, std::function<int()> run)>;

// `options` outlives the app. `program`: its path.
void add_people_commands(CLI::App& app,
                         PeopleOptions& options,
                         const OnRun& on_run,
                         const std::string& program);

}  // namespace dedloc::cli
