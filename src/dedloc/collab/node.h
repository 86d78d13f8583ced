// Node: this process among the peers: network thread, clock, files, worker threads, identity, host,
// on request a part of the distributed hash table, and the services that run here. Without
// libtorch, so that an aggregator or observer uses it as a trainer does.
//
//   DEDLOC_TRY(auto node, Node::open({.directory = "peer-a"}));
//   auto& service = node->add<CollaborationService>(*node);
//   DEDLOC_TRY(auto invitation, fetch_invitation(*node, join_text, 30s));  // or Invitation{run}
//   DEDLOC_TRY_VOID(service.begin(options, nullptr));
//   ... service.collaboration() ...
//   service.leave(5s);
//
// The network thread starts in open() and ends in the destructor. Protocol objects live there:
// reach them by call(), run_on_network_thread() or through spawn().
//
// Thread: the owner's, never the network thread. Blocks. Errors: local_fault (disk, port in use),
// conflict (the directory is another process's), bad_input (addresses).

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/collab/service.h"
#include "dedloc/dht/node.h"
#include "dedloc/p2p/host.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/runtime/future.h"
#include "dedloc/runtime/limited_network.h"
#include "dedloc/runtime/node.h"
#include "dedloc/security/signer.h"

namespace dedloc::collab {

// Plans count on this share of a cap, which bounds what goes through sockets: the rest is for the
// framing of TLS and yamux, and for small messages beside the parts.
inline constexpr double planned_share_of_cap = 0.97;
// How soon caps change when the time of day does.
inline constexpr Duration caps_look_interval = 1s;

struct NodeOptions {
    std::string directory;  // identity, votes, counters, checkpoints; made if it is missing
    std::vector<std::string> listen = {"/ip4/0.0.0.0/tcp/0"};  // empty: client mode
    std::vector<std::string> announce{};
    std::size_t workers_count = 0;  // 0: as many as there are cores; never more than eight
    p2p::NatOptions nat{};
    std::vector<std::string> relays{};  // addresses with /p2p/<id> to stay connected to
    std::string congestion_control{};   // of TCP (runtime/real.h); empty: the system's
    // How fast this process may send and receive at that time; looked at again and again, on the
    // network thread. Empty: no caps, now and later. Services are told of them (Service::set_caps).
    std::function<runtime::LineCaps(WallSeconds)> caps{};
    // With it the node is one of the distributed hash table; the caller lets it meet others
    // (DhtNode::bootstrap).
    std::optional<dht::DhtOptions> dht{};
};

class Node {
  public:
    static Result<std::unique_ptr<Node>> open(NodeOptions options);
    ~Node();  // stops its services and then itself at once; leave them first to part in order
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    const PeerId& id() const;
    runtime::Node environment() const;
    runtime::Clock& clock() const;
    runtime::Disk& disk() const;
    const security::Signer& signer() const;
    const security::Verifier& verifier() const;
    p2p::Host& host() const;    // network thread only
    dht::DhtNode* dht() const;  // network thread only; null: without
    // Makes the node one of the distributed table, unless it is already, and from now on joins it
    // through the peers that it is connected to. Who listens nowhere only asks.
    void join_table() const;
    runtime::LineCaps caps() const;  // in force now; network thread only
    const runtime::Spawn& spawn() const;

    // Makes a service that lives as long as the node, which stops it first.
    template <typename Kind, typename... Arguments>
    Kind& add(Arguments&&... arguments) {
        auto service = std::make_unique<Kind>(std::forward<Arguments>(arguments)...);
        Kind& made = *service;
        keep(std::move(service));
        return made;
    }
    // The roles of all its services; none: an observer's.
    std::vector<membership::Role> roles() const;
    // Tells a service that has just begun which caps are in force. Network thread only.
    void tell_caps(Service& service) const;

    // Runs a task on the network thread and waits for its end.
    template <typename T>
    Result<T> call(std::string name, Task<Result<T>> task) const {
        std::future<Result<T>> future =
            runtime::spawn_future(spawn(), std::move(name), std::move(task));
        return runtime::wait_for_result(future);
    }
    // Runs a plain function there.
    template <typename Work>
    auto run_on_network_thread(Work work) const {
        std::packaged_task<decltype(work())()> task(std::move(work));
        auto future = task.get_future();
        post([&task] { task(); });
        return future.get();
    }

  private:
    struct State;
    explicit Node(std::unique_ptr<State> state);
    void post(std::function<void()> work) const;
    void keep(std::unique_ptr<Service> service);

    std::unique_ptr<State> state_;
};

}  // namespace dedloc::collab
