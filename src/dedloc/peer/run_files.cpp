#include "dedloc/peer/run_files.h"

#include <filesystem>

#include "dedloc/base/file.h"
#include "dedloc/base/log.h"
#include "dedloc/security/hash.h"
#include "dedloc/text/cache.h"

namespace dedloc::peer {

namespace fs = std::filesystem;

Ok keep_run_files(const std::string& peer_directory, const tasks::TrainingTask& task) {
    for (const SharedBytes& file : task.files()) {
        const fs::path folder = fs::path(peer_directory) / run_files_folder;
        const std::string path = (folder / security::sha256(*file).hex()).string();
        const auto there = base::read_file(path, file->size());
        if (there && *there == as_text(*file)) continue;
        DEDLOC_TRY_VOID(text::make_folder(folder.string()));
        DEDLOC_TRY_VOID(text::write_file(path, as_text(*file)));
    }
    return {};
}

namespace {

// Returns whether one of the folders had the file.
bool restore(const std::string& checkpoint,
             const run::TaskConfig& task,
             const tasks::MissingFile& missing) {
    const fs::path own = checkpoint;
    for (const fs::path& folder : {own, own.parent_path().parent_path()}) {
        const std::string path = (folder / run_files_folder / missing.hash.hex()).string();
        const auto content = base::read_file(path, missing.bytes_max);
        if (!content) continue;
        const Ok kept = tasks::keep_file(task, missing, as_bytes(*content));
        if (kept) return true;
        log(LogLevel::warning, "cli", "{} is of no use: {}", path, kept.error().message());
    }
    return false;
}

}  // namespace

Ok restore_run_files(const std::string& checkpoint,
                     const run::TaskConfig& task,
                     const tasks::TaskOptions& options) {
    DEDLOC_TRY(const auto missing, tasks::missing_files(task, options));
    for (const tasks::MissingFile& file : missing)
        if (!restore(checkpoint, task, file)) break;
    return {};
}

}  // namespace dedloc::peer
