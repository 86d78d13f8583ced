// The program's name as the user typed it, for what users are told to type next: a program that was
// built here is not in the PATH. Thread: any. Cost: reads a file of the kernel's.

#pragma once
#include <string>

namespace dedloc::peer {

std::string called_as();  // "build/release/bin/dedloc", "dedloc"
// The same for what is typed on other people's machines: where it was built, not installed, they
// have theirs from ./demo.sh, as README says, and not under this machine's path, nor for its card.
std::string as_others_call_it(const std::string& here = called_as());

}  // namespace dedloc::peer
