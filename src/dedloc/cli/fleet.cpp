#include "dedloc/cli/fleet.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dedloc/cli/join_string_source.h"
#include "dedloc/cli/option_words.h"
#include "dedloc/fleet/fleet_writer.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/join_string.h"
#include "dedloc/run/run_file.h"

namespace dedloc::cli {
namespace {

// The fleet hosts the run of a run file; any other text has to lead to a run that it joins.
Ok take_run(fleet::Fleet& fleet, const std::string& what) {
    std::error_code unknown;
    if (std::filesystem::is_regular_file(what, unknown)) {
        DEDLOC_TRY(fleet.run_file, peer::read_text_file(what, run::run_file_bytes_max));
        return {};
    }
    DEDLOC_TRY(const JoinArgument argument, join_argument_from(what));
    if (!run::parse_join_string(argument.text))
        return make_error(ErrorKind::bad_input,
                          "'{}' is neither a run file that is there, nor a join string, @FILE with "
                          "one, or a peer's folder",
                          what.substr(0, 80));
    fleet.join_string = argument.text;
    return {};
}

Result<fleet::Fleet> fleet_of(const FleetOptions& options) {
    fleet::Fleet fleet;
    DEDLOC_TRY_VOID(take_run(fleet, options.what));
    if (!options.file.empty()) {
        DEDLOC_TRY(const std::string text,
                   peer::read_text_file(options.file, fleet::fleet_file_bytes_max));
        DEDLOC_TRY_VOID(fleet::read_fleet_file(fleet, text, options.file));
    }
    for (const auto& [name, value] : options.fields)
        DEDLOC_TRY_VOID(fleet::set_field(fleet, name, value));
    return fleet;
}

Ok write_texts(const std::vector<fleet::FleetText>& texts, const FleetOptions& options) {
    namespace files = std::filesystem;
    std::error_code error;
    files::create_directories(options.directory, error);
    for (const fleet::FleetText& text : texts)
        if (!options.force && files::exists(files::path(options.directory) / text.name, error))
            return make_error(ErrorKind::bad_input,
                              "{}/{} exists already; --force overwrites it, --to names another "
                              "folder",
                              options.directory,
                              text.name);
    for (const fleet::FleetText& text : texts) {
        const std::string path = options.directory + "/" + text.name;
        // The join string is a secret: its file is private from the moment it is there.
        if (text.access == fleet::FleetText::Access::owner) {
            DEDLOC_TRY_VOID(peer::write_private_file(path, text.text));
            continue;
        }
        std::ofstream file(path, std::ios::binary);
        file << text.text;
        file.close();
        if (!file) return make_error(ErrorKind::local_fault, "cannot write {}", path);
        if (text.access == fleet::FleetText::Access::runs)
            files::permissions(
                path,
                files::perms::owner_exec | files::perms::group_exec | files::perms::others_exec,
                files::perm_options::add,
                error);
    }
    return {};
}

void say_written(const std::vector<fleet::FleetText>& texts,
                 const fleet::FleetKind& kind,
                 const FleetOptions& options) {
    if (options.json) {
        nlohmann::ordered_json names = nlohmann::ordered_json::array();
        for (const fleet::FleetText& text : texts) names.push_back(text.name);
        const nlohmann::ordered_json json{
            {"ok", true}, {"directory", options.directory}, {"files", std::move(names)}};
        return peer::say(stdout, "{}\n", monitor::json_line(json));
    }
    std::string names;
    for (const fleet::FleetText& text : texts) names += (names.empty() ? "" : ", ") + text.name;
    peer::say(stdout,
              "{} is written: {}. Look through them; then: cd {} && {}\n",
              options.directory,
              names,
              options.directory,
              kind.start);
}

}  // namespace

int run_fleet(const FleetOptions& options) {
    const auto kinds = fleet::fleet_kinds();
    const auto kind = std::ranges::find(kinds, options.kind, &fleet::FleetKind::name);
    const auto fleet = fleet_of(options);
    if (!fleet) return peer::report(peer::failure(fleet.error()));
    const auto texts = fleet::write_fleet(*kind, *fleet);
    if (!texts) return peer::report(peer::failure(texts.error()));
    if (const Ok written = write_texts(*texts, options); !written)
        return peer::report(written.error().kind() == ErrorKind::bad_input
                                ? peer::failure(written.error())
                                : peer::failure(peer::ExitCode::disk, written.error()));
    say_written(*texts, *kind, options);
    return 0;
}

void add_fleet_command(CLI::App& app, FleetOptions& options, const OnRun& on_run) {
    CLI::App* command = app.add_subcommand(
        "fleet", "write what starts many peers on machines that may be taken away");
    std::vector<std::string> kinds;
    std::string help;
    for (const fleet::FleetKind& kind : fleet::fleet_kinds()) {
        kinds.emplace_back(kind.name);
        help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", kind.name, kind.help);
    }
    command->add_option("kind", options.kind, help)->required()->check(CLI::IsMember(kinds));
    command
        ->add_option("run",
                     options.what,
                     "a run file, which the fleet then hosts; or a join string (as for join)")
        ->required();
    command->add_option("--fleet", options.file, "a file of these options, one a line: peers = 16");
    command->add_option("--to", options.directory, "folder for what is written (fleet)");
    command->add_flag("--force", options.force, "overwrite what is there");
    for (const fleet::FleetField& field : fleet::fleet_fields())
        command->add_option_function<std::string>(
            "--" + std::string(field.name),
            [&options, name = std::string(field.name)](const std::string& value) {
                options.fields.emplace_back(name, value);
            },
            std::string(field.help));
    command->add_flag("--json", options.json, json_help);
    on_run(command, [&options] { return run_fleet(options); });
}

}  // namespace dedloc::cli
