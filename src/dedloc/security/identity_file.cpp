#include "dedloc/security/identity_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "dedloc/base/log.h"

namespace dedloc::security {

namespace {

constexpr mode_t key_mode = 0600;
constexpr mode_t others_may = 0077;

// A key file has 72 bytes; anything longer is another file.
constexpr std::size_t key_file_bytes_max = 4096;

class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return value_; }
    int release() { return std::exchange(value_, -1); }

  private:
    int value_;
};

Error system_error(std::string_view what, const std::string& path, int code) {
    return make_error(ErrorKind::local_fault, "cannot {} {}: {}", what, path, std::strerror(code));
}

Result<int> lock_file(const std::string& path) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, key_mode));
    if (file.get() < 0) return system_error("open", path, errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file.release();
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
        return make_error(
            ErrorKind::local_fault,
            "{} cannot be locked ({}): its file system gives no locks, as some network "
            "file systems do; give this peer a folder on a disk of this machine with "
            "--dir",
            path,
            std::strerror(errno));
    if (errno != EWOULDBLOCK) return system_error("lock", path, errno);
    return make_error(
        ErrorKind::conflict,
        "the identity {} is in use by another process; stop that one, or give this "
        "one a directory of its own (in Python directory=\"…\", for the program --dir)",
        path);
}

// A backup that was unpacked, or a copy from another machine, may be anybody's to read.
void keep_private(int file, const std::string& path) {
    struct stat facts {};
    if (::fstat(file, &facts) != 0 || (facts.st_mode & others_may) == 0) return;
    const bool mended = ::fchmod(file, key_mode) == 0;
    log(LogLevel::warning,
        "p2p",
        "others on this machine could read {} (mode {:o}){}; whoever has copied it can speak as "
        "this peer: move it away to become a new one",
        path,
        facts.st_mode & 0777,
        mended ? ", which is private now" : ": chmod 600 it");
}

Result<Bytes> read_key(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) {
        if (errno == ENOENT) return make_error(ErrorKind::not_found, "no file {}", path);
        return system_error("read", path, errno);
    }
    keep_private(file.get(), path);
    Bytes bytes(key_file_bytes_max);
    const ssize_t size = ::read(file.get(), bytes.data(), bytes.size());
    if (size < 0) return system_error("read", path, errno);
    bytes.resize(static_cast<std::size_t>(size));
    return bytes;
}

Ok write_all(int file, ByteView bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written < 0) return system_error("write", path, errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    if (::fsync(file) != 0) return system_error("write", path, errno);
    return {};
}

// Whole or not at all: a half-written key would be another peer's name for ever.
Ok write_key(const std::string& path, ByteView bytes) {
    const std::string temporary = path + ".new";
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, key_mode));
    if (file.get() < 0) return system_error("create", temporary, errno);
    DEDLOC_TRY_VOID(write_all(file.get(), bytes, temporary));
    if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error("create", path, errno);
    return {};
}

}  // namespace

LockedIdentity::LockedIdentity(Identity identity, int lock_descriptor)
    : identity_(std::move(identity)), lock_descriptor_(lock_descriptor) {}

LockedIdentity::LockedIdentity(LockedIdentity&& other) noexcept
    : identity_(other.identity_), lock_descriptor_(std::exchange(other.lock_descriptor_, -1)) {}

LockedIdentity::~LockedIdentity() {
    if (lock_descriptor_ >= 0) ::close(lock_descriptor_);
}

Result<LockedIdentity> load_or_create_identity(const std::string& directory) {
    std::error_code failure;
    std::filesystem::create_directories(directory, failure);
    if (failure)
        return make_error(
            ErrorKind::local_fault, "cannot make {}: {}", directory, failure.message());
    const std::string key_path = directory + "/" + std::string(identity_file);
    DEDLOC_TRY(const int locked, lock_file(directory + "/identity.lock"));
    Descriptor lock(locked);

    auto bytes = read_key(key_path);
    if (!bytes && bytes.error().kind() != ErrorKind::not_found) return std::move(bytes).error();
    if (!bytes) {
        Identity made = Identity::generate();
        const Bytes key = made.private_key();
        DEDLOC_TRY_VOID(write_key(key_path, key));
        return LockedIdentity(std::move(made), lock.release());
    }
    auto identity = Identity::from_private_key(*bytes);
    if (!identity)
        return make_error(ErrorKind::bad_input,
                          "{} is not an Ed25519 private key ({}); restore it from a backup, or "
                          "move it away to become a new peer",
                          key_path,
                          identity.error().message());
    return LockedIdentity(*std::move(identity), lock.release());
}

}  // namespace dedloc::security
