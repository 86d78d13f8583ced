// ImageFolder: which pictures a folder has, in an order that is the same for all peers, and a
// fingerprint by which peers with different folders find out before they train.
//
//   captions.jsonl   one object a line: {"file": "a/b.png", "caption": "a red hat"}; with
//                    "held_out": true it is not to be trained on; other keys are ignored. Only
//                    these pictures count.
//   else             ImageNet's layout: each folder directly below is a class, named by the folder.
//                    Without pictures in such folders, those beside them are of one class.
// folders/walk.h says what is not looked at. A picture that cannot be read is left out, counted and
// named, and is nothing to the fingerprint: a folder without any is no class. Names that look alike
// are the same name (base/composed.h), in captions, in folders' names and in the fingerprint.
//
// Fingerprint: SHA-256 of every picture's path, caption, size in bytes and content; of a file above
// content_bytes the first and the last half of that many. Its tag also stands for how pixels are
// made from files. The sketch tells two folders' owners which files differ.
//
// A picture that proves damaged when it is decoded is decoded no second time.
//
// Cost: opening reads all of that once (progress tells). Thread: any, after open().
// Errors: not_found  no such folder, or a caption's picture is missing
//         bad_input  no pictures, a line of captions.jsonl that is none, or a limit below

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/folders/sketch.h"
#include "dedloc/images/picture.h"

namespace dedloc::images {

inline constexpr std::size_t pictures_max = 1u << 25;   // twice ImageNet-21k
inline constexpr std::size_t caption_bytes_max = 2000;  // of one picture
inline constexpr std::size_t captions_file_bytes_max = 1u << 30;
inline constexpr std::size_t content_bytes = 256u << 10;
inline constexpr std::size_t unreadable_named_max = 20;

struct ImageEntry {
    std::string path;  // below the folder, with '/'
    std::uint32_t label = 0;
    std::string caption{};
    bool held_out = false;  // not to be trained on
};

class ImageFolder {
  public:
    // done, of all.
    using Progress = std::function<void(std::size_t done, std::size_t all)>;
    static Result<ImageFolder> open(const std::string& folder, const Progress& progress = {});

    const std::vector<ImageEntry>& entries() const { return entries_; }
    const std::vector<std::string>& classes() const { return classes_; }  // by label
    bool has_captions() const { return has_captions_; }
    const Digest& fingerprint() const { return fingerprint_; }
    const folders::FileSketch& sketch() const { return sketch_; }
    std::size_t unreadable_count() const { return unreadable_count_; }
    // "n01/cut.jpg: the JPEG file is damaged …", the first unreadable_named_max.
    const std::vector<std::string>& unreadable() const { return unreadable_; }

    // Errors: those of decode() and read_picture_file(), with the path.
    Result<Picture> picture(std::size_t index) const;

  private:
    class DamagedPictures;
    class FileNames;

    ImageFolder();
    Ok read_classes(const Progress& progress);
    Ok read_captions(const std::string& path, const Progress& progress);
    void inspect_all(std::vector<ImageEntry> found, const Progress& progress);
    void name_classes();

    std::string folder_;
    std::vector<ImageEntry> entries_;
    std::vector<std::string> classes_;
    bool has_captions_ = false;
    Digest fingerprint_;
    folders::FileSketch sketch_;
    std::shared_ptr<DamagedPictures> damaged_;
    std::size_t unreadable_count_ = 0;
    std::vector<std::string> unreadable_;
};

}  // namespace dedloc::images
