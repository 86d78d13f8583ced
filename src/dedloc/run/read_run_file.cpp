#include "dedloc/run/read_run_file.h"

#include "dedloc/base/file.h"

namespace dedloc::run {

Result<RunFile> read_run_file(const std::string& path) {
    DEDLOC_TRY(const std::string text, base::read_file(path, run_file_bytes_max));
    return parse_run_file(text, path);
}

}  // namespace dedloc::run
