#include "dedloc/collab/rest.h"

#include <algorithm>

namespace dedloc::collab {
namespace {

constexpr std::uint64_t shortest = 8;  // steps
constexpr std::uint64_t longest = 64;
constexpr std::uint64_t by_one_leader = 4;  // in a row
constexpr std::uint64_t late_rounds = 4;    // in a row
constexpr std::uint64_t proof = 2;          // so many in a row are taken for what they are

}  // namespace

bool Rest::step_made(Fate fate, const PeerId& leader) {
    if (resting()) {
        --steps_left_;
        return false;
    }
    if (fate == Fate::missing) return false;
    late_in_a_row_ = fate == Fate::late ? late_in_a_row_ + 1 : 0;
    if (fate == Fate::taken) {
        if (++taken_in_a_row_ == proof) end();
        return false;
    }
    taken_in_a_row_ = 0;
    if (!is_sure(fate, leader)) return false;
    length_ = length_ == 0 ? shortest : std::min(length_ * 2, longest);
    steps_left_ = length_;
    return true;
}

bool Rest::is_sure(Fate fate, const PeerId& leader) {
    if (fate == Fate::late) return late_in_a_row_ >= late_rounds;
    ++left_out_in_a_row_;
    if (!by_) by_ = leader;
    return length_ > 0 || *by_ != leader || left_out_in_a_row_ >= by_one_leader;
}

void Rest::end() { *this = Rest{}; }

}  // namespace dedloc::collab
