// Network namespaces of this process, and shell scripts that furnish them: what the lab's test beds
// stand on (nat_topology.h, link_topology.h).
//
// Needs root. Thread: one. Errors: local_fault with what the script said.

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

#include "tests/process/janitor.h"

namespace dedloc::lab {

inline constexpr const char* ip_program = "/usr/sbin/ip";

// Runs a shell script to its end.
Ok run_script(const std::string& script);

// Names are this process's own; the destructor removes exactly those it made, and if the process is
// killed, its janitor does.
class Namespaces {
  public:
    // `kind`: two letters or so; device names are short.
    explicit Namespaces(std::string_view kind);
    ~Namespaces();
    Namespaces(const Namespaces&) = delete;
    Namespaces& operator=(const Namespaces&) = delete;

    std::string name(std::string_view role) const;
    Ok add(const std::vector<std::string>& names);  // with their loopback up
    const std::vector<std::string>& made() const { return made_; }
    // The words before a command that shall run in that namespace.
    static std::vector<std::string> prefix(const std::string& netns);

  private:
    std::string stem_;
    std::vector<std::string> made_;
    Janitor janitor_;
};

}  // namespace dedloc::lab
