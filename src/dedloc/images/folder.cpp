#include "dedloc/images/folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dedloc/security/hash.h"

namespace dedloc::images {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view captions_name = "captions.jsonl";

bool has_picture_suffix(const fs::path& path) {
    std::string suffix = path.extension().string();
    std::ranges::transform(
        suffix, suffix.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png";
}

// All pictures in and below a folder, by their paths from `root`.
Ok add_pictures(const fs::path& root,
                const fs::path& folder,
                std::uint32_t label,
                bool recursive,
                std::vector<ImageEntry>& entries) {
    std::error_code status;
    const auto add = [&](const fs::directory_entry& file) -> Ok {
        std::error_code unknown;
        if (!has_picture_suffix(file.path()) || !file.is_regular_file(unknown)) return {};
        if (entries.size() == pictures_max)
            return make_error(
                ErrorKind::bad_input, "{} has more than {} pictures", root.string(), pictures_max);
        entries.push_back({.path = file.path().lexically_relative(root).generic_string(),
                           .label = label,
                           .caption = {}});
        return {};
    };
    if (recursive) {
        for (fs::recursive_directory_iterator at(folder, status), end; !status && at != end;
             at.increment(status))
            DEDLOC_TRY_VOID(add(*at));
    } else {
        for (fs::directory_iterator at(folder, status), end; !status && at != end;
             at.increment(status))
            DEDLOC_TRY_VOID(add(*at));
    }
    if (!status) return {};
    return make_error(
        ErrorKind::local_fault, "cannot list {}: {}", folder.string(), status.message());
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
    ImageEntry entry{.path = text("file"), .label = 0, .caption = text("caption")};
    if (json.is_object() && json.contains("held_out"))
        entry.held_out = json["held_out"].is_boolean() && json["held_out"].get<bool>();
    if (entry.path.empty() || entry.caption.empty())
        return make_error(ErrorKind::bad_input,
                          R"(it must be an object like {{"file": "a.png", "caption": "a hat"}})");
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

}  // namespace

Ok ImageFolder::list_classes() {
    std::error_code status;
    std::vector<fs::path> below;
    for (fs::directory_iterator at(folder_, status), end; !status && at != end;
         at.increment(status)) {
        std::error_code unknown;
        if (at->is_directory(unknown)) below.push_back(at->path());
    }
    std::ranges::sort(below);
    for (const fs::path& folder : below) {
        const std::size_t before = entries_.size();
        const auto label = static_cast<std::uint32_t>(classes_.size());
        DEDLOC_TRY_VOID(add_pictures(folder_, folder, label, true, entries_));
        if (entries_.size() > before) classes_.push_back(folder.filename().string());
    }
    if (classes_.empty()) DEDLOC_TRY_VOID(add_pictures(folder_, folder_, 0, false, entries_));
    std::ranges::sort(entries_, {}, &ImageEntry::path);
    return {};
}

Ok ImageFolder::read_captions(const std::string& path) {
    has_captions_ = true;
    std::error_code status;
    if (fs::file_size(path, status) > captions_file_bytes_max)
        return make_error(ErrorKind::bad_input, "{} is larger than 1 GiB", path);
    std::ifstream file(path);
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
        if (line.empty()) continue;
        auto entry = entry_of_line(line);
        if (!entry)
            return std::move(entry).error().with_context(fmt::format("{}:{}", path, number));
        if (!fs::is_regular_file(fs::path(folder_) / entry->path, status))
            return make_error(ErrorKind::not_found,
                              "{}:{}: there is no picture {} in {}",
                              path,
                              number,
                              entry->path,
                              folder_);
        if (entries_.size() == pictures_max)
            return make_error(
                ErrorKind::bad_input, "{} has more than {} lines", path, pictures_max);
        entries_.push_back(*std::move(entry));
    }
    return {};
}

Ok ImageFolder::inspect_all(const Progress& progress) {
    security::Sha256 hash;
    hash.update("dedloc/image-folder/1");
    std::vector<ImageEntry> readable;
    const std::size_t all = entries_.size();
    for (std::size_t i = 0; i < all; ++i) {
        ImageEntry& entry = entries_[i];
        const auto file = read_picture_file((fs::path(folder_) / entry.path).string());
        const auto size = file ? inspect(*file) : Result<PictureSize>(file.error());
        add_text(hash, entry.path);
        if (size) {
            add_text(hash, fmt::format("{}", entry.label));
            add_text(hash, entry.caption);
            add_text(hash, entry.held_out ? "held out" : "");
            add_content(hash, *file);
            readable.push_back(std::move(entry));
        } else {
            if (unreadable_.size() < unreadable_named_max)
                unreadable_.push_back(fmt::format("{}: {}", entry.path, size.error().message()));
            ++unreadable_count_;
        }
        if (progress) progress(i + 1, all);
    }
    entries_ = std::move(readable);
    fingerprint_ = hash.finish();
    return {};
}

Result<ImageFolder> ImageFolder::open(const std::string& folder, const Progress& progress) {
    std::error_code status;
    if (!fs::is_directory(folder, status))
        return make_error(ErrorKind::not_found, "there is no folder {}", folder);
    ImageFolder opened;
    opened.folder_ = folder;
    const std::string captions = (fs::path(folder) / captions_name).string();
    if (fs::exists(captions, status)) {
        DEDLOC_TRY_VOID(opened.read_captions(captions));
    } else {
        DEDLOC_TRY_VOID(opened.list_classes());
    }
    DEDLOC_TRY_VOID(opened.inspect_all(progress));
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
    const std::string& path = entries_[index].path;
    DEDLOC_TRY(const Bytes file, read_picture_file((fs::path(folder_) / path).string()));
    auto decoded = decode(file);
    if (!decoded) return std::move(decoded).error().with_context(path);
    return decoded;
}

}  // namespace dedloc::images
