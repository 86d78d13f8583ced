#include "dedloc/cli/given_run_file.h"

#include "dedloc/collab/read_run_file.h"

namespace dedloc::cli {

Result<collab::RunFile> given_run_file(const std::string& path) {
    auto run = collab::read_run_file(path);
    if (!run) return Error(ErrorKind::bad_input, run.error().message());
    return run;
}

}  // namespace dedloc::cli
