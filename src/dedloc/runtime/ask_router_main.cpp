// dedloc-ask-router: asks the default gateway for a TCP port, by NAT-PMP and UPnP, in a process of
// its own that has as good as nothing to lose (router_port_mapper.h).
//
//   dedloc-ask-router map INTERNAL EXTERNAL SECONDS
//   dedloc-ask-router unmap nat-pmp|upnp INTERNAL EXTERNAL CONTROL-URL|-
//
// One line on standard output (router_words.h). UPnP is searched for while NAT-PMP is asked, and
// used if that gave nothing. Only the default gateway is believed: whatever else answers a search
// in the local network is not even asked. An external port that the router has given to another
// machine is left alone.

#include <arpa/inet.h>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <miniupnpc/miniupnpc.h>
#include <miniupnpc/upnpcommands.h>
#include <miniupnpc/upnperrors.h>
#include <natpmp.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "dedloc/runtime/router_words.h"

namespace dedloc::runtime {
namespace {

using Time = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Our own limits; whoever started us has stricter ones.
constexpr unsigned life_seconds_max = 12;
constexpr rlim_t processor_seconds_max = 5;
constexpr rlim_t memory_bytes_max = rlim_t{256} << 20;
constexpr rlim_t descriptors_max = 64;
constexpr auto nat_pmp_wait_max = 1800ms;  // its third repetition has had its time
constexpr int search_milliseconds = 1000;  // for each kind of device
constexpr int descriptions_max = 4;
constexpr int other_ports_max = 3;
constexpr int conflict_in_mapping_entry = 718;
constexpr int only_permanent_leases = 725;
constexpr uid_t nobody = 65534;
constexpr const char* what_for = "dedloc";

struct Answer {
    std::optional<PortMapping> mapping{};
    std::string refusal{};  // the last one
};

[[noreturn]] void say(const std::string& line) {
    std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
    std::_Exit(0);  // a search that still runs is not waited for
}

// ------------------------------------------------------------------------------------- the cell

void limit(__rlimit_resource what, rlim_t most) {
    const rlimit both{.rlim_cur = most, .rlim_max = most};
    (void)::setrlimit(what, &both);
}

// Gives away what it can: all but sockets. Each is a second line only, so a refusal changes
// nothing.
void give_up_everything() {
    if (::geteuid() == 0) {
        (void)::syscall(SYS_setgroups, 0, nullptr);
        if (::setresgid(nobody, nobody, nobody) == 0) (void)!::setresuid(nobody, nobody, nobody);
    }
    (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)::setpriority(PRIO_PROCESS, 0, 5);
    ::alarm(life_seconds_max);
    limit(RLIMIT_CPU, processor_seconds_max);
    limit(RLIMIT_NOFILE, descriptors_max);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, router_answer_bytes_max);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    limit(RLIMIT_AS, memory_bytes_max);
#endif
}

// -------------------------------------------------------------------------------------- NAT-PMP

class NatPmp {
  public:
    NatPmp() : is_open_(::initnatpmp(&state_, 0, 0) == 0) {}
    ~NatPmp() {
        if (is_open_) ::closenatpmp(&state_);
    }
    NatPmp(const NatPmp&) = delete;
    NatPmp& operator=(const NatPmp&) = delete;

    bool is_open() const { return is_open_; }
    natpmp_t& state() { return state_; }

