#include "tests/process/process_folder.h"

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/process/janitor.h"

namespace dedloc::lab {

namespace fs = std::filesystem;

namespace {

constexpr const char* memory_folder = "/dev/shm";

// Memory is what such folders take.
Janitor& janitor() {
    static Janitor one;
    return one;
}

}  // namespace

std::string this_program() {
    char path[PATH_MAX];
    const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
    return {path, size > 0 ? static_cast<std::size_t>(size) : 0};
}

std::string dedloc_program() {
    return fs::path(this_program()).replace_filename("dedloc").string();
}

Result<std::string> process_folder(const std::string& wanted, const std::string& name) {
    std::error_code error;
    if (!wanted.empty()) {
        std::string folder = fs::absolute(wanted).lexically_normal().string();
        fs::create_directories(folder, error);
        if (error || !fs::is_empty(folder, error))
            return make_error(
                ErrorKind::local_fault, "{} must be a folder that is empty or can be made", folder);
        return folder;
    }
    const bool in_memory = ::access(memory_folder, W_OK | X_OK) == 0;
    const fs::path parent = in_memory ? fs::path(memory_folder) : fs::temp_directory_path(error);
    std::string pattern = (parent / ("dedloc-" + name + "-XXXXXX")).string();
    if (!mkdtemp(pattern.data()))
        return make_error(ErrorKind::local_fault, "cannot make a temporary folder {}", pattern);
    DEDLOC_TRY_VOID(janitor().remove_folder(pattern));
    return pattern;
}

void end_process_folder(const std::string& folder, bool keep) {
    std::error_code error;
    if (keep) {
        janitor().keep(folder);
        fmt::print(stderr, "dedloc: the peers' files stay in {}\n", folder);
    } else {
        fs::remove_all(folder, error);
    }
}

}  // namespace dedloc::lab
