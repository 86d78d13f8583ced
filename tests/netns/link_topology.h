// Machines on lines of given rates, on this computer: a network namespace each, all on one switch,
// with a token bucket (tbf) at both ends of every line. Where a delay is wanted instead, the switch
// is the wide-area network in user space (nat_wan.h), for small data: netem is missing on many
// kernels.
//
// Nothing touches the root namespace, nothing can leave.
// Needs root. Thread: one. Errors: local_fault.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/result.h"

#include "tests/netns/namespaces.h"
#include "tests/netns/nat_wan.h"

namespace dedloc::lab {

struct LinkLine {
    double up_bytes_per_s = 0;  // of payload; 0: no limit
    double down_bytes_per_s = 0;
};

struct LinkOptions {
    std::vector<LinkLine> lines;
    Duration queue{50'000'000};  // of a full line, or 256 KiB; more is dropped
    Duration delay{0};           // one way between any two; then lines have no limit
};

class LinkTopology {
  public:
    // Why there can be none here, for people; empty: there can.
    static std::string why_not(bool with_delay);
    static Result<std::unique_ptr<LinkTopology>> make(LinkOptions options);
    LinkTopology(const LinkTopology&) = delete;
    LinkTopology& operator=(const LinkTopology&) = delete;

    std::string machine(std::size_t number) const;  // the namespace's name
    static std::string ip(std::size_t number);

  private:
    explicit LinkTopology(LinkOptions options);
    Ok build();
    std::string line_script(std::size_t number) const;

    LinkOptions options_;
    Namespaces namespaces_{"dl"};
    std::unique_ptr<NatWan> wan_;  // ends before its namespaces
};

}  // namespace dedloc::lab
