// dedloc version: what this program is and what it was built with.

#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

#include "dedloc/cli/commands.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/run_file.h"

namespace dedloc::cli {

namespace {

constexpr bool with_torch = DEDLOC_WITH_TORCH != 0;

}  // namespace

std::string version_line() {
    return fmt::format("dedloc {} ({} libtorch; run format {}, numerics {}.{}; compiler {})",
                       DEDLOC_VERSION,
                       with_torch ? "with" : "without",
                       run::run_format,
                       run::numerics_version,
                       optim::numerics_version,
                       __VERSION__);
}

int run_version(const VersionOptions& options) {
    if (options.json) {
        const nlohmann::ordered_json json{{"version", DEDLOC_VERSION},
                                          {"run_format", run::run_format},
                                          {"numerics", run::numerics_version},
                                          {"optimizer_numerics", optim::numerics_version},
                                          {"robust_numerics", run::robust_numerics_version},
                                          {"libtorch", with_torch},
                                          {"compiler", __VERSION__}};
        peer::say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    peer::say(stdout, "{}\n", version_line());
    return 0;
}

}  // namespace dedloc::cli
