#include "dedloc/cli/command_line_error.h"

#include <fmt/format.h>
#include <vector>

#include "dedloc/base/edit_distance.h"

namespace dedloc::cli {
namespace {

// The word that stands where a command should, and the command that it looks like.
std::string no_such_command(const CLI::App& app, const std::string& word) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return fmt::format("there is no command '{}'{}", word, base::did_you_mean(word, names));
}

// An option that the command does not have, and the one that it looks like.
std::string no_such_option(const CLI::App& command, const std::string& given) {
    const std::string word = given.substr(0, given.find('='));
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return fmt::format("there is no option '{}'{}", word, base::did_you_mean(word, names));
}

}  // namespace

std::string what_was_wrong(const CLI::App* app, const CLI::Error& error) {
    const CLI::App* command = app;
    std::string words = app->get_name();
    while (!command->get_subcommands().empty()) {
        command = command->get_subcommands().front();
        words += " " + command->get_name();
    }
    std::string what = error.what();
    const std::vector<std::string> unknown = command->remaining();
    const bool is_option = !unknown.empty() && unknown.front().starts_with("-");
    if (is_option) {
        what = no_such_option(*command, unknown.front());
    } else if (command->get_require_subcommand_min() > 0) {
        what = unknown.empty() ? "say what to do" : no_such_command(*command, unknown.front());
    } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
        for (const CLI::Option* option : command->get_options())
            if (option->get_required() && option->empty())
                what = fmt::format(
                    "{} is missing ({})", option->get_name(), option->get_description());
    }
    return fmt::format(
        "dedloc: {}{} `{} --help` says more\n", what, what.ends_with('?') ? "" : ";", words);
}

}  // namespace dedloc::cli
