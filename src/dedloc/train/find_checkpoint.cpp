#include "dedloc/train/find_checkpoint.h"

#include <filesystem>

#include "dedloc/runtime/machine.h"
#include "dedloc/runtime/real.h"

namespace dedloc::train {
namespace {

namespace fs = std::filesystem;

// A checkpoint that cannot be found or read is a wrong argument, not a missing data set.
Error as_input_error(const Error& error) {
    if (error.kind() != ErrorKind::not_found) return error;
    return Error(ErrorKind::bad_input, error.message());
}

}  // namespace

Result<FoundCheckpoint> find_checkpoint(const std::string& given) {
    std::error_code status;
    fs::path path = fs::absolute(given, status).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (!fs::is_directory(path, status))
        return make_error(ErrorKind::bad_input, "there is no folder {}", given);
    const bool is_one =
        fs::exists(path / "checkpoint.json", status) ||
        (fs::exists(path / "manifest", status) && path.filename().string().starts_with("step-"));
    if (!is_one && fs::is_directory(path / checkpoints_folder, status)) path /= checkpoints_folder;

    const fs::path folder = is_one ? path.parent_path() : path;
    DEDLOC_TRY(auto disk, runtime::real_disk(folder.parent_path().string()));
    const std::string folder_name = folder.filename().string();
    const std::uint64_t memory = runtime::memory_available();
    if (is_one) {
        auto loaded = state::load_checkpoint(*disk, folder_name, path.filename().string(), memory);
        if (!loaded) return as_input_error(loaded.error());
        return FoundCheckpoint{
            .path = path.string(), .checkpoint = *std::move(loaded), .skipped = {}};
    }
    auto newest = state::load_newest_checkpoint(*disk, folder_name, memory);
    if (!newest) {
        if (newest.error().kind() == ErrorKind::not_found)
            return make_error(ErrorKind::bad_input,
                              "there is no checkpoint in {}: a peer writes one every "
                              "`checkpoint.every` steps, and when it leaves",
                              given);
        return newest.error();
    }
    return FoundCheckpoint{.path = (path / newest->summary.name).string(),
                           .checkpoint = std::move(newest->checkpoint),
                           .skipped = std::move(newest->skipped)};
}

}  // namespace dedloc::train
