// Files as a parameter: a directory in the real world, memory that forgets in the simulator.
//
// Calls block: use them through Workers from the network thread unless the file is tiny.
// Thread: any; the same path from one thread at a time. Paths are relative to the node's own
// directory; "a/b" is allowed, ".." is not.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::runtime {

class Disk {
  public:
    virtual ~Disk() = default;
    // Errors of all: not_found, local_fault ("no space left on …; free some and …").
    virtual Result<Bytes> read(const std::string& path) = 0;
    // The size of a file, without reading it.
    virtual Result<std::uint64_t> size(const std::string& path) {
        DEDLOC_TRY(const Bytes bytes, read(path));
        return bytes.size();
    }
    // Whole or not at all, and durable when it returns (temporary file, fsync, rename).
    virtual Result<void> write_atomically(const std::string& path, ByteView bytes) = 0;
    // Over what was there, so that the memory that held it is used again; the pieces are joined. If
    // the process dies meanwhile the file begins with the new pieces and may end with the old ones;
    // what the machine's own death leaves is open. For large things that can be checked, are worth
    // keeping and not worth waiting for.
    virtual Result<void> write_over(const std::string& path, const std::vector<ByteView>& pieces) {
        Bytes bytes;
        for (const ByteView piece : pieces) base::append(bytes, piece);
        return write_atomically(path, bytes);
    }
    // Appends and, when it returns, the bytes are durable. A crash may leave a part of the last
    // append: readers of such files must accept a torn tail.
    virtual Result<void> append_durably(const std::string& path, ByteView bytes) = 0;
    virtual Result<void> remove(const std::string& path) = 0;  // a folder with all that is in it
    virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;  // sorted names
};

}  // namespace dedloc::runtime