    std::string gateway() const { return text_of(in_addr{.s_addr = state_.gateway}); }
    // Our address, as the gateway sees it; empty: unknown.
    std::string own_address() const {
        sockaddr_in own{};
        socklen_t size = sizeof own;
        if (::getsockname(state_.s, reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
        return text_of(own.sin_addr);
    }
    static std::string text_of(in_addr address) {
        std::string text(INET_ADDRSTRLEN, '\0');
        if (::inet_ntop(AF_INET, &address, text.data(), INET_ADDRSTRLEN) == nullptr) return {};
        return text.c_str();
    }

    // Waits for the request that was sent last; the code is 0 or an error of the library.
    int wait(natpmpresp_t& response, Time::time_point deadline) {
        for (;;) {
            const int code = ::readnatpmpresponseorretry(&state_, &response);
            if (code != NATPMP_TRYAGAIN) return code;
            timeval timeout{};
            (void)::getnatpmprequesttimeout(&state_, &timeout);
            const auto left =
                std::chrono::duration_cast<std::chrono::microseconds>(deadline - Time::now());
            if (left <= 0us) return NATPMP_ERR_NOGATEWAYSUPPORT;
            const auto until_repeated =
                std::chrono::seconds(timeout.tv_sec) + std::chrono::microseconds(timeout.tv_usec);
            auto slice = std::min<std::chrono::microseconds>(left, until_repeated);
            slice = std::max(slice, 1000us);
            timeval slice_value{.tv_sec = slice / 1s, .tv_usec = (slice % 1s) / 1us};
            fd_set readable;
            FD_ZERO(&readable);
            FD_SET(state_.s, &readable);
            (void)::select(state_.s + 1, &readable, nullptr, nullptr, &slice_value);
        }
    }

  private:
    natpmp_t state_{};
    bool is_open_;
};

std::string words_for_error(int code) {
    switch (code) {
        case NATPMP_ERR_NOTAUTHORIZED:
            return "not authorized (NAT-PMP)";
        case NATPMP_ERR_NETWORKFAILURE:
            return "it has no public address itself (NAT-PMP)";
        case NATPMP_ERR_OUTOFRESOURCES:
            return "no port is free (NAT-PMP)";
        default:
            return {};  // nobody speaks it
    }
}

Answer map_by_nat_pmp(NatPmp& pmp, const PortWish& wish) {
    Answer answer;
    const auto deadline = Time::now() + nat_pmp_wait_max;
    natpmpresp_t response{};
    if (::sendpublicaddressrequest(&pmp.state()) < 0) return answer;
    int code = pmp.wait(response, deadline);
    if (code == 0 && response.type != NATPMP_RESPTYPE_PUBLICADDRESS) return answer;
    const in_addr external = response.pnu.publicaddress.addr;
    if (code == 0) {
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wish.lease).count();
        if (::sendnewportmappingrequest(&pmp.state(),
                                        NATPMP_PROTOCOL_TCP,
                                        wish.internal_port,
                                        wish.external_port,
                                        static_cast<std::uint32_t>(seconds)) < 0)
            return answer;
        code = pmp.wait(response, deadline);
    }
    if (code != 0) {
        answer.refusal = words_for_error(code);
        return answer;
    }
    const auto& granted = response.pnu.newportmapping;
    if (response.type != NATPMP_RESPTYPE_TCPPORTMAPPING || granted.mappedpublicport == 0 ||
        granted.privateport != wish.internal_port || granted.lifetime == 0)
        return answer;
    PortMapping mapping;
    mapping.protocol = MappingProtocol::nat_pmp;
    mapping.internal_port = wish.internal_port;
    mapping.external = {.host = NatPmp::text_of(external), .port = granted.mappedpublicport};
    mapping.lease = std::chrono::seconds(granted.lifetime);
    answer.mapping = std::move(mapping);
    return answer;
}

bool unmap_by_nat_pmp(NatPmp& pmp, std::uint16_t internal_port) {
    natpmpresp_t response{};
    if (::sendnewportmappingrequest(&pmp.state(), NATPMP_PROTOCOL_TCP, internal_port, 0, 0) < 0)
        return false;
    return pmp.wait(response, Time::now() + nat_pmp_wait_max) == 0;
}

// ----------------------------------------------------------------------------------------- UPnP

using Devices = std::unique_ptr<UPNPDev, void (*)(UPNPDev*)>;

Devices search(const std::string& own_address) {
    // Newer routers answer to these too.
    const char* const kinds[] = {"urn:schemas-upnp-org:device:InternetGatewayDevice:1",
                                 "urn:schemas-upnp-org:service:WANIPConnection:1",
                                 nullptr};
    int error = 0;
    UPNPDev* found = ::upnpDiscoverDevices(kinds,
                                           search_milliseconds,
                                           own_address.empty() ? nullptr : own_address.c_str(),
                                           nullptr,
                                           UPNP_LOCAL_PORT_ANY,
                                           0,
                                           2,
                                           &error,
                                           0);
    return {found, &::freeUPNPDevlist};
}

// A gateway's service for ports, by the URL of its description.
class Gateway {
  public:
    explicit Gateway(const std::string& url) : url_(url) {
        char own[64] = {};
        is_there_ = ::UPNP_GetIGDFromUrl(url.c_str(), &urls_, &data_, own, sizeof own) == 1;
        own_address_.assign(own, ::strnlen(own, sizeof own));
    }
    ~Gateway() {
        if (is_there_) ::FreeUPNPUrls(&urls_);
    }
    Gateway(const Gateway&) = delete;
    Gateway& operator=(const Gateway&) = delete;

