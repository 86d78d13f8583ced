#include "dedloc/collab/read_run_file.h"

#include "dedloc/base/file.h"

namespace dedloc::collab {

Result<RunFile> read_run_file(const std::string& path) {
    const auto text = base::read_file(path, run_file_bytes_max);
    if (!text) return Error(ErrorKind::bad_input, text.error().message());
    return parse_run_file(*text, path);
}

}  // namespace dedloc::collab
