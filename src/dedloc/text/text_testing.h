// For tests of text: a folder that goes with its object. Of the tests only.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace dedloc::text {

class Folder {
  public:
    Folder() {
        std::string pattern = "/tmp/dedloc-text-XXXXXX";
        path_ = mkdtemp(pattern.data());
    }
    ~Folder() {
        if (!path_.empty()) std::filesystem::remove_all(path_);
    }
    Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    Folder& operator=(Folder&&) = delete;

    // Makes the folders that `name` needs; the whole path.
    std::string write(const std::string& name, std::string_view content) const {
        const std::filesystem::path file = std::filesystem::path(path_) / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << content;
        return file;
    }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace dedloc::text
