// NodeMixture: the calls of a RemoteMixture over a node's connections and table.
//
//   node.join_table();                                   // once
//   auto calls = std::make_shared<NodeMixture>(node, options);
//   RemoteMixture layer(width, calls);
//
// A forward pass that no expert answers is tried again for found_timeout: servers may still be
// starting, or keepers taking over. Then it is lost, and the next one is tried; where nobody has
// answered for MixtureOptions::nobody_max, from the first pass on, passes fail.
//
// Thread: forward and backward: one thread, never the network thread; counts: any.
// Lifetime: the node outlives it. Errors: cancelled: the node stops; timeout:
// nobody serves the experts.

#pragma once
#include <memory>

#include "dedloc/collab/node.h"
#include "dedloc/train/mixture_calls.h"

namespace dedloc::train {

class NodeMixture final : public MixtureCalls {
  public:
    static constexpr Duration found_timeout = std::chrono::seconds(30);

    NodeMixture(const collab::Node& node, experts::MixtureOptions options);
    ~NodeMixture() override;

    const experts::ExpertGrid& grid() const override { return grid_; }
    Result<Passed> forward(experts::Tensor inputs,
                           std::vector<experts::GridScores> scores) override;
    Result<Gradients> backward(Passed passed, experts::Tensor output_gradients) override;
    experts::MixtureCounts counts() const;

  private:
    struct Client;  // lives on the network thread
    const collab::Node& node_;
    experts::ExpertGrid grid_;
    std::unique_ptr<Client> client_;
};

}  // namespace dedloc::train
