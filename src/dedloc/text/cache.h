// Files that can be made again: derived text and default tokenizers, in the user's cache folder.
//
// Several peers of one machine start at the same moment: a lock beside the file lets one of them
// make it while the others wait (and say so), and a file appears whole or not at all. What is there
// is read without the lock, so a cache may be read-only.
//
// Thread: any. Blocks. Errors: local_fault.

#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/base/shared_bytes.h"

namespace dedloc::text {

// $XDG_CACHE_HOME/dedloc, else ~/.cache/dedloc.
Result<std::string> default_cache_directory();

// Whole or not at all.
Ok write_file(const std::string& path, std::string_view content);

// A file's name and its content.
using NamedContent = std::pair<std::string_view, std::string_view>;
// Each whole or not at all, into a folder that is there. Returns their names.
Result<std::vector<std::string>> write_files(const std::string& directory,
                                             std::span<const NamedContent> files);

// Makes a folder, and those above it, unless they are there.
Ok make_folder(const std::string& path);

// A file that others know by its hash. `name` is below default_cache_directory().
Ok write_to_cache(const std::string& name, ByteView file);
// Empty-handed: the file is not there, or damaged.
SharedBytes read_from_cache(const std::string& name, const Digest& hash, std::size_t bytes_max);

// Calls `work` while no other process is inside the same call with the same path (its folder is
// made when it is missing).
Ok alone_with(const std::string& path, const std::function<Ok()>& work);

// A folder that goes with this object, below `parent`. It is locked meanwhile: make() removes those
// beside it that nobody holds any more, because their process was killed.
class ScratchFolder {
  public:
    static Result<ScratchFolder> make(const std::string& parent);
    ~ScratchFolder();
    ScratchFolder(ScratchFolder&& other) noexcept
        : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}
    ScratchFolder& operator=(ScratchFolder&&) = delete;
    std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  private:
    ScratchFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
    std::string path_;
    int lock_;  // -1: this file system has none, and then nobody removes what others left
};

}  // namespace dedloc::text
