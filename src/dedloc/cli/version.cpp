// dedloc version: what this program is and what it was built with.

#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

#include "dedloc/cli/commands.h"
#include "dedloc/cli/release_check.h"
#include "dedloc/membership/protocol_range.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/say.h"
#include "dedloc/run/run_file.h"

extern const char* const dedloc_source_commit;  // cmake/DedlocCommit.cmake

namespace dedloc::cli {

namespace {

constexpr bool with_torch = DEDLOC_WITH_TORCH != 0;

}  // namespace

std::string version_line() {
    return fmt::format(
        "dedloc {} (commit {}; protocol {}, run format {}, numerics {}.{}; {} libtorch; compiler "
        "{})",
        DEDLOC_VERSION,
        dedloc_source_commit,
        membership::to_text(membership::own_protocols()),
        run::run_format,
        run::numerics_version,
        optim::numerics_version,
        with_torch ? "with" : "without",
        __VERSION__);
}

int run_version(const VersionOptions& options) {
    if (!options.check.empty()) {
        if (const Ok whole = check_release_file(options.check); !whole)
            return peer::report(peer::failure(peer::ExitCode::check_failed, whole.error()));
        peer::say(stdout, "{}: whole, by {}\n", options.check, checksums_file);
        return 0;
    }
    if (options.json) {
        const nlohmann::ordered_json json{{"version", DEDLOC_VERSION},
                                          {"commit", dedloc_source_commit},
                                          {"protocol_oldest", membership::protocol_oldest},
                                          {"protocol_newest", membership::protocol_newest},
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
