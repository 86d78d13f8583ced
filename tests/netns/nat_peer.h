// One machine of the NAT lab: a process of this program in a network namespace with one libp2p
// host, told what to do over a Unix socket, one JSON object a line each way.
//
//   NatPeer (here)  starts it, asks it            run_nat_peer (there)  `dedloc-lab nat-peer`
//
//   {"do":"report"}                        addresses, reachability, relays, counters
//   {"do":"dial","address":A}              connects
//   {"do":"know","peer":P,"addresses":[…]}
//   {"do":"call","peer":P,"bytes":N}       one echo: milliseconds, path
//   {"do":"path","peer":P}
//   {"do":"pump","peer":P,"calls":N,"bytes":M}   numbered calls one after another, each until it is
//   {"do":"pumped"}                              answered; how far, longest gap, repeats
//   {"do":"received"}                            distinct numbers that arrived
//   {"do":"stream","peer":P,"megabytes":N,"ramp_s":S}   one message stream: bytes a second, of
//                                                all and of what came after S seconds; lanes
//
// Thread: one; the host has its own in the process. Errors: local_fault, timeout.

#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/runtime/child_process.h"

namespace dedloc::lab {

struct NatPeerCommand {
    std::string socket;
    std::string listen = "/ip4/0.0.0.0/tcp/4001";
    std::string relay = "automatic";
    std::string congestion_control;  // empty: the system's
    std::string log = "warning";
};

// The process. Returns its exit code when the socket is closed.
int run_nat_peer(const NatPeerCommand& command);

class NatPeer {
  public:
    // Begins it; ready() waits until it answers. A program starts slowly on a busy machine, so
    // that several are started first.
    static Result<std::unique_ptr<NatPeer>> start(const std::string& netns,
                                                  const std::string& folder,
                                                  const std::string& name,
                                                  const std::string& log,
                                                  const std::string& congestion_control = {});
    ~NatPeer();
    Ok ready();

    Result<nlohmann::json> ask(const nlohmann::json& question);
    const std::string& id() const { return id_; }
    void kill();

  private:
    NatPeer(runtime::ChildProcess process, std::string path)
        : process_(std::move(process)), path_(std::move(path)) {}
    Ok connect();

    runtime::ChildProcess process_;
    std::string path_;  // of its socket
    int socket_ = -1;
    std::string unread_;
    std::string id_;
};

}  // namespace dedloc::lab