    // The description may name another machine as the one to ask: not with us.
    bool is_at(const std::string& host) const {
        return is_there_ && urls_.controlURL != nullptr && host_of_url(urls_.controlURL) == host &&
               data_.first.servicetype[0] != '\0';
    }

    Answer map(const PortWish& wish) const {
        Answer answer;
        char external[64] = {};
        const int asked = ::UPNP_GetExternalIPAddress(urls_.controlURL, service(), external);
        if (asked != UPNPCOMMAND_SUCCESS) {
            answer.refusal = words_for_error(asked);
            return answer;
        }
        std::uint16_t port = wish.external_port;
        for (int others = 0; others <= other_ports_max; ++others) {
            auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wish.lease).count();
            int code = add(wish.internal_port, port, seconds);
            if (code == only_permanent_leases) {
                seconds = 0;
                code = add(wish.internal_port, port, seconds);
            }
            if (code == UPNPCOMMAND_SUCCESS) {
                PortMapping mapping;
                mapping.protocol = MappingProtocol::upnp;
                mapping.internal_port = wish.internal_port;
                mapping.external = {.host = std::string(external), .port = port};
                mapping.lease = std::chrono::seconds(seconds);
                mapping.control = url_;
                answer.mapping = std::move(mapping);
                return answer;
            }
            answer.refusal = words_for_error(code);
            if (code != conflict_in_mapping_entry) return answer;
            port = static_cast<std::uint16_t>(1024 + (port * 31u + 7919u) % 64000u);
        }
        return answer;
    }

    bool unmap(std::uint16_t external_port) const {
        const std::string port = std::to_string(external_port);
        return ::UPNP_DeletePortMapping(
                   urls_.controlURL, service(), port.c_str(), "TCP", nullptr) ==
               UPNPCOMMAND_SUCCESS;
    }

  private:
    static std::string words_for_error(int code) {
        const char* words = ::strupnperror(code);
        return words != nullptr ? fmt::format("{} (UPnP)", words)
                                : fmt::format("error {} (UPnP)", code);
    }
    const char* service() const { return data_.first.servicetype; }

    // Some routers give away what another machine has: look first.
    bool belongs_to_another(const std::string& port) const {
        char client[64] = {};
        char internal[16] = {};
        char words[128] = {};
        char enabled[16] = {};
        char lease[32] = {};
        const int code = ::UPNP_GetSpecificPortMappingEntry(urls_.controlURL,
                                                            service(),
                                                            port.c_str(),
                                                            "TCP",
                                                            nullptr,
                                                            client,
                                                            internal,
                                                            words,
                                                            enabled,
                                                            lease);
        return code == UPNPCOMMAND_SUCCESS && client[0] != '\0' && own_address_ != client;
    }

