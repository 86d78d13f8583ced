#include "dedloc/sim/sim_disk.h"

#include <algorithm>
#include <string_view>

namespace dedloc::sim {

namespace {

Error killed() {
    return Error(ErrorKind::local_fault, "the process was killed: its disk is out of reach");
}

// The same rule as the real disk's.
bool is_inside(std::string_view path) {
    for (;;) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        if (part.empty() || part == "." || part == "..") return false;
        if (slash == std::string_view::npos) return true;
        path.remove_prefix(slash + 1);
    }
}

Error not_found(const std::string& path) {
    return make_error(ErrorKind::not_found, "{} does not exist", path);
}

}  // namespace

SimDisk::SimDisk(std::shared_ptr<DiskContent> content, Random random, std::function<void()> crash)
    : content_(std::move(content)), random_(random), crash_(std::move(crash)) {}

Result<Bytes> SimDisk::read(const std::string& path) {
    if (dead_) return killed();
    const auto found = content_->files.find(path);
    if (found == content_->files.end()) return not_found(path);
    return found->second;
}

Result<void> SimDisk::write_atomically(const std::string& path, ByteView bytes) {
    DEDLOC_TRY_VOID(before_write(path));
    const bool crash = crashes();
    if (!crash || random_.chance(0.5)) content_->files[path] = to_bytes(bytes);
    if (!crash) return {};
    crash_();
    return killed();
}

Result<void> SimDisk::append_durably(const std::string& path, ByteView bytes) {
    DEDLOC_TRY_VOID(before_write(path));
    const bool crash = crashes();
    const std::size_t kept = crash ? random_.below(bytes.size() + 1) : bytes.size();
    base::append(content_->files[path], bytes.first(kept));
    if (!crash) return {};
    crash_();
    return killed();
}

Result<void> SimDisk::remove(const std::string& path) {
    if (dead_) return killed();
    const std::string below = path + "/";
    const std::size_t count = std::erase_if(content_->files, [&](const auto& file) {
        return file.first == path || file.first.starts_with(below);
    });
    if (count == 0) return not_found(path);
    return {};
}

Result<std::vector<std::string>> SimDisk::list(const std::string& folder) {
    if (dead_) return killed();
    const std::string below = folder.empty() ? std::string() : folder + "/";
    std::vector<std::string> names;
    for (const auto& [path, bytes] : content_->files) {
        if (!path.starts_with(below)) continue;
        const std::size_t end = path.find('/', below.size());
        std::string name =
            path.substr(below.size(), end == std::string::npos ? end : end - below.size());
        if (names.empty() || names.back() != name) names.push_back(std::move(name));
    }
    if (names.empty() && !folder.empty()) return not_found(folder);
    // "a-b" sorts between "a" and "a/x", so a folder's name may come up twice.
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

Ok SimDisk::before_write(const std::string& path) {
    if (dead_) return killed();
    if (!is_inside(path))
        return make_error(ErrorKind::bad_input,
                          "\"{}\" is not a path inside the node's folder; use names without \"..\"",
                          path);
    if (content_->full)
        return make_error(ErrorKind::local_fault,
                          "no space left on the disk while writing {}; free some space there, "
                          "nothing that was already saved is lost",
                          path);
    return {};
}

bool SimDisk::crashes() { return std::exchange(content_->crash_next_write, false); }

}  // namespace dedloc::sim
