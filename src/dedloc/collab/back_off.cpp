#include "dedloc/collab/back_off.h"

#include <algorithm>

namespace dedloc::collab {
namespace {

constexpr std::uint64_t shortest = 8;  // steps
constexpr std::uint64_t longest = 64;
constexpr std::uint64_t by_one_leader = 4;  // in a row
constexpr std::uint64_t late_rounds = 4;    // in a row
constexpr std::uint64_t proof = 2;          // so many in a row are taken for what they are
constexpr double another_link = 1.5;        // times as fast as it was

}  // namespace

bool BackOff::step_made(Fate fate, const PeerId& leader) {
    const bool begins_now = begins(fate, leader);
    on_ = history_.steps_left > 0;
    return begins_now;
}

bool BackOff::begins(Fate fate, const PeerId& leader) {
    if (history_.steps_left > 0) {
        --history_.steps_left;
        return false;
    }
    if (fate == Fate::missing) return false;
    history_.late_in_a_row = fate == Fate::late ? history_.late_in_a_row + 1 : 0;
    if (fate == Fate::taken) {
        if (++history_.taken_in_a_row == proof) end();
        return false;
    }
    history_.taken_in_a_row = 0;
    if (!is_sure(fate, leader)) return false;
    history_.length = history_.length == 0 ? shortest : std::min(history_.length * 2, longest);
    history_.steps_left = history_.length;
    return true;
}

bool BackOff::is_sure(Fate fate, const PeerId& leader) {
    if (fate == Fate::late) return history_.late_in_a_row >= late_rounds;
    ++history_.left_out_in_a_row;
    if (!history_.by) history_.by = leader;
    return history_.length > 0 || *history_.by != leader ||
           history_.left_out_in_a_row >= by_one_leader;
}

void BackOff::end() {
    history_ = {};
    on_ = false;
}

bool BackOff::is_another_link(double bytes_per_s) const {
    return bytes_per_s > link_at_begin_ * another_link;
}

}  // namespace dedloc::collab
