#include "dedloc/folders/difference_words.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <set>

#include "dedloc/base/composed.h"
#include "dedloc/base/printable.h"

namespace dedloc::folders {
namespace {

constexpr std::size_t differences_said_max = 5;

// Names of the files that differ, as far as they are known here.
class KnownNames {
  public:
    KnownNames(const FileDifferences& found, std::span<const std::string> here) {
        for (const auto& file : found.only_here) here_.emplace(file.path, std::string());
        for (const auto& file : found.only_there) there_.insert(file.path);
        for (const std::string& path : here) learn(path);
    }

    std::vector<std::string> all(const FileDifferences& found, const FileWords& words) const {
        std::vector<std::string> said;
        for (const auto& [key, name] : here_)
            if (there_.contains(key))
                said.push_back(fmt::format("{} {}", base::printable(name), words.differs));
        for (const auto& [key, name] : here_)
            if (!there_.contains(key))
                said.push_back(base::printable(name) + " is not among the run's");
        for (const auto& file : found.only_there) {
            if (here_.contains(file.path)) continue;
            const auto folder = folders_.find(folder_of_key(file.path));
            const std::string of = folder == folders_.end()
                                       ? ""
                                       : fmt::format("of {} ", base::printable(folder->second));
            said.push_back(fmt::format("a {} {}is missing here", words.file, of));
        }
        return said;
    }

  private:
    void learn(const std::string& path) {
        const std::uint64_t key = path_key(base::composed(path));
        const auto named = here_.find(key);
        if (named != here_.end()) named->second = path;
        const std::size_t slash = path.rfind('/');
        if (slash != std::string::npos)
            folders_.emplace(folder_of_key(key), path.substr(0, slash + 1));
    }

    std::map<std::uint64_t, std::string> here_;
    std::set<std::uint64_t> there_;
    std::map<std::uint32_t, std::string> folders_;
};

}  // namespace

std::string words_of_differences(const FileDifferences& found,
                                 std::span<const std::string> here,
                                 const FileWords& words) {
    std::vector<std::string> all = KnownNames(found, here).all(found, words);
    if (all.empty() && found.complete) return "they are the same, in another order";
    const bool more = all.size() > differences_said_max || !found.complete;
    all.resize(std::min(all.size(), differences_said_max));
    return fmt::format("{}{}", fmt::join(all, "; "), more && !all.empty() ? "; and others" : "");
}

}  // namespace dedloc::folders
