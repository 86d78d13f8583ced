#include "dedloc/images/folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "dedloc/base/composed.h"
#include "dedloc/base/file.h"
#include "dedloc/base/log.h"
#include "dedloc/base/printable.h"
#include "dedloc/base/text_lines.h"
#include "dedloc/folders/walk.h"
#include "dedloc/security/hash.h"

namespace dedloc::images {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view captions_name = "captions.jsonl";

bool has_picture_suffix(std::string_view name) {
    const std::string suffix = folders::lower_extension(name);
    return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png";
}

// Below the folder and nowhere else: the file came from somebody.
bool stays_inside(const std::string& path) {
    const fs::path parts(path);
    return !path.empty() && parts.is_relative() &&
           std::none_of(
               parts.begin(), parts.end(), [](const fs::path& part) { return part == ".."; });
}

Result<ImageEntry> entry_of_line(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto text = [&](const char* key) -> std::string {
        const auto found = json.is_object() ? json.find(key) : json.end();
        return found != json.end() && found->is_string() ? found->get<std::string>() : "";
    };
    ImageEntry entry{.path = text("file"), .label = 0, .caption = base::composed(text("caption"))};
    if (json.is_object() && json.contains("held_out"))
        entry.held_out = json["held_out"].is_boolean() && json["held_out"].get<bool>();
    if (!json.is_object() || entry.path.empty() || !json.contains("caption") ||
        !json["caption"].is_string())
        return make_error(ErrorKind::bad_input,
                          R"(it must be an object like {{"file": "a.png", "caption": "a hat"}})");
    if (entry.caption.find_first_not_of(" \t\r\n") == std::string::npos)
        return make_error(ErrorKind::bad_input,
                          "{} has an empty caption: say what it shows, or leave the line out",
                          base::printable(entry.path));
    if (entry.caption.size() > caption_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the caption has {} bytes; at most {} are read",
                          entry.caption.size(),
                          caption_bytes_max);
    if (!stays_inside(entry.path))
        return make_error(ErrorKind::bad_input, "'{}' is not below the folder", entry.path);
    return entry;
}

void add_content(security::Sha256& hash, ByteView file) {
    Bytes head;
    base::put_u64_be(head, file.size());
    hash.update(head);
    if (file.size() <= content_bytes) {
        hash.update(file);
    } else {
        hash.update(file.first(content_bytes / 2));
        hash.update(file.last(content_bytes / 2));
    }
}

void add_text(security::Sha256& hash, std::string_view text) {
    Bytes head;
    base::put_u64_be(head, text.size());
    hash.update(head).update(text);
}

Digest digest_of(const ImageEntry& entry, ByteView file) {
    security::Sha256 hash;
    add_text(hash, base::composed(entry.path));
    add_text(hash, entry.caption);
    add_text(hash, entry.held_out ? "held out" : "");
    add_content(hash, file);
    return hash.finish();
}

}  // namespace

// The files of a folder by what people call them: a caption may have been written on a system that
// writes an accented letter in another way than the file's.
class ImageFolder::FileNames {
  public:
    explicit FileNames(std::string folder) : folder_(std::move(folder)) {}

    // As the file is called here.
    Result<std::string> find(const std::string& path) {
        std::error_code status;
        if (fs::is_regular_file(fs::path(folder_) / path, status)) return path;
        if (!listed_) DEDLOC_TRY_VOID(list());
        const auto found = names_.find(base::composed(path));
        if (found != names_.end()) return found->second;
        return make_error(ErrorKind::not_found,
                          "there is no picture {} in {}{}",
                          base::printable(path),
                          folder_,
                          path.find('\\') == std::string::npos
                              ? ""
                              : ": folders are told apart by a \"/\" on every system");
    }

  private:
    Ok list() {
        const folders::ListOptions options{.wanted = has_picture_suffix,
                                           .files_max = pictures_max,
                                           .logged_as = "images",
                                           .follow_links_of_root = true};
        DEDLOC_TRY(const auto files, folders::list_files(folder_, options));
        for (const std::string& file : files) names_.emplace(base::composed(file), file);
        listed_ = true;
        return {};
    }

    std::string folder_;
    bool listed_ = false;  // only where a name is not found as it stands
    std::map<std::string, std::string> names_;
};

// Which pictures of a folder were found damaged, and how.
class ImageFolder::DamagedPictures {
  public:
    std::optional<Error> find(std::size_t index) const {
        const std::lock_guard lock(mutex_);
        const auto found = errors_.find(index);
        return found == errors_.end() ? std::nullopt : std::optional(found->second);
    }
    void add(std::size_t index, const Error& error) {
        const std::lock_guard lock(mutex_);
        errors_.emplace(index, error);
    }

  private:
    mutable std::mutex mutex_;
    std::map<std::size_t, Error> errors_;  // at most pictures_max
};

ImageFolder::ImageFolder() : damaged_(std::make_shared<DamagedPictures>()) {}

