// dedloc init: writes a run file with every field that people change, explained.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/robust_words.h"
#include "dedloc/peer/called_as.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/run_file.h"
#include "dedloc/templates/run_file_settings.h"
#include "dedloc/templates/run_templates.h"

namespace dedloc::cli {

int run_init(const InitOptions& options) {
    const std::string& task = options.task.empty() ? run::default_task().kind : options.task;
    if (!options.weights.empty() && !options.size.empty())
        return peer::report({peer::ExitCode::bad_input,
                             "--weights takes the sizes of its folder, and --size names others"});
    if (options.home && options.robust)
        return peer::report({peer::ExitCode::bad_input,
                             "--home and --robust exclude each other: nobody could compute again "
                             "what a peer at home hands in"});
    const std::size_t homes = options.home ? static_cast<std::size_t>(options.peers) : 0;
    auto text = options.weights.empty()
                    ? templates::run_template(task, options.size, homes)
                    : templates::run_template_for_weights(task, options.weights, homes);
    if (!text) return peer::report(peer::failure(text.error()));
    if (options.robust) *text += robust_section();
    auto set = templates::with_settings(*std::move(text), options.settings, "the run file");
    if (!set) return peer::report(peer::failure(set.error()));
    text = *std::move(set);
    if (options.output == "-") {
        peer::say(stdout, "{}", *text);
        return 0;
    }
    const std::string path = options.output.empty() ? task + ".toml" : options.output;
    std::error_code unknown;  // where we may not look, we cannot write
    if (std::filesystem::exists(path, unknown) && !options.force)
        return peer::report(
            {peer::ExitCode::bad_input,
             fmt::format("{} exists already; --force overwrites it, -o chooses another "
                         "name",
                         path)});
    errno = 0;
    std::ofstream file(path, std::ios::binary);
    file << *text;
    file.close();
    if (!file)
        return peer::report(
            {peer::ExitCode::disk, fmt::format("cannot write {}: {}", path, std::strerror(errno))});
    const std::string weights =
        options.weights.empty() ? std::string() : " --weights " + options.weights;
    if (task == "own_loop")
        peer::say(stdout, "{} is written. Next, in Python: dedloc.host(\"{}\")\n", path, path);
    else
        peer::say(
            stdout, "{} is written. Next: {} host {}{}\n", path, peer::called_as(), path, weights);
    return 0;
}

}  // namespace dedloc::cli