    int add(std::uint16_t internal, std::uint16_t external, std::int64_t seconds) const {
        const std::string external_text = std::to_string(external);
        if (belongs_to_another(external_text)) return conflict_in_mapping_entry;
        return ::UPNP_AddPortMapping(urls_.controlURL,
                                     service(),
                                     external_text.c_str(),
                                     std::to_string(internal).c_str(),
                                     own_address_.c_str(),
                                     what_for,
                                     "TCP",
                                     nullptr,
                                     std::to_string(seconds).c_str());
    }

    std::string url_;
    UPNPUrls urls_{};
    IGDdatas data_{};
    std::string own_address_;
    bool is_there_ = false;
};

Answer map_by_upnp(const UPNPDev* devices, const std::string& gateway, const PortWish& wish) {
    Answer answer;
    std::string before;
    int looked_at = 0;
    for (; devices != nullptr && looked_at < descriptions_max; devices = devices->pNext) {
        const std::string url = devices->descURL != nullptr ? devices->descURL : "";
        if (url == before || host_of_url(url) != gateway) continue;
        before = url;
        ++looked_at;
        const Gateway device(url);
        if (!device.is_at(gateway)) continue;
        answer = device.map(wish);
        if (answer.mapping) return answer;
    }
    return answer;
}

// --------------------------------------------------------------------------------- the two tasks

[[noreturn]] void map(const PortWish& wish) {
    NatPmp pmp;
    if (!pmp.is_open()) say("none\n");  // there is no default gateway
    const std::string gateway = pmp.gateway();
    Devices devices(nullptr, &::freeUPNPDevlist);
    std::thread searching([&devices, own = pmp.own_address()] { devices = search(own); });
    const Answer first = map_by_nat_pmp(pmp, wish);
    if (first.mapping) say(answer_line(*first.mapping));
    searching.join();
    const Answer second = map_by_upnp(devices.get(), gateway, wish);
    if (second.mapping) say(answer_line(*second.mapping));
    const std::string& refusal = first.refusal.empty() ? second.refusal : first.refusal;
    say(refusal.empty() ? "none\n" : refused_line(refusal));
}

[[noreturn]] void unmap(std::string_view protocol,
                        std::uint16_t internal,
                        std::uint16_t external,
                        const std::string& url) {
    NatPmp pmp;
    if (!pmp.is_open()) say("none\n");
    if (protocol == "nat-pmp") say(unmap_by_nat_pmp(pmp, internal) ? "unmapped\n" : "none\n");
    if (host_of_url(url) != pmp.gateway()) say("none\n");
    const Gateway gateway(url);
    const bool done = gateway.is_at(pmp.gateway()) && gateway.unmap(external);
    say(done ? "unmapped\n" : "none\n");
}

std::uint16_t port_of(std::string_view word) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), port);
    return error == std::errc() && end == word.data() + word.size() ? port : 0;
}

int run(int argc, char** argv) {
    const std::string_view task = argc > 1 ? argv[1] : "";
    if (task == "map" && argc == 5) {
        const PortWish wish{.internal_port = port_of(argv[2]),
                            .external_port = port_of(argv[3]),
                            .lease = std::chrono::seconds(std::atoi(argv[4]))};
        if (wish.internal_port != 0 && wish.external_port != 0 && wish.lease > 0s) map(wish);
    }
    if (task == "unmap" && argc == 6) unmap(argv[2], port_of(argv[3]), port_of(argv[4]), argv[5]);
    std::fputs("usage: dedloc-ask-router map INTERNAL EXTERNAL SECONDS\n", stderr);
    return 2;
}

}  // namespace
}  // namespace dedloc::runtime

int main(int argc, char** argv) {
    dedloc::runtime::give_up_everything();
    return dedloc::runtime::run(argc, argv);
}
