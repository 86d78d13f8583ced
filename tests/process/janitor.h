// Janitor: removes what a process leaves behind when it is killed. A shell with a session of its
// own, which no signal to us or our group reaches, waits until this process has ended, however it
// did, and removes what it was told of and is still there.
//
// Thread: one. Errors: local_fault.

#pragma once
#include <cstdio>
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::lab {

class Janitor {
  public:
    Janitor() = default;
    ~Janitor();  // waits until the shell is done
    Janitor(const Janitor&) = delete;
    Janitor& operator=(const Janitor&) = delete;

    Ok remove_namespace(const std::string& netns);
    Ok remove_folder(const std::string& path);
    void keep(const std::string& what);  // a path or name that was to be removed

  private:
    Ok tell(const std::string& line);

    std::FILE* shell_ = nullptr;
};

}  // namespace dedloc::lab
