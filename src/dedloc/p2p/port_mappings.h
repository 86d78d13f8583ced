// PortMappings: keeps a port of the router open for this host's listener, while that helps.
//
// Asked for only if the host listens on a private IPv4 address and has no public one; renewed at
// half its lease; asked for again, with back-off, when the router does not answer; given back at
// the end. What the router says of its own address counts if that is a public one: behind a second
// router (double NAT, carrier-grade NAT) the open port leads nowhere. Whether anybody gets through
// is not known from here: AutoNAT finds out (nat_service.h).
//
// Source: RFC 6886 (leases, renewal, the address that may be private). Thread: the network thread.
// Cost: a question every half lease. Limits: limits.h, "port mapping".

#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/p2p/limits.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/port_mapper.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

// The listener that a router could pass a port on to; nullopt: there is none, or no need.
std::optional<runtime::SocketAddress> listener_to_map(
    const std::vector<wire::Multiaddr>& interfaces,
    const std::function<bool(std::string_view ip)>& is_public);

// Where a machine with these addresses is: their subnets (nat.h), each once.
std::vector<std::string> subnets_of(const std::vector<wire::Multiaddr>& addresses);

class PortMappings {
  public:
    struct Surroundings {
        runtime::Executor executor;
        runtime::Clock& clock;
        runtime::PortMapper* mapper;  // null: there is no router to ask
        // The host listens on these, wildcards replaced by the machine's addresses in its networks;
        // empty: it is in none at the moment.
        std::function<std::vector<wire::Multiaddr>()> interfaces;
        std::function<bool(std::string_view ip)> is_public;
        std::function<void()> on_change;  // address() is another, or open again after doubt()
    };

    explicit PortMappings(Surroundings surroundings);

    Task<void> run();    // until it is cancelled, or closed
    Task<void> close();  // gives the port back; within mapping_close_wait_max + mapping_removal_max

    // Somebody could not get through: perhaps the router has forgotten us.
    void doubt();

    std::optional<wire::Multiaddr> address() const;
    // "the router opened port 4001 for this peer by NAT-PMP", or why not; empty: nobody is asked.
    const std::string& sentence() const { return sentence_; }
    // The first question was answered, or there is none to ask.
    bool is_settled() const { return settled_; }

  private:
    struct Held {
        runtime::PortMapping mapping;
        TimePoint until;
    };

    void check_interfaces();
    void say(std::string sentence);
    Task<void> ask();
    Task<void> take(runtime::PortMapping mapping);
    void receive_failure(const Error& error);
    Task<void> give_back(runtime::PortMapping mapping);
    void drop();

    Surroundings around_;
    std::vector<std::string> seen_;  // of interfaces() the subnets, when there last were some
    std::optional<runtime::SocketAddress> inside_;
    std::optional<Held> held_;
    std::string sentence_;
    TimePoint due_;
    TimePoint asked_at_;
    Duration retry_{0};
    bool moved_ = false;  // since the router answered: perhaps it is another one now
    bool away_ = false;   // in no network at the last look
    bool asking_ = false;
    bool settled_ = false;
    bool doubted_ = false;
    bool closing_ = false;
    runtime::Event news_;
    runtime::Event idle_;  // set while no question is on its way
};

}  // namespace dedloc::p2p