// Labels come after reading, so that a folder of nothing but damaged files moves none.
Ok ImageFolder::read_classes(const Progress& progress) {
    const folders::ListOptions options{.wanted = has_picture_suffix,
                                       .files_max = pictures_max,
                                       .logged_as = "images",
                                       .link_advice = "copy the folder itself",
                                       .follow_links_of_root = true};
    DEDLOC_TRY(const auto files, folders::list_files(folder_, options));
    std::vector<ImageEntry> in_folders;
    std::vector<ImageEntry> beside;
    for (const std::string& file : files) {
        const bool is_below = file.find('/') != std::string::npos;
        (is_below ? in_folders : beside).push_back({.path = file});
    }
    inspect_all(std::move(in_folders), progress);
    name_classes();
    if (classes_.empty()) {
        inspect_all(std::move(beside), progress);
    } else if (!beside.empty()) {
        log(LogLevel::warning,
            "images",
            "{} of the pictures in {} lie beside its folders, which are the classes; they are left "
            "out, such as {}",
            beside.size(),
            folder_,
            beside.front().path);
    }
    return {};
}

void ImageFolder::name_classes() {
    const auto class_of = [](const ImageEntry& entry) {
        return base::composed(entry.path.substr(0, entry.path.find('/')));
    };
    for (const ImageEntry& entry : entries_) classes_.push_back(class_of(entry));
    std::ranges::sort(classes_);
    classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
    for (ImageEntry& entry : entries_)
        entry.label = static_cast<std::uint32_t>(
            std::ranges::lower_bound(classes_, class_of(entry)) - classes_.begin());
}

Ok ImageFolder::read_captions(const std::string& path, const Progress& progress) {
    has_captions_ = true;
    std::vector<ImageEntry> found;
    std::error_code status;
    if (fs::file_size(path, status) > captions_file_bytes_max)
        return make_error(ErrorKind::bad_input, "{} is larger than 1 GiB", path);
    DEDLOC_TRY(const std::string text, base::read_file(path, captions_file_bytes_max));
    auto lines = base::TextLines::of(text);
    if (!lines) return std::move(lines).error().with_context(path);
    FileNames names(folder_);
    while (const auto line = lines->next()) {
        const std::string place = fmt::format("{}:{}", path, line->number);
        auto entry = entry_of_line(line->text);
        if (!entry) return std::move(entry).error().with_context(place);
        auto name = names.find(entry->path);
        if (!name) return std::move(name).error().with_context(place);
        entry->path = *std::move(name);
        if (found.size() == pictures_max)
            return make_error(
                ErrorKind::bad_input, "{} has more than {} lines", path, pictures_max);
        found.push_back(*std::move(entry));
    }
    inspect_all(std::move(found), progress);
    return {};
}

void ImageFolder::inspect_all(std::vector<ImageEntry> found, const Progress& progress) {
    security::Sha256 all_hash;
    all_hash.update("dedloc/image-folder/2");
    for (std::size_t i = 0; i < found.size(); ++i) {
        ImageEntry& entry = found[i];
        const auto file = read_picture_file((fs::path(folder_) / entry.path).string());
        const auto size = file ? inspect(*file) : Result<PictureSize>(file.error());
        if (size) {
            const Digest digest = digest_of(entry, *file);
            all_hash.update(digest.view());
            sketch_.add(base::composed(entry.path), digest);
            entries_.push_back(std::move(entry));
        } else {
            if (unreadable_.size() < unreadable_named_max)
                unreadable_.push_back(fmt::format("{}: {}", entry.path, size.error().message()));
            ++unreadable_count_;
        }
        if (progress) progress(i + 1, found.size());
    }
    fingerprint_ = all_hash.finish();
}

Result<ImageFolder> ImageFolder::open(const std::string& folder, const Progress& progress) {
    std::error_code status;
    if (!fs::is_directory(folder, status))
        return make_error(ErrorKind::not_found, "there is no folder {}", folder);
    ImageFolder opened;
    opened.folder_ = folder;
    const std::string captions = (fs::path(folder) / captions_name).string();
    if (fs::exists(captions, status)) {
        DEDLOC_TRY_VOID(opened.read_captions(captions, progress));
    } else {
        DEDLOC_TRY_VOID(opened.read_classes(progress));
    }
    if (opened.entries_.empty())
        return make_error(ErrorKind::bad_input,
                          "the folder {} has no pictures that can be read ({} cannot): JPEG or PNG "
                          "files in a folder for each class, or {} beside them",
                          folder,
                          opened.unreadable_count_,
                          captions_name);
    return opened;
}

Result<Picture> ImageFolder::picture(std::size_t index) const {
    DEDLOC_CHECK(index < entries_.size());
    if (auto known = damaged_->find(index)) return *std::move(known);
    const std::string& path = entries_[index].path;
    DEDLOC_TRY(const Bytes file, read_picture_file((fs::path(folder_) / path).string()));
    auto decoded = decode(file);
    if (decoded) return decoded;
    const Error error = std::move(decoded).error().with_context(path);
    damaged_->add(index, error);
    return error;
}

}  // namespace dedloc::images
