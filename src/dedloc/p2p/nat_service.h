// NatService: everything a host does about being reached, put together (nat.h says what). Owned by
// the host; protocols in, conclusions out.
//
// Others can dial us if one of these says so: strangers from public addresses who came to a public
// address of ours; AutoNAT's answers. The first is enough for "public", one failed dial back makes
// "private" of "unknown", two of "public"; all who may be asked are asked in turn. "Public" says
// that somebody can dial us, not that everybody can: while some cannot (a campus whose firewall
// keeps outsiders out, a home with an open port for IPv6 alone), the places at relays stay; and so
// they do, or are taken again, while a peer that we look for cannot be dialled (one that has the
// other family of addresses alone, or is in another such campus). A port
// that the router opened is told to others at once, and asked about anew; "public" it makes nobody
// before somebody came through. What was found out in one network does not count in the next.
//
// Thread: the network thread. Cost: idle, one AutoNAT question a few minutes.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dedloc/p2p/autonat.h"
#include "dedloc/p2p/dcutr.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/p2p/nat_observed.h"
#include "dedloc/p2p/port_mappings.h"
#include "dedloc/p2p/punches.h"
#include "dedloc/p2p/relay_reservations.h"
#include "dedloc/p2p/relay_service.h"
#include "dedloc/p2p/swarm.h"
#include "dedloc/wire/identify.h"

namespace dedloc::p2p {

class NatService {
  public:
    using ConnectionPtr = std::shared_ptr<PeerConnection>;
    struct Surroundings {
        runtime::Executor executor;
        runtime::Clock& clock;
        security::Identity identity;
        Swarm& swarm;
        runtime::Scope& scope;
        // Addresses that we listen on, wildcards replaced by the machine's; plain.
        std::function<std::vector<wire::Multiaddr>()> interfaces;
        // The addresses that tell in which network we are (Network::outward_addresses()).
        std::function<std::vector<wire::Multiaddr>()> outward;
        std::function<void()> on_change;         // addresses() or protocols() are others now
        std::vector<wire::Multiaddr> announced;  // by the user, instead
        runtime::PortMapper* port_mapper;        // null: no router is asked
    };

    NatService(NatOptions options, Surroundings surroundings);
    ~NatService();

    void start();        // when the host listens
    Task<void> close();  // gives back what the router lent
    std::vector<std::string_view> protocols() const;
    bool offers(std::string_view protocol) const;
    Task<void> serve(std::string protocol,
                     ConnectionPtr connection,
                     std::shared_ptr<transport::Stream> stream);
    bool dials_from_listen_port(const std::string& host) const;

    void connected(const ConnectionPtr& connection);
    void identified(const ConnectionPtr& connection, const wire::Identify& identify);
    void peer_gone(const PeerId& peer);
    // A peer could not be dialled, or over a relay only.
    void not_reached();
    void befriended(const PeerId& peer) { reservations_.ask_soon(peer); }  // it was protected

    // Addresses that others may dial, best first: a peer with room for a few takes the first ones.
    std::vector<wire::Multiaddr> addresses() const;
    NatReport report() const;
    bool is_punching(const PeerId& peer) const { return punches_.is_under_way(peer); }
    // A relay that leads to us, or a peer to which we lead: without its connection that ends.
    bool needs(const PeerId& peer) const {
        return reservations_.has(peer) || relay_.has_place(peer);
    }

  private:
    struct Asked {
        TimePoint not_before;
        TimePoint last{};
        bool failed = false;  // when it last tried to dial us
    };

    bool is_public_host(const wire::Multiaddr& address) const;
    bool has_public_interface() const;
    bool needs_relays() const;
    bool serves_as_relay() const;
    bool maps_ports() const;
    void mapping_changed();
    void ask_at_once();
    void ask_anew();
    void forget_failures();
    std::vector<std::string> place(const std::vector<wire::Multiaddr>& own) const;
    Task<void> watch_network();
    void network_changed();
    void forget_what_was_seen();
    std::vector<std::uint16_t> listen_ports() const;
    void conclude(Reachability reachability, std::string reason);

    std::vector<wire::Multiaddr> to_ask() const;
    std::optional<PeerId> next_server() const;
    Task<void> ask_loop();
    Task<void> ask(PeerId server);
    Task<void> mapping_news();
    void receive_answer(const PeerId& server, const DialledBack& answer);
    void remember(const PeerId& server, bool failed);
    void confirm(const wire::Multiaddr& address);
    void receive_observation(const ConnectionPtr& connection, wire::Multiaddr seen);
    bool is_news_of_router(const wire::Multiaddr& seen) const;

    Task<void> make_direct(ConnectionPtr relayed, std::vector<wire::Multiaddr> public_addresses);
    Task<void> try_to_make_direct(ConnectionPtr relayed,
                                  std::vector<wire::Multiaddr> public_addresses);
    Task<void> punch_later(PeerId peer);
    Task<void> punch_attempts(ConnectionPtr relayed);
    Task<Result<void>> punch_once(ConnectionPtr relayed, int attempt);
    Task<void> serve_punch(ConnectionPtr connection, std::shared_ptr<transport::Stream> stream);
    Task<void> serve_stop(ConnectionPtr connection, std::shared_ptr<transport::Stream> stream);
    std::vector<wire::Multiaddr> only_public(std::vector<wire::Multiaddr> addresses) const;

    NatOptions options_;
    Surroundings around_;
    ObservedAddresses observed_;
    std::set<PeerId> saw_us_elsewhere_;  // unless their connections outlive our move
    RelayService relay_;
    RelayReservations reservations_;
    AutonatServer autonat_;
    PortMappings mappings_;
    std::optional<wire::Multiaddr> mapped_;  // what the router passes on to us, it says
    bool mapping_failed_ = false;            // nobody got through since it says so
    runtime::Event mapping_news_;
    Reachability reachability_ = Reachability::unknown;
    std::string reason_ = "nobody was asked yet";
    std::vector<wire::Multiaddr> confirmed_;  // beyond the interfaces' own
    int failures_ = 0;                        // of dials back, since the last success
    std::map<PeerId, Asked> servers_;
    TimePoint kept_out_until_;  // by one who is gone, or not reached: others may be, too
    TimePoint router_news_after_;
    TimePoint ask_again_;
    runtime::Event ask_news_;
    Punches punches_;
};

}  // namespace dedloc::p2p
