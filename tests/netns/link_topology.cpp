#include "tests/netns/link_topology.h"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/netns/nat_topology.h"

namespace dedloc::lab {
namespace {

constexpr const char* tc_program = "/usr/sbin/tc";
constexpr double burst_seconds = 0.002;
constexpr double burst_bytes_min = 8192;
// Routers at home hold this however slow the link: some packets for each of many connections.
constexpr double queue_bytes_min = 256 * 1024;

// The plan counts on what transfers get; a link carries headers (Ethernet, IP and TCP with
// time stamps: 66 of 1,514 bytes) and acknowledgements of what comes the other way (one of 66 bytes
// for two packets) as well.
constexpr double carried_per_byte = 1514.0 / 1448 + 66.0 / 2 / 1448;

std::string bucket(double payload_bytes_per_s, Duration queue) {
    const double bytes_per_s = payload_bytes_per_s * carried_per_byte;
    const double burst = std::max(burst_bytes_min, bytes_per_s * burst_seconds);
    const double limit = std::max(bytes_per_s * to_seconds(queue), queue_bytes_min);
    return fmt::format(
        "root tbf rate {:.0f}bit burst {:.0f} limit {:.0f}", bytes_per_s * 8, burst, limit + burst);
}

}  // namespace

std::string LinkTopology::why_not(bool with_delay) {
    if (with_delay) return NatTopology::why_not();
    if (::geteuid() != 0) return "network namespaces need root";
    if (::access(tc_program, X_OK) != 0)
        return "the programs ip and tc are missing (package iproute2)";
    const std::string name = fmt::format("dedloc-link-try-{}", ::getpid());
    const Ok tried = run_script(fmt::format(
        "ip netns add {0}; trap 'ip netns del {0}' EXIT\n"
        "ip -n {0} link add br0 type bridge; ip -n {0} link add e0 type veth peer name e1\n"
        "tc -n {0} qdisc add dev e0 root tbf rate 1mbit burst 8192 limit 16384",
        name));
    if (!tried)
        return "network namespaces with shaped lines are not permitted here: " +
               tried.error().message();
    return {};
}

LinkTopology::LinkTopology(LinkOptions options) : options_(std::move(options)) {}

std::string LinkTopology::machine(std::size_t number) const {
    return namespaces_.name(fmt::format("m{}", number));
}

std::string LinkTopology::ip(std::size_t number) {
    return fmt::format("10.77.{}.{}", number / 200, number % 200 + 1);
}

Result<std::unique_ptr<LinkTopology>> LinkTopology::make(LinkOptions options) {
    std::unique_ptr<LinkTopology> topology(new LinkTopology(std::move(options)));
    DEDLOC_TRY_VOID(topology->build());
    return topology;
}

// Packets of their own size: a full queue would drop 64 KiB at once, as no router does.
std::string LinkTopology::line_script(std::size_t number) const {
    const LinkLine& line = options_.lines[number];
    const std::string hub = namespaces_.name("hub");
    std::string script = fmt::format(
        "ip link add p{0} netns {1} type veth peer name eth0 netns {2}\n"
        "ip -n {1} link set p{0} gso_max_segs 1 master br0 up\n"
        "ip -n {2} link set eth0 gso_max_segs 1\n"
        "ip -n {2} addr add {3}/16 dev eth0; ip -n {2} link set eth0 up\n",
        number,
        hub,
        machine(number),
        ip(number));
    if (line.up_bytes_per_s > 0)
        script += fmt::format("tc -n {} qdisc add dev eth0 {}\n",
                              machine(number),
                              bucket(line.up_bytes_per_s, options_.queue));
    if (line.down_bytes_per_s > 0)
        script += fmt::format("tc -n {} qdisc add dev p{} {}\n",
                              hub,
                              number,
                              bucket(line.down_bytes_per_s, options_.queue));
    return script;
}

Ok LinkTopology::build() {
    std::vector<std::string> wanted;
    for (std::size_t i = 0; i < options_.lines.size(); ++i) wanted.push_back(machine(i));
    const bool delayed = options_.delay.count() > 0;
    if (!delayed) wanted.push_back(namespaces_.name("hub"));
    DEDLOC_TRY_VOID(namespaces_.add(wanted));
    std::string script;
    if (delayed) {
        std::vector<WanPort> ports;
        for (std::size_t i = 0; i < options_.lines.size(); ++i) {
            ports.push_back({.netns = machine(i), .device = "eth0", .delay = options_.delay});
            script +=
                fmt::format("ip -n {0} addr add {1}/16 dev eth0; ip -n {0} link set eth0 up\n",
                            machine(i),
                            ip(i));
        }
        DEDLOC_TRY(wan_, NatWan::start(std::move(ports)));
        return run_script(script);
    }
    script = fmt::format("ip -n {0} link add br0 type bridge; ip -n {0} link set br0 up\n",
                         namespaces_.name("hub"));
    for (std::size_t i = 0; i < options_.lines.size(); ++i) script += line_script(i);
    return run_script(script);
}

}  // namespace dedloc::lab
