// PartStore: finished parts by the digest of their bytes, for those who missed them and for peers
// that replay the last steps. Bounded: the oldest go first.
//
// Several finished parts may have the same bytes: what layers that do not learn contribute, and
// every part of a step that is tried once more. The bytes are held once, as long as one of them is.
//
// Thread: the network thread. Cost: logarithmic.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "dedloc/allreduce/messages.h"
#include "dedloc/base/shared_bytes.h"

namespace dedloc::allreduce {

class PartStore {
  public:
    explicit PartStore(std::size_t bytes_max) : bytes_max_(bytes_max) {}

    void put(consensus::FinishedPart header, SharedBytes encoded);
    SharedBytes find(const Digest& digest) const;  // empty-handed: not here
    // A finished part of (plan, part).
    std::optional<consensus::FinishedPart> header(const Digest& plan, std::uint32_t part) const;
    std::size_t bytes() const { return bytes_; }

  private:
    struct Held {
        SharedBytes encoded;
        std::size_t headers = 0;
    };
    using Key = std::tuple<Digest, std::uint32_t, Digest>;  // plan, part, digest of the bytes
    void forget_oldest();

    std::size_t bytes_max_;
    std::size_t bytes_ = 0;
    std::map<Digest, Held> by_digest_;
    std::map<Key, consensus::FinishedPart> headers_;
    std::deque<Key> order_;
};
// A header's cost beside the bytes, about.
inline constexpr std::size_t part_header_bytes = 512;

}  // namespace dedloc::allreduce
