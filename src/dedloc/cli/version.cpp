// dedloc version: what this program is and what it was built with.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/exit_codes.h"
#include "dedloc/cli/say.h"
#include "dedloc/collab/run_file.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/optim/optimizer.h"

namespace dedloc::cli {

int run_version(const VersionOptions& options) {
    const bool torch = DEDLOC_WITH_TORCH != 0;
    if (options.json) {
        const nlohmann::ordered_json json{{"version", DEDLOC_VERSION},
                                          {"run_format", collab::run_format},
                                          {"numerics", collab::numerics_version},
                                          {"optimizer_numerics", optim::numerics_version},
                                          {"libtorch", torch},
                                          {"compiler", __VERSION__}};
        say(stdout, "{}\n", monitor::json_line(json));
        return 0;
    }
    say(stdout,
        "dedloc {} ({} libtorch; run format {}, numerics {}.{}; compiler {})\n",
        DEDLOC_VERSION,
        torch ? "with" : "without",
        collab::run_format,
        collab::numerics_version,
        optim::numerics_version,
        __VERSION__);
    return 0;
}

}  // namespace dedloc::cli
