// The program's name as the user typed it, for what users are told to type next: a program that was
// built here is not in the PATH. Thread: any. Cost: reads a file of the kernel's.

#pragma once
#include <string>

namespace dedloc::cli {

std::string called_as();  // "build/release/bin/dedloc", "dedloc"

}  // namespace dedloc::cli
