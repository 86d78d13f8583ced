// FileSketch: what a run file keeps of a folder, so that a peer whose folder is another one can be
// told which files differ, not only that some do.
//
// An invertible Bloom lookup table: each file is added to three cells; the difference of two
// sketches contains only the files that differ, and a handful of them can nearly always be read out
// of it again. A file that only the other side has is known by its folder alone, and only if that
// folder is here as well. It serves messages: whoever forges one misleads a message.
//
// Source: Eppstein, Goodrich, Uyeda, Varghese: What's the Difference? (SIGCOMM 2011), section 3.
// Thread: any. Cost: nothing beside reading a file. Errors: bad_input for a text that is no sketch.

#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"

namespace dedloc::folders {

// A path as a sketch knows it: 24 bits of its folder, 40 bits of the whole.
std::uint64_t path_key(std::string_view path);
std::uint32_t folder_of_key(std::uint64_t key);

struct FileDifferences {
    struct File {
        std::uint64_t path = 0;
        std::uint32_t content = 0;
        friend bool operator==(const File&, const File&) = default;
    };
    std::vector<File> only_here;
    std::vector<File> only_there;
    bool complete = false;  // false: there are more than could be read
};

class FileSketch {
  public:
    static constexpr std::size_t text_bytes = 519;

    // `content`: whatever makes the file another one.
    void add(std::string_view path, const Digest& content);
    std::uint32_t files_count() const { return files_count_; }

    std::string text() const;  // base64url
    static Result<FileSketch> parse(std::string_view text);

    friend FileDifferences differences(const FileSketch& here, const FileSketch& there);

  private:
    static constexpr std::size_t tables = 3;
    static constexpr std::size_t table_cells = 8;
    struct Cell {
        std::uint16_t count = 0;  // modulo 2^16: only small differences are looked at
        std::uint16_t check = 0;
        std::uint64_t path = 0;
        std::uint32_t content = 0;
    };
    static std::array<std::size_t, tables> cells_of(const FileDifferences::File& file);
    void put(const FileDifferences::File& file, int count);

    std::array<Cell, tables * table_cells> cells_{};
    std::uint32_t files_count_ = 0;
};

FileDifferences differences(const FileSketch& here, const FileSketch& there);

}  // namespace dedloc::folders
