#include "dedloc/folders/walk.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "dedloc/base/composed.h"
#include "dedloc/base/log.h"

namespace dedloc::folders {
namespace {

namespace fs = std::filesystem;

// Kept by ext4, Synology, macOS's archives and Windows.
constexpr std::array<std::string_view, 5> system_folders = {
    "lost+found", "@eaDir", "__MACOSX", "$RECYCLE.BIN", "System Volume Information"};

bool is_nobodys_data(std::string_view name) {
    return name.starts_with('.') || std::ranges::find(system_folders, name) != system_folders.end();
}

// A walk that followed this link would come by here again.
bool leads_back(const fs::path& link, const fs::path& root) {
    std::error_code unknown;
    const fs::path target = fs::canonical(link, unknown);
    const fs::path here = fs::canonical(root, unknown);
    return unknown || std::mismatch(target.begin(), target.end(), here.begin(), here.end()).first ==
                          target.end();
}

// One order for names that look alike, however a system writes them.
void sort_by_name(std::vector<std::string>& files) {
    std::vector<std::pair<std::string, std::string>> named;
    named.reserve(files.size());
    for (std::string& file : files) {
        std::string name = base::composed(file);
        named.emplace_back(std::move(name), std::move(file));
    }
    std::ranges::sort(named);
    for (std::size_t i = 0; i < files.size(); ++i) files[i] = std::move(named[i].second);
}

class Walk {
  public:
    Walk(const std::string& root, const ListOptions& options) : root_(root), options_(options) {}

    Result<std::vector<std::string>> files() && {
        std::vector<fs::path> waiting = {fs::path()};
        for (std::size_t count = 0; !waiting.empty(); ++count) {
            if (count == folders_max)
                return make_error(ErrorKind::bad_input,
                                  "more than {} folders below {}",
                                  folders_max,
                                  root_.string());
            const fs::path below = std::move(waiting.back());
            waiting.pop_back();
            DEDLOC_TRY(Listing listing, list(below));
            if (files_.size() + listing.files.size() > options_.files_max)
                return make_error(ErrorKind::bad_input,
                                  "more than {} files in {}; join some",
                                  options_.files_max,
                                  root_.string());
            std::ranges::move(listing.files, std::back_inserter(files_));
            std::ranges::move(listing.folders, std::back_inserter(waiting));
        }
        sort_by_name(files_);
        return std::move(files_);
    }

  private:
    struct Listing {
        std::vector<std::string> files;
        std::vector<fs::path> folders;
    };

    // `below`: the folder's path below the root.
    Result<Listing> list(const fs::path& below) {
        Listing listing;
        std::error_code error;
        fs::directory_iterator at(root_ / below, error);
        for (const fs::directory_iterator end; !error && at != end; at.increment(error))
            add(*at, below, listing);
        if (!error) return listing;
        if (below.empty())
            return make_error(
                ErrorKind::local_fault, "cannot list {}: {}", root_.string(), error.message());
        tell(root_ / below, error.message());
        return Listing();
    }

    void add(const fs::directory_entry& entry, const fs::path& below, Listing& listing) {
        const fs::path name = entry.path().filename();
        if (is_nobodys_data(name.native())) return;
        std::error_code status;
        if (entry.is_directory(status)) {
            if (!entry.is_symlink(status)) {
                listing.folders.push_back(below / name);
            } else if (!options_.follow_links_of_root || !below.empty()) {
                tell(entry.path(),
                     fmt::format("it is a link to a folder; {}", options_.link_advice));
            } else if (leads_back(entry.path(), root_)) {
                tell(entry.path(), "it is a link that leads back here");
            } else {
                listing.folders.push_back(below / name);
            }
            return;
        }
        if (!options_.wanted(name.native())) return;
        if (entry.is_regular_file(status))
            listing.files.push_back((below / name).generic_string());
        else if (entry.is_symlink(status))
            tell(entry.path(), "it is a link to a file that is not there");
        else
            tell(entry.path(), "it is no file");
    }

    void tell(const fs::path& path, std::string_view why) {
        if (left_out_++ < left_out_logged_max)
            log(LogLevel::warning, options_.logged_as, "{} is left out: {}", path.string(), why);
    }

    const fs::path root_;
    const ListOptions& options_;
    std::vector<std::string> files_;
    std::uint64_t left_out_ = 0;
};

}  // namespace

Result<std::vector<std::string>> list_files(const std::string& root, const ListOptions& options) {
    return Walk(root, options).files();
}

std::string lower_extension(std::string_view name) {
    std::string extension = fs::path(name).extension().string();
    std::ranges::transform(extension, extension.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    });
    return extension;
}

}  // namespace dedloc::folders
