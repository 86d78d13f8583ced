#include "dedloc/train/run_copy.h"

#include <filesystem>

#include "dedloc/base/file.h"
#include "dedloc/security/identity_file.h"

namespace dedloc::train {

Ok check_folder_of(const std::string& directory, const Digest& run) {
    std::error_code error;
    if (!std::filesystem::exists(directory + "/" + std::string(security::identity_file), error))
        return {};
    const std::string path = directory + "/" + std::string(run_copy_file);
    const auto text = base::read_file(path, run::run_file_bytes_max);
    if (!text) return {};
    const auto copy = run::parse_run_file(*text, path);
    if (!copy || run::run_hash(*copy) == run) return {};
    return make_error(
        ErrorKind::bad_input,
        "{} is the folder of a peer of another run, '{}' ({}; this one is {}), as a "
        "run with other settings is another one: give this peer a folder of its own "
        "(in Python directory=\"…\", for the program --dir), or remove that folder if "
        "its run is not needed any more",
        directory,
        copy->name,
        run::run_hash(*copy).short_hex(),
        run.short_hex());
}

Ok keep_run_copy(const collab::Node& node, const run::RunFile& run) {
    return node.disk().write_atomically(std::string(run_copy_file), as_bytes(run::to_toml(run)));
}

}  // namespace dedloc::train
