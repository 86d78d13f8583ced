// Two machines behind NATs, and public ones, on this computer: network namespaces, nftables, and a
// wide-area network between them (nat_wan.h). Nothing touches the root namespace, nothing can
// leave.
//
//   a, b   hosts: 203.0.113.2 and .3 if public, else 192.168.1.2 and 192.168.2.2 behind NATs with
//          those addresses; both in 192.168.1.0/24 if they share a NAT
//   r1…    public machines: 203.0.113.10, .11, …
//
// Needs root. Thread: one. Errors: local_fault, denied (no namespaces here; not root).

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/result.h"

#include "tests/netns/namespaces.h"
#include "tests/netns/nat_wan.h"

namespace dedloc::lab {

// NatKind says what stands between a machine and the world. A port-restricted cone keeps ports and
// lets in only what was asked for (most home routers); a symmetric NAT takes a new port for every
// destination; a full cone passes everything to the one machine behind it.
enum class NatKind { none, full_cone, port_restricted, symmetric, same };
std::string_view to_string(NatKind kind);

struct TopologyOptions {
    NatKind a = NatKind::none;
    NatKind b = NatKind::none;  // `same`, of one of them: both behind the NAT of the other's kind
    int public_machines = 2;
    Duration delay{10'000'000};  // one way, of what comes from any public address
    double bytes_per_s = 0;      // of each public address's line, each way; 0: no limit
};

class NatTopology {
  public:
    // Why there can be none here, for people; empty: there can.
    static std::string why_not();
    static Result<std::unique_ptr<NatTopology>> make(const TopologyOptions& options);
    NatTopology(const NatTopology&) = delete;
    NatTopology& operator=(const NatTopology&) = delete;

    std::string host(char which) const;     // 'a', 'b': the namespace's name
    std::string machine(int number) const;  // from 1
    static std::string machine_ip(int number);

  private:
    explicit NatTopology(TopologyOptions options);
    Ok build();
    Ok make_namespaces();
    std::string addresses_script() const;
    std::string nat_script(char which, NatKind kind, const std::vector<char>& hosts) const;
    std::string name(const std::string& role) const;
    NatKind kind_of(char which) const;
    bool share_a_nat() const;

    TopologyOptions options_;
    Namespaces namespaces_{"dn"};
    std::unique_ptr<NatWan> wan_;  // ends before its namespaces
};

}  // namespace dedloc::lab
