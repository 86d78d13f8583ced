#include "dedloc/tasks/pictures_key.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <set>

#include "dedloc/base/printable.h"

namespace dedloc::tasks {
namespace {

using folders::FileDifferences;

constexpr std::size_t differences_said_max = 5;

// Names of the files that differ, as far as they are known here.
class DifferenceWords {
  public:
    explicit DifferenceWords(const FileDifferences& found) : found_(found) {
        for (const auto& file : found.only_here) here_.emplace(file.path, std::string());
        for (const auto& file : found.only_there) there_.insert(file.path);
    }

    void learn_names(const images::ImageFolder& folder) {
        for (const images::ImageEntry& entry : folder.entries()) {
            const std::uint64_t key = folders::path_key(entry.path);
            const auto named = here_.find(key);
            if (named != here_.end()) named->second = entry.path;
            const std::size_t slash = entry.path.rfind('/');
            if (slash != std::string::npos)
                folders_.emplace(folders::folder_of_key(key), entry.path.substr(0, slash + 1));
        }
    }

    std::vector<std::string> all() const {
        std::vector<std::string> words;
        for (const auto& [key, name] : here_)
            if (there_.contains(key))
                words.push_back(base::printable(name) + " has another content or caption there");
        for (const auto& [key, name] : here_)
            if (!there_.contains(key))
                words.push_back(base::printable(name) + " is not among the run's");
        for (const auto& file : found_.only_there) {
            if (here_.contains(file.path)) continue;
            const auto folder = folders_.find(folders::folder_of_key(file.path));
            words.push_back(fmt::format(
                "a picture {}is missing here",
                folder == folders_.end() ? ""
                                         : fmt::format("of {} ", base::printable(folder->second))));
        }
        return words;
    }

  private:
    const FileDifferences& found_;
    std::map<std::uint64_t, std::string> here_;
    std::set<std::uint64_t> there_;
    std::map<std::uint32_t, std::string> folders_;
};

}  // namespace

Result<PicturesKey> parse_pictures_key(std::string_view key, const std::string& value) {
    PicturesKey parsed;
    parsed.undecided = value == undecided_pictures;
    parsed.any = value == any_pictures;
    if (parsed.undecided || parsed.any) return parsed;
    const auto bytes = base::from_hex(std::string_view(value).substr(0, fingerprint_letters));
    const auto digest = bytes ? Digest::from(*bytes) : Result<Digest>(bytes.error());
    if (digest && value.size() == fingerprint_letters) {
        parsed.fingerprint = *digest;
        return parsed;
    }
    if (digest && value[fingerprint_letters] == ':') {
        auto sketch =
            folders::FileSketch::parse(std::string_view(value).substr(fingerprint_letters + 1));
        if (!sketch) return std::move(sketch).error().with_context(key);
        parsed.fingerprint = *digest;
        parsed.sketch = *std::move(sketch);
        return parsed;
    }
    return make_error(ErrorKind::bad_input,
                      "{}: '{}' is not a SHA-256 in hexadecimal, nor \"{}\" (of the host's folder) "
                      "or \"{}\" (peers may have different pictures)",
                      key,
                      value.substr(0, fingerprint_letters),
                      undecided_pictures,
                      any_pictures);
}

Ok check_pictures_key(std::string_view key, const std::string& value) {
    DEDLOC_TRY_VOID(parse_pictures_key(key, value));
    return {};
}

std::string pictures_key_of(const images::ImageFolder& folder) {
    return folder.fingerprint().hex() + ":" + folder.sketch().text();
}

std::string say_differences(const images::ImageFolder& here, const folders::FileSketch& there) {
    const FileDifferences found = differences(here.sketch(), there);
    DifferenceWords words(found);
    words.learn_names(here);
    std::vector<std::string> all = words.all();
    if (all.empty() && found.complete) return "they are the same, in another order";
    const bool more = all.size() > differences_said_max || !found.complete;
    all.resize(std::min(all.size(), differences_said_max));
    return fmt::format("{}{}", fmt::join(all, "; "), more && !all.empty() ? "; and others" : "");
}

}  // namespace dedloc::tasks
