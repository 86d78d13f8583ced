// How many letters must be changed, put in or taken out to make one word of another: for "did you
// mean". Cost: the product of the lengths, so bound words that strangers may have written.

#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dedloc::base {

std::size_t edit_distance(std::string_view a, std::string_view b);

// "; did you mean 'join'?", of the known word that is at most two letters away, or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace dedloc::base
