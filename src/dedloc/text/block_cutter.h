// Cuts the text of one file, given in pieces, into blocks at good places, and checks it.
//
// Thread: one. Errors: bad_input with the place in the file.

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/text/corpus.h"

namespace dedloc::text {

// How many bytes of `text` the next block takes, when `target` bytes or more are there: up to the
// last good end between target/2 and target. Never 0; never inside a character.
std::size_t cut_text(std::string_view text, std::size_t target, const SourceConfig& config);

class BlockCutter {
  public:
    BlockCutter(const SourceConfig& config, std::uint32_t block_bytes, std::string path)
        : config_(config), target_(block_bytes), path_(std::move(path)) {}

    // Appends finished blocks, with `file` in them.
    Ok add(std::string_view piece, std::uint32_t file, std::vector<Block>& blocks);
    Ok finish(std::uint32_t file, std::vector<Block>& blocks);
    std::uint64_t bytes() const { return offset_ + rest().size(); }

  private:
    Ok emit(std::size_t bytes, std::uint32_t file, std::vector<Block>& blocks);
    Ok check(std::string_view text) const;
    Result<std::size_t> next_cut(bool at_end) const;  // 0: not yet

    std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }

    const SourceConfig& config_;
    std::size_t target_;
    std::string path_;
    std::uint64_t offset_ = 0;  // of rest() in the file
    std::string buffer_;
    std::size_t begin_ = 0;  // what is before it is cut already
};

// The text of a record, or what is wrong with the line.
Result<std::string> text_of_json_line(std::string_view line, const std::string& field);

}  // namespace dedloc::text
