// PartStore: finished parts by the digest of their bytes, for those who missed them and for peers
// that replay the last steps. Bounded: the oldest go first.
//
// Thread: the network thread. Cost: logarithmic.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "dedloc/averaging/messages.h"
#include "dedloc/base/shared_bytes.h"

namespace dedloc::averaging {

class PartStore {
  public:
    explicit PartStore(std::size_t bytes_max) : bytes_max_(bytes_max) {}

    void put(FinishedPart header, SharedBytes encoded);
    SharedBytes find(const Digest& digest) const;  // empty-handed: not here
    // The first finished part known of (plan, part).
    std::optional<FinishedPart> header(const Digest& plan, std::uint32_t part) const;
    std::size_t bytes() const { return bytes_; }

  private:
    struct Entry {
        FinishedPart header;
        SharedBytes encoded;
    };
    void forget_oldest();

    std::size_t bytes_max_;
    std::size_t bytes_ = 0;
    std::map<Digest, Entry> by_digest_;
    std::map<std::pair<Digest, std::uint32_t>, Digest> by_part_;
    std::deque<Digest> order_;
};

}  // namespace dedloc::averaging
