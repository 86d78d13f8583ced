// MixtureCalls: a layer of a model whose experts live on other machines needs this of a network;
// it blocks. node_mixture.h has the real one.
//
// Thread: one at a time, never the network thread.

#pragma once
#include <utility>
#include <vector>

#include "dedloc/experts/mixture.h"

namespace dedloc::train {

class MixtureCalls {
  public:
    using Passed = experts::MixtureClient::Passed;
    using Gradients = experts::MixtureClient::Gradients;

    virtual ~MixtureCalls() = default;
    virtual const experts::ExpertGrid& grid() const = 0;
    virtual Result<Passed> forward(experts::Tensor inputs,
                                   std::vector<experts::GridScores> scores) = 0;
    virtual Result<Gradients> backward(Passed passed, experts::Tensor output_gradients) = 0;
};

// Where there is no run (`dedloc check`): experts that add nothing, and no row is lost.
class NoExperts final : public MixtureCalls {
  public:
    explicit NoExperts(experts::ExpertGrid grid) : grid_(std::move(grid)) {}
    const experts::ExpertGrid& grid() const override { return grid_; }
    Result<Passed> forward(experts::Tensor inputs,
                           std::vector<experts::GridScores> scores) override;
    Result<Gradients> backward(Passed passed, experts::Tensor output_gradients) override;

  private:
    experts::ExpertGrid grid_;
};

}  // namespace dedloc::train
