// dedloc plan: who should reduce how much in a network that a file describes, how long a round
// would take, and why.

#include <cstdio>
#include <fstream>

#include "dedloc/cli/commands.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_directory.h"
#include "dedloc/peer/say.h"
#include "dedloc/planning/plan_file.h"
#include "dedloc/planning/plan_json.h"
#include "dedloc/planning/plan_setups.h"
#include "dedloc/planning/plan_svg.h"
#include "dedloc/planning/plan_view.h"

namespace dedloc::cli {
namespace {

constexpr std::size_t text_columns = 96;

std::string setup_names() {
    std::string names;
    for (const planning::PlanSetup& setup : planning::plan_setups())
        names += (names.empty() ? "" : " ") + std::string(setup.name);
    return names;
}

Result<std::string> plan_text(const PlanOptions& options) {
    if (options.file.empty() == options.setup.empty())
        return make_error(ErrorKind::bad_input,
                          "name a file, or one of the networks that dedloc knows with --setup: {}",
                          setup_names());
    if (!options.file.empty())
        return peer::read_text_file(options.file, planning::plan_file_bytes_max);
    for (const planning::PlanSetup& setup : planning::plan_setups())
        if (setup.name == options.setup) return std::string(setup.text);
    return make_error(ErrorKind::bad_input,
                      "there is no set-up '{}'; known are: {}",
                      options.setup.substr(0, 64),
                      setup_names());
}

Ok write_file(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) return make_error(ErrorKind::local_fault, "cannot write {}", path);
    return {};
}

}  // namespace

int run_plan(const PlanOptions& options) {
    const auto text = plan_text(options);
    if (!text) return peer::report(peer::failure(text.error()));
    if (options.print) {
        peer::say(stdout, "{}", *text);
        return 0;
    }
    const auto file = planning::parse_plan_file(
        *text, options.file.empty() ? options.setup + ".toml" : options.file);
    if (!file) return peer::report(peer::failure(file.error()));
    const auto plan = planner::make_plan(file->question);
    if (!plan) return peer::report(peer::failure(plan.error().with_context(file->name)));
    if (!options.svg.empty()) {
        const Ok written = write_file(options.svg, planning::plan_svg(*file, *plan));
        if (!written) return peer::report(peer::failure(peer::ExitCode::disk, written.error()));
    }
    if (options.json)
        peer::say(stdout, "{}\n", planning::plan_json(*file, *plan));
    else
        peer::say(stdout, "{}", planning::plan_text(*file, *plan, text_columns));
    return 0;
}

}  // namespace dedloc::cli
