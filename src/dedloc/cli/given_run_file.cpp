#include "dedloc/cli/given_run_file.h"

#include "dedloc/run/read_run_file.h"

namespace dedloc::cli {

Result<run::RunFile> given_run_file(const std::string& path) {
    auto run = run::read_run_file(path);
    if (!run) return Error(ErrorKind::bad_input, run.error().message());
    return run;
}

}  // namespace dedloc::cli
