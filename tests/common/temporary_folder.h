// A folder for one run of a lab command, in the system's place for such, gone with its object.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "dedloc/base/result.h"

namespace dedloc::lab {

class TemporaryFolder {
  public:
    // Errors: local_fault.
    static Result<TemporaryFolder> make() {
        std::error_code error;
        const auto parent = std::filesystem::temp_directory_path(error);
        std::string pattern = (parent / "dedloc-lab-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr)
            return make_error(ErrorKind::local_fault, "cannot make a temporary folder {}", pattern);
        return TemporaryFolder(std::move(pattern));
    }
    ~TemporaryFolder() {
        std::error_code error;
        if (!path_.empty()) std::filesystem::remove_all(path_, error);
    }
    TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TemporaryFolder& operator=(TemporaryFolder&&) = delete;
    const std::string& path() const { return path_; }

  private:
    explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

}  // namespace dedloc::lab
