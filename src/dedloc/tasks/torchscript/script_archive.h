// A TorchScript file as an archive: which entries it has, read strictly before libtorch sees it.
//
// The archive is a zip file of one folder: code/….py (TorchScript's own language, packed), data.pkl
// and constants.pkl (what there is in the modules), data/N and constants/N (numbers of tensors).
// libtorch reads it with another reader, so nothing is let through that two readers may see
// differently: names that are there twice (in whatever case), bytes behind the end, entries that
// lie about their size, damaged ones (libtorch's reader looks at no checksum), other folders or
// kinds of files.
//
// Thread: any; pure. Memory: the file's, and an entry's at a time. Cost: one pass over the
// directory and over what is stored. Errors: bad_input, with the entry's name.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::tasks {

// A volunteer downloads this before it can begin: 64 million parameters in fp32.
inline constexpr std::size_t script_file_bytes_max = 257u << 20;
inline constexpr std::size_t script_entries_max = 16'384;       // a tensor each, and the code
inline constexpr std::size_t script_name_bytes_max = 512;       // of a path in it
inline constexpr std::size_t script_text_bytes_max = 1u << 20;  // of one source or pickle

struct ScriptEntry {
    std::string name;  // without the archive's folder: "code/__torch__.py"
    std::size_t bytes = 0;
    ByteView packed;
    bool is_deflated = false;
    std::uint32_t checksum = 0;  // CRC-32 of what it unpacks to

    bool is_source() const;
    bool is_pickle() const;
};

class ScriptArchive {
  public:
    // The bytes stay the caller's, and live as long as this.
    static Result<ScriptArchive> parse(ByteView file);

    const std::vector<ScriptEntry>& entries() const { return entries_; }
    // Unpacks a source or a pickle.
    static Result<Bytes> unpack(const ScriptEntry& entry);

  private:
    std::vector<ScriptEntry> entries_;
};

}  // namespace dedloc::tasks
