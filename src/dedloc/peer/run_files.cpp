#include "dedloc/peer/run_files.h"

#include <filesystem>
#include <optional>

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
        std::error_code error;
        fs::create_directories(folder, error);
        if (error)
            return make_error(ErrorKind::local_fault,
                              "cannot make the folder {}: {}",
                              folder.string(),
                              error.message());
        DEDLOC_TRY_VOID(text::write_file(path, as_text(*file)));
    }
    return {};
}

namespace {

void restore(const std::string& checkpoint,
             const run::TaskConfig& task,
             const tasks::MissingFile& missing) {
    const fs::path own = checkpoint;
    for (const fs::path& folder : {own, own.parent_path().parent_path()}) {
        const std::string path = (folder / run_files_folder / missing.hash.hex()).string();
        const auto content = base::read_file(path, missing.bytes_max);
        if (!content) continue;
        const Ok kept = tasks::keep_file(task, missing, as_bytes(*content));
        if (kept) return;
        log(LogLevel::warning, "cli", "{} is of no use: {}", path, kept.error().message());
    }
}

}  // namespace

Ok restore_run_files(const std::string& checkpoint,
                     const run::TaskConfig& task,
                     const tasks::TaskOptions& options) {
    std::optional<Digest> before;
    while (true) {
        DEDLOC_TRY(const auto missing, tasks::missing_file(task, options));
        if (!missing || missing->hash == before) return {};
        before = missing->hash;
        restore(checkpoint, task, *missing);
    }
}

}  // namespace dedloc::peer
