#include "dedloc/tasks/picture_folder.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <mutex>

#include "dedloc/base/log.h"

namespace dedloc::tasks {
namespace {

using FolderPointer = std::shared_ptr<const images::ImageFolder>;

constexpr std::size_t unreadable_said_max = 5;  // in one line of the log

void warn_of_unreadable(const std::string& path, const images::ImageFolder& folder) {
    if (folder.unreadable_count() == 0) return;
    const auto& names = folder.unreadable();
    const auto said = std::span(names).first(std::min(names.size(), unreadable_said_max));
    log(LogLevel::warning,
        "tasks",
        "{} of {} pictures in {} cannot be read and are left out: {}{}",
        folder.unreadable_count(),
        folder.unreadable_count() + folder.entries().size(),
        path,
        fmt::join(said, "; "),
        folder.unreadable_count() > said.size() ? "; …" : "");
}

Result<FolderPointer> open_now(const TaskOptions& options) {
    images::ImageFolder::Progress progress;
    if (options.progress)
        progress = [&options](std::size_t done, std::size_t all) {
            options.progress("pictures", done, all);
        };
    DEDLOC_TRY(auto opened, images::ImageFolder::open(options.data_directory, progress));
    warn_of_unreadable(options.data_directory, opened);
    return std::make_shared<const images::ImageFolder>(std::move(opened));
}

// The folder that this process opened last.
Result<FolderPointer> open_once(const TaskOptions& options) {
    static std::mutex mutex;
    static std::string last_path;
    static FolderPointer last;
    std::error_code unknown;
    const std::string path = std::filesystem::absolute(options.data_directory, unknown).string();
    const std::lock_guard lock(mutex);
    if (last && path == last_path) return last;
    DEDLOC_TRY(last, open_now(options));
    last_path = path;
    return last;
}

}  // namespace

Result<FolderPointer> open_pictures(const TaskOptions& options,
                                    std::string_view key,
                                    const std::string& value) {
    DEDLOC_TRY(const PicturesKey wanted, parse_pictures_key(key, value));
    if (options.data_directory.empty())
        return make_error(ErrorKind::not_found,
                          "this run's pictures are in a folder that everybody who trains needs: "
                          "say with --data which folder has them");
    DEDLOC_TRY(const FolderPointer folder, open_once(options));
    if (wanted.undecided || wanted.any || wanted.fingerprint == folder->fingerprint())
        return folder;
    std::string which;
    if (wanted.sketch) which = say_differences(*folder, *wanted.sketch);
    return make_error(
        ErrorKind::conflict,
        "the {} pictures in {} have the fingerprint {}…, and the run's{} have {}…{}{}: take the "
        "same files as the run's host (names of folders and files count)",
        folder->entries().size(),
        options.data_directory,
        folder->fingerprint().short_hex(),
        wanted.sketch ? fmt::format(" {}", wanted.sketch->files_count()) : "",
        wanted.fingerprint.short_hex(),
        which.empty() ? "" : "; ",
        which);
}

}  // namespace dedloc::tasks
