#include "dedloc/collab/rest.h"

#include <algorithm>

namespace dedloc::collab {
namespace {

constexpr std::uint64_t shortest = 8;  // steps
constexpr std::uint64_t longest = 64;
constexpr std::uint64_t by_one_leader = 4;  // in a row
constexpr std::uint64_t proof = 2;          // so many in a row are taken for what they are

}  // namespace

bool Rest::step_made(Fate fate, const PeerId& leader) {
    if (resting()) {
        --steps_left_;
        return false;
    }
    if (fate == Fate::taken && ++taken_in_a_row_ == proof) end();
    if (fate != Fate::left_out) return false;
    taken_in_a_row_ = 0;
    ++left_out_in_a_row_;
    if (!by_) by_ = leader;
    const bool sure = length_ > 0 || *by_ != leader || left_out_in_a_row_ >= by_one_leader;
    if (!sure) return false;
    length_ = length_ == 0 ? shortest : std::min(length_ * 2, longest);
    steps_left_ = length_;
    return true;
}

void Rest::end() { *this = Rest{}; }

}  // namespace dedloc::collab
