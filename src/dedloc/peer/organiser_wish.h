// Wishes that an organiser's peer on this machine grants: to let somebody in, or to take that back
// (admission/book_issuer.h). A wish is a file in its folder, which it takes away when the wish has
// been granted or refused.
//
// Errors: Failure with unreachable (no peer answers), bad_input (the peer refused, in its words),
// disk. Blocks for wish_timeout_s at most. Thread: any.

#pragma once
#include <string>

#include "dedloc/admission/book_issuer.h"
#include "dedloc/peer/exit_codes.h"

namespace dedloc::peer {

inline constexpr double wish_timeout_s = 10;

// Hands a wish to the peer in `directory` and waits until it is granted.
std::optional<Failure> grant_wish(const std::string& directory, const admission::Wish& wish);

// The join string with a code that is good once, for this person. The peer learns the code's hash
// alone.
Outcome<std::string> personal_string(const std::string& directory,
                                     const std::string& join_string,
                                     const std::string& name,
                                     double days,
                                     bool organises);
std::optional<Failure> revoke_person(const std::string& directory, const std::string& name);

}  // namespace dedloc::peer
