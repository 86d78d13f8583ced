// ExpertService: a node that serves experts of a run: its part of the table, a device thread of its
// own, and an experts::ExpertHost on both.
//
//   node.join_table();
//   auto& service = node.add<ExpertService>(node, factory, options, listener);
//   service.start();
//   ... service.report() ...
//   service.leave(30s);              // keepers take over
//
// Thread: the owner's, never the network thread; the listener is called on the network thread.

#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/collab/node.h"
#include "dedloc/experts/expert_host.h"

namespace dedloc::collab {

struct ExpertReport {
    std::vector<std::string> serves;  // names
    std::size_t keeps = 0;            // copies of others' experts
    std::uint64_t bytes = 0;          // of what is served, in memory
    double wait_s = 0;                // of a call that came now
    experts::BatcherCounts calls;
    experts::ServerCounts requests;
    experts::HostCounts host;
    experts::GridSurvey grid;       // the newest
    double clock_difference_s = 0;  // the others' minus ours
    std::map<PeerId, experts::MemberUpdates> members;
};

class ExpertService final : public Service {
  public:
    ExpertService(const Node& node,
                  experts::ExpertFactory factory,
                  experts::HostOptions options,
                  experts::HostListener listener = {});
    ~ExpertService() override;

    void start();
    // Hands every expert to a keeper, and stops.
    void leave(Duration grace_period);
    ExpertReport report() const;

    membership::Role role() const override { return membership::Role::expert_server; }
    Task<void> stop() override;

  private:
    const Node& node_;
    std::unique_ptr<runtime::Workers>
        device_;  // one thread, not the pool's: rounds go on beside it
    std::unique_ptr<experts::ExpertHost> host_;
};

}  // namespace dedloc::collab
