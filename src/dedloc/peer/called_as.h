// The program's name as the user typed it, for what users are told to type next: a program that was
// built here is not in the PATH. And its path. Thread: any. Cost: reads a file of the kernel's.

#pragma once
#include <string>
#include <vector>

namespace dedloc::peer {

// All that was typed, the program's name first: what main() made of it may have changed.
std::vector<std::string> own_arguments();
std::string called_as();  // "build/release/bin/dedloc", "dedloc"
// The path of the program that runs, however it was called: for children and for service managers,
// who look in no PATH. Where it was replaced meanwhile: that of the new one.
std::string own_program();
// The same for what is typed on other people's machines: where it was built, not installed, they
// have theirs from ./demo.sh, as README says, and not under this machine's path, nor for its card.
std::string as_others_call_it(const std::string& here = called_as());

}  // namespace dedloc::peer
