#include "dedloc/cli/given_run_file.h"

#include "dedloc/peer/peer_directory.h"
#include "dedloc/run/read_run_file.h"
#include "dedloc/templates/run_file_settings.h"

namespace dedloc::cli {

Result<run::RunFile> given_run_file(const std::string& path) {
    auto run = run::read_run_file(path);
    if (!run) return Error(ErrorKind::bad_input, run.error().message());
    return run;
}

Result<run::RunFile> given_run_file(const std::string& path,
                                    std::span<const std::string> settings) {
    if (settings.empty()) return given_run_file(path);
    DEDLOC_TRY(std::string text, peer::read_text_file(path, run::run_file_bytes_max));
    DEDLOC_TRY(text, templates::with_settings(std::move(text), settings, path));
    return run::parse_run_file(text, path);
}

}  // namespace dedloc::cli
