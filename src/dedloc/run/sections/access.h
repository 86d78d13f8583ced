// [access]: who lets people in, only in runs that let in by invitation.

#pragma once
#include "dedloc/run/field_rules.h"

namespace dedloc::run {

inline constexpr std::size_t authority_bytes_max = 128;  // of a PeerId as text

template <typename Visitor, typename Access>
void visit_access(Visitor& visit, Access& access) {
    visit("access.authority", access.authority, Text{.bytes_max = authority_bytes_max});
}

}  // namespace dedloc::run
