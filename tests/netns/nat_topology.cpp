#include "tests/netns/nat_topology.h"

#include <fmt/format.h>
#include <unistd.h>

namespace dedloc::lab {
namespace {

constexpr const char* nft_program = "/usr/sbin/nft";

char other(char which) { return which == 'a' ? 'b' : 'a'; }

}  // namespace

std::string_view to_string(NatKind kind) {
    switch (kind) {
        case NatKind::none:
            return "public";
        case NatKind::full_cone:
            return "full cone";
        case NatKind::port_restricted:
            return "port-restricted cone";
        case NatKind::symmetric:
            return "symmetric";
        case NatKind::same:
            return "behind the same NAT";
    }
    return "?";
}

std::string NatTopology::why_not() {
    if (::geteuid() != 0) return "network namespaces need root";
    if (::access(ip_program, X_OK) != 0) return "the program ip is missing (package iproute2)";
    if (::access(nft_program, X_OK) != 0) return "the program nft is missing (package nftables)";
    const std::string name = fmt::format("dedloc-nat-try-{}", ::getpid());
    const Ok tried = run_script(fmt::format(
        "ip netns add {0}; trap 'ip netns del {0}' EXIT; ip netns exec {0} nft add table ip t; "
        "ip netns exec {0} nft add chain ip t c '{{ type nat hook postrouting priority srcnat; "
        "}}'; "
        "ip netns exec {0} nft add rule ip t c masquerade fully-random; test -c /dev/net/tun",
        name));
    if (!tried) return "network namespaces are not permitted here: " + tried.error().message();
    return {};
}

NatTopology::NatTopology(TopologyOptions options) : options_(options) {}

std::string NatTopology::name(const std::string& role) const { return namespaces_.name(role); }
std::string NatTopology::host(char which) const { return name(std::string("host") + which); }
std::string NatTopology::machine(int number) const { return name(fmt::format("r{}", number)); }
std::string NatTopology::machine_ip(int number) { return fmt::format("203.0.113.{}", 9 + number); }

bool NatTopology::share_a_nat() const {
    return options_.a == NatKind::same || options_.b == NatKind::same;
}

// Two that share "the same" without saying which share a usual home router.
NatKind NatTopology::kind_of(char which) const {
    const NatKind own = which == 'a' ? options_.a : options_.b;
    if (own != NatKind::same) return own;
    const NatKind others = which == 'a' ? options_.b : options_.a;
    return others == NatKind::same ? NatKind::port_restricted : others;
}

Result<std::unique_ptr<NatTopology>> NatTopology::make(const TopologyOptions& options) {
    std::unique_ptr<NatTopology> topology(new NatTopology(options));
    DEDLOC_TRY_VOID(topology->build());
    return topology;
}

Ok NatTopology::make_namespaces() {
    std::vector<std::string> wanted = {host('a'), host('b')};
    for (const char which : {'a', 'b'})
        if (kind_of(which) != NatKind::none && (which == 'a' || !share_a_nat()))
            wanted.push_back(name(std::string("nat") + which));
    for (int i = 1; i <= options_.public_machines; ++i) wanted.push_back(machine(i));
    return namespaces_.add(wanted);
}

Ok NatTopology::build() {
    DEDLOC_TRY_VOID(make_namespaces());
    std::vector<WanPort> ports;
    for (const std::string& netns : namespaces_.made()) {
        const bool behind = (netns == host('a') && kind_of('a') != NatKind::none) ||
                            (netns == host('b') && kind_of('b') != NatKind::none);
        if (!behind)
            ports.push_back({.netns = netns,
                             .device = "wan0",
                             .delay = options_.delay,
                             .bytes_per_s = options_.bytes_per_s});
    }
    DEDLOC_TRY(wan_, NatWan::start(std::move(ports)));
    std::string script = addresses_script();
    for (const char which : {'a', 'b'}) {
        const NatKind kind = kind_of(which);
        if (kind == NatKind::none || (which == 'b' && share_a_nat())) continue;
        std::vector<char> hosts(1, which);
        if (share_a_nat()) hosts.push_back(other(which));
        script += nat_script(which, kind, hosts);
    }
    return run_script(script);
}

std::string NatTopology::addresses_script() const {
    std::string script;
    const auto give = [&script](const std::string& netns, const std::string& ip) {
        script += fmt::format(
            "ip -n {0} addr add {1}/24 dev wan0; ip -n {0} link set wan0 up\n", netns, ip);
    };
    for (int i = 1; i <= options_.public_machines; ++i) give(machine(i), machine_ip(i));
    for (const char which : {'a', 'b'}) {
        const std::string ip = which == 'a' ? "203.0.113.2" : "203.0.113.3";
        if (kind_of(which) == NatKind::none)
            give(host(which), ip);
        else if (which == 'a' || !share_a_nat())
            give(name(std::string("nat") + which), ip);
    }
    return script;
}

std::string NatTopology::nat_script(char which,
                                    NatKind kind,
                                    const std::vector<char>& hosts) const {
    const std::string router = name(std::string("nat") + which);
    const int net = which == 'a' ? 1 : 2;
    std::string script = fmt::format(
        "ip -n {0} link add lan type bridge; ip -n {0} link set lan up\n"
        "ip -n {0} addr add 192.168.{1}.1/24 dev lan\n"
        "ip netns exec {0} sysctl -qw net.ipv4.ip_forward=1\n",
        router,
        net);
    for (std::size_t i = 0; i < hosts.size(); ++i)
        script += fmt::format(
            "ip link add lan{3} netns {0} type veth peer name eth0 netns {1}\n"
            "ip -n {0} link set lan{3} master lan up\n"
            "ip -n {1} addr add 192.168.{2}.{4}/24 dev eth0; ip -n {1} link set eth0 up\n"
            "ip -n {1} route add default via 192.168.{2}.1\n",
            router,
            host(hosts[i]),
            net,
            i,
            2 + i);
    const std::string source =
        kind == NatKind::symmetric ? "masquerade fully-random" : "masquerade";
    const std::string inward = kind == NatKind::full_cone
                                   ? fmt::format("iifname \"wan0\" dnat to 192.168.{}.2", net)
                                   : std::string();
    // A router that answered what it did not ask for would make hole punching fail for a reason
    // that has nothing to do with us: it drops.
    script += fmt::format(R"(ip netns exec {} nft -f - <<'RULES'
table ip nat {{
  chain pre {{ type nat hook prerouting priority dstnat; policy accept;
    {}
  }}
  chain post {{ type nat hook postrouting priority srcnat; policy accept; oifname "wan0" {}
  }}
}}
table ip filter {{
  chain input {{ type filter hook input priority filter; policy accept;
    iifname "wan0" ct state established,related accept
    iifname "wan0" drop
  }}
  chain forward {{ type filter hook forward priority filter; policy accept;
    ct state established,related accept
    ct status dnat accept
    iifname "wan0" drop
  }}
}}
RULES
)",
                          router,
                          inward,
                          source);
    return script;
}

}  // namespace dedloc::lab
