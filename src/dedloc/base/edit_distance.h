// How many letters must be changed, put in or taken out to make one word of another: for "did you
// mean". Cost: the product of the lengths, so bound words that strangers may have written.

#pragma once
#include <cstddef>
#include <string_view>

namespace dedloc::base {

std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace dedloc::base
