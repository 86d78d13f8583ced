// Homes: those who share the pieces of a catalogue among themselves. Each piece has one of them,
// drawn by its number and their ids, so that all who know the same homes agree without a word.
//
// Thread: any.

#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "dedloc/base/peer_id.h"

namespace dedloc::data {

class PieceHomes {
  public:
    explicit PieceHomes(const PeerId& self);

    void set_others(const std::vector<PeerId>& others);
    bool is_own(std::uint64_t piece) const;

  private:
    std::uint64_t self_;
    mutable std::mutex mutex_;
    std::vector<std::uint64_t> others_;
};

}  // namespace dedloc::data
