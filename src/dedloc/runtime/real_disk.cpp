// Files in one directory. Durable means: fdatasync of the file, fsync of the folder that names it.
//
// Thread: any; a mutex guards the table of files that stay open for appending, and appends. Writes
// of whole files do without it: a vote need not wait for a checkpoint.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <list>
#include <mutex>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "dedloc/runtime/real.h"

namespace dedloc::runtime {

namespace {

// Votes, certificates, states: nobody else on the machine has to do with them.
constexpr mode_t file_mode = 0600;

constexpr std::size_t open_files_max = 32;
constexpr std::size_t file_bytes_max = std::size_t{1} << 40;
constexpr std::string_view temporary_prefix = ".tmp-";

class FileHandle {
  public:
    explicit FileHandle(int fd) : fd_(fd) {}
    FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    FileHandle& operator=(FileHandle&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~FileHandle() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }
    bool is_open() const { return fd_ >= 0; }

  private:
    int fd_;
};

Error explain(int error, std::string_view doing, const std::string& path) {
    if (error == ENOENT) return make_error(ErrorKind::not_found, "{} does not exist", path);
    if (error == ENOSPC || error == EDQUOT)
        return make_error(ErrorKind::local_fault,
                          "no space left on the disk while {} {}; free some space there, nothing "
                          "that was already saved is lost",
                          doing,
                          path);
    if (error == EACCES || error == EPERM || error == EROFS)
        return make_error(ErrorKind::local_fault,
                          "not allowed while {} {}: {}; check who owns the folder",
                          doing,
                          path,
                          std::strerror(error));
    return make_error(
        ErrorKind::local_fault, "{} {} failed: {}", doing, path, std::strerror(error));
}

// Relative, without empty, "." and ".." parts.
bool is_inside(std::string_view path) {
    if (path.empty() || path.find('\0') != std::string_view::npos) return false;
    while (true) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        if (part.empty() || part == "." || part == "..") return false;
        if (slash == std::string_view::npos) return true;
        path.remove_prefix(slash + 1);
    }
}

Ok write_all(int fd, ByteView bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            return explain(errno, "writing", path);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Ok sync_folder(const std::string& folder) {
    const FileHandle handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!handle.is_open()) return explain(errno, "opening", folder);
    // Some file systems cannot sync a folder and say so with EINVAL; then there is no better.
    if (::fsync(handle.get()) != 0 && errno != EINVAL) return explain(errno, "syncing", folder);
    return {};
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

class RealDisk final : public Disk {
  public:
    explicit RealDisk(std::string directory) : directory_(std::move(directory)) {}

    Result<Bytes> read(const std::string& path) override {
        DEDLOC_TRY(const std::string full, full_path(path));
        const FileHandle file(::open(full.c_str(), O_RDONLY | O_CLOEXEC));
        if (!file.is_open()) return explain(errno, "opening", full);
        struct stat status {};
        if (::fstat(file.get(), &status) != 0) return explain(errno, "reading", full);
        if (!S_ISREG(status.st_mode))
            return make_error(ErrorKind::local_fault, "{} is not a file", full);
        Bytes bytes;
        bytes.reserve(static_cast<std::size_t>(status.st_size));
        // Until the end, not st_size: somebody may be appending.
        while (bytes.size() < file_bytes_max) {
            const std::size_t have = bytes.size();
            bytes.resize(std::max(have + 4096, bytes.capacity()));
            const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
            bytes.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
            if (got < 0 && errno != EINTR) return explain(errno, "reading", full);
            if (got == 0) break;
        }
        return bytes;
    }

    Result<std::uint64_t> size(const std::string& path) override {
        DEDLOC_TRY(const std::string full, full_path(path));
        struct stat status {};
        if (::stat(full.c_str(), &status) != 0) return explain(errno, "looking at", full);
        if (!S_ISREG(status.st_mode))
            return make_error(ErrorKind::local_fault, "{} is not a file", full);
        return static_cast<std::uint64_t>(status.st_size);
    }

    Result<void> write_atomically(const std::string& path, ByteView bytes) override {
        DEDLOC_TRY(const std::string full, full_path(path));
        DEDLOC_TRY_VOID(prepare_to_write(full));
        DEDLOC_TRY_VOID(replace(full, bytes));
        return sync_folder(parent_of(full));
    }

    Result<void> write_over(const std::string& path, const std::vector<ByteView>& pieces) override {
        DEDLOC_TRY(const std::string full, full_path(path));
        DEDLOC_TRY_VOID(prepare_to_write(full));
        return overwrite(full, pieces);
    }

    Result<void> append_durably(const std::string& path, ByteView bytes) override {
        DEDLOC_TRY(const std::string full, full_path(path));
        const std::lock_guard lock(mutex_);
        DEDLOC_TRY(const int fd, open_for_append(full));
        const off_t before = ::lseek(fd, 0, SEEK_END);
        auto written = write_all(fd, bytes, full);
        if (written && ::fdatasync(fd) != 0) written = explain(errno, "syncing", full);
        if (!written) {
            // A torn record in the middle of the file would hide all that comes after it.
            if (before < 0 || ::ftruncate(fd, before) != 0)
                written = written.error().with_context("a part of it may remain");
            forget(full);
        }
        return written;
    }

    Result<void> remove(const std::string& path) override {
        DEDLOC_TRY(const std::string full, full_path(path));
        const std::lock_guard lock(mutex_);
        forget(full);
        std::error_code error;
        const auto removed = std::filesystem::remove_all(full, error);
        if (error) return explain(error.value(), "removing", full);
        if (removed == 0) return make_error(ErrorKind::not_found, "{} does not exist", full);
        return sync_folder(parent_of(full));
    }

    Result<std::vector<std::string>> list(const std::string& folder) override {
        std::string full = directory_;
        if (!folder.empty()) {
            DEDLOC_TRY(full, full_path(folder));
        }
        std::error_code error;
        std::vector<std::string> names;
        std::filesystem::directory_iterator entry(full, error);
        if (error) return explain(error.value(), "listing", full);
        for (; entry != std::filesystem::directory_iterator(); entry.increment(error)) {
            if (error) return explain(error.value(), "listing", full);
            std::string name = entry->path().filename().string();
            if (!name.starts_with(temporary_prefix)) names.push_back(std::move(name));
        }
        std::sort(names.begin(), names.end());
        return names;
    }

  private:
    struct OpenFile {
        std::string path;
        FileHandle handle;
    };

    Result<std::string> full_path(const std::string& path) const {
        if (!is_inside(path))
            return make_error(ErrorKind::bad_input,
                              "\"{}\" is not a path inside {}; use names without \"..\"",
                              path,
                              directory_);
        return directory_ + "/" + path;
    }

    // A whole file, and not yet what is in it.
    Ok prepare_to_write(const std::string& full) {
        const std::lock_guard lock(mutex_);
        forget(full);
        return make_folders(full);
    }

    Ok make_folders(const std::string& full) {
        for (std::size_t slash = full.find('/', directory_.size() + 1); slash != std::string::npos;
             slash = full.find('/', slash + 1)) {
            const std::string folder = full.substr(0, slash);
            if (::mkdir(folder.c_str(), 0777) == 0)
                DEDLOC_TRY_VOID(sync_folder(parent_of(folder)));
            else if (errno != EEXIST)
                return explain(errno, "making", folder);
        }
        return {};
    }

    static Ok write_new(const std::string& path, ByteView bytes) {
        const FileHandle file(
            ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, file_mode));
        if (!file.is_open()) return explain(errno, "creating", path);
        DEDLOC_TRY_VOID(write_all(file.get(), bytes, path));
        if (::fsync(file.get()) != 0) return explain(errno, "syncing", path);
        return {};
    }

    static Result<void> overwrite(const std::string& full, const std::vector<ByteView>& pieces) {
        const FileHandle file(::open(full.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, file_mode));
        if (!file.is_open()) return explain(errno, "opening", full);
        off_t size = 0;
        for (const ByteView piece : pieces) {
            DEDLOC_TRY_VOID(write_all(file.get(), piece, full));
            size += static_cast<off_t>(piece.size());
        }
        if (::ftruncate(file.get(), size) != 0) return explain(errno, "cutting", full);
        return {};
    }

    // The file at `full` becomes these pieces, or stays what it was.
    static Result<void> replace(const std::string& full, ByteView bytes) {
        const std::string folder = parent_of(full);
        const std::string temporary =
            fmt::format("{}/{}{}", folder, temporary_prefix, full.substr(folder.size() + 1));
        auto written = write_new(temporary, bytes);
        if (written && ::rename(temporary.c_str(), full.c_str()) != 0)
            written = explain(errno, "renaming", temporary);
        if (!written) (void)::unlink(temporary.c_str());  // best effort: `full` is untouched
        return written;
    }

    Result<int> open_for_append(const std::string& full) {
        for (auto file = open_files_.begin(); file != open_files_.end(); ++file) {
            if (file->path != full) continue;
            open_files_.splice(open_files_.begin(), open_files_, file);
            return open_files_.front().handle.get();
        }
        DEDLOC_TRY_VOID(make_folders(full));
        FileHandle handle(
            ::open(full.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, file_mode));
        if (!handle.is_open()) return explain(errno, "opening", full);
        DEDLOC_TRY_VOID(sync_folder(parent_of(full)));
        open_files_.push_front(OpenFile{full, std::move(handle)});
        if (open_files_.size() > open_files_max) open_files_.pop_back();
        return open_files_.front().handle.get();
    }

    // Forgets the file itself and all below it, when it is a folder.
    void forget(const std::string& full) {
        std::erase_if(open_files_, [&full](const OpenFile& file) {
            return file.path == full || file.path.starts_with(full + "/");
        });
    }

    const std::string directory_;
    std::mutex mutex_;
    std::list<OpenFile> open_files_;  // most recently used first
};

}  // namespace

Result<std::unique_ptr<Disk>> real_disk(const std::string& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) return explain(error.value(), "making the folder", directory);
    std::string path = std::filesystem::absolute(directory, error).lexically_normal().string();
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::unique_ptr<Disk> disk = std::make_unique<RealDisk>(std::move(path));
    return disk;
}

}  // namespace dedloc::runtime
