#include "dedloc/text/cache.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/file.h>
#include <unistd.h>

#include "dedloc/base/file.h"
#include "dedloc/base/log.h"
#include "dedloc/security/hash.h"

namespace dedloc::text {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view scratch_prefix = "scratch-";
constexpr std::string_view scratch_mark = "XXXXXX";  // mkdtemp() replaces it

// -1: somebody holds it, or nobody can tell.
int locked_folder(const std::string& path) {
    const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && ::flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
    if (folder >= 0) ::close(folder);
    return -1;
}

// An interrupted training leaves its text: 200 MB.
void remove_abandoned(const std::string& parent) {
    std::error_code error;
    fs::directory_iterator entry(parent, error);
    for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(scratch_prefix) ||
            name.size() != scratch_prefix.size() + scratch_mark.size())
            continue;
        const int lock = locked_folder(entry->path().string());
        if (lock < 0) continue;
        std::error_code left;
        fs::remove_all(entry->path(), left);
        ::close(lock);
    }
}

}  // namespace

Result<std::string> default_cache_directory() {
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
        return std::string(cache) + "/dedloc";
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
        return std::string(home) + "/.cache/dedloc";
    return make_error(ErrorKind::local_fault,
                      "there is no folder for cached data: set HOME or XDG_CACHE_HOME");
}

Ok write_file(const std::string& path, std::string_view content) {
    const std::string temporary = fmt::format("{}.{}.new", path, ::getpid());
    {
        std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
        file.write(content.data(), static_cast<std::streamsize>(content.size()));
        file.flush();
        if (!file) {
            const std::string why = std::strerror(errno);
            ::unlink(temporary.c_str());
            return make_error(ErrorKind::local_fault, "cannot write {}: {}", path, why);
        }
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        const std::string why = std::strerror(errno);
        ::unlink(temporary.c_str());
        return make_error(ErrorKind::local_fault, "cannot write {}: {}", path, why);
    }
    return {};
}

Result<std::vector<std::string>> write_files(const std::string& directory,
                                             std::span<const NamedContent> files) {
    std::vector<std::string> names;
    for (const auto& [name, content] : files) {
        names.emplace_back(name);
        DEDLOC_TRY_VOID(write_file(directory + "/" + names.back(), content));
    }
    return names;
}

Ok make_folder(const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (!error) return {};
    return make_error(
        ErrorKind::local_fault, "cannot make the folder {}: {}", path, error.message());
}

Ok write_to_cache(const std::string& name, ByteView file) {
    DEDLOC_TRY(const std::string cache, default_cache_directory());
    const fs::path path = fs::path(cache) / name;
    DEDLOC_TRY_VOID(make_folder(path.parent_path().string()));
    return write_file(path.string(), as_text(file));
}

SharedBytes read_from_cache(const std::string& name, const Digest& hash, std::size_t bytes_max) {
    const auto cache = default_cache_directory();
    if (!cache) return {};
    auto content = base::read_file(*cache + "/" + name, bytes_max);
    if (!content || security::sha256(as_bytes(*content)) != hash) return {};
    const auto owner = std::make_shared<const std::string>(*std::move(content));
    return {owner, as_bytes(*owner)};
}

Ok alone_with(const std::string& path, const std::function<Ok()>& work) {
    const std::string folder = fs::path(path).parent_path().string();
    if (!folder.empty()) DEDLOC_TRY_VOID(make_folder(folder));
    const std::string lock = path + ".lock";
    const int file = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return make_error(
            ErrorKind::local_fault, "cannot write {}: {}", lock, std::strerror(errno));
    int locked = ::flock(file, LOCK_EX | LOCK_NB);
    if (locked != 0 && errno == EWOULDBLOCK) {
        log(LogLevel::warning, "text", "waiting for another process that makes {}", path);
        while ((locked = ::flock(file, LOCK_EX)) != 0 && errno == EINTR) {
        }
    }
    // The file is renamed into its place: two at once cost time, and nothing else.
    if (locked != 0)
        log(LogLevel::warning,
            "text",
            "{} cannot be locked ({}), as on some network file systems: another process may do the "
            "same work; XDG_CACHE_HOME names a folder on a disk of this machine",
            lock,
            std::strerror(errno));
    Ok result = work();
    ::close(file);  // and with it the lock
    return result;
}

Result<ScratchFolder> ScratchFolder::make(const std::string& parent) {
    std::string path = fmt::format("{}/{}{}", parent, scratch_prefix, scratch_mark);
    int lock = -1;
    // Alone, or another process would take the new folder, which is not locked yet, for abandoned.
    DEDLOC_TRY_VOID(alone_with(parent + "/scratch", [&]() -> Ok {
        remove_abandoned(parent);
        if (::mkdtemp(path.data()) == nullptr)
            return make_error(ErrorKind::local_fault,
                              "cannot make a folder in {}: {}",
                              parent,
                              std::strerror(errno));
        lock = locked_folder(path);
        return {};
    }));
    return ScratchFolder(path, lock);
}

ScratchFolder::~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
    if (lock_ >= 0) ::close(lock_);
}

}  // namespace dedloc::text
