// SwAV's loss: each crop predicts to which prototypes the other crops of its picture were assigned,
// with assignments that spread a batch equally over the prototypes (Sinkhorn).
//
// The loss couples the samples of a batch, so the batch is the unit that can be recomputed: a run's
// batch.micro must be a number. Sums of the assignment are in double precision.
//
// Source: Caron et al. 2006.09882; the operations are those of vissl 0.1.6 (swav_loss.py), to which
//         tests/oracles/swav compares. Thread: any. Errors: libtorch's exceptions.

#pragma once
#include <vector>

#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::tasks {

struct SwavLossOptions {
    std::int64_t crops = 8;            // of a picture, all resolutions
    std::int64_t assigning_crops = 2;  // the first ones, which are large
    double temperature = 0.1;
    double epsilon = 0.03;
    int iterations = 3;  // of Sinkhorn
};

// scores [samples, prototypes] to assignments of the same shape, whose rows have the sum 1.
torch::Tensor sinkhorn(const torch::Tensor& scores, const SwavLossOptions& options);

// scores [crops * samples, prototypes], crop by crop. `queues`: nothing, or for each assigning crop
// scores of earlier embeddings [queue, prototypes], which only take part in the assignment.
// Returns the mean over the samples.
torch::Tensor swav_loss(const torch::Tensor& scores,
                        const SwavLossOptions& options,
                        const std::vector<torch::Tensor>& queues = {});

// The embeddings of a peer's last batches. A history of its own: it is emptied when the peer loads
// another state, and runs that recompute each other's gradients go without.
class SwavQueue {
  public:
    // length: of each assigning crop; rounded down to whole batches when the first one comes.
    SwavQueue(std::int64_t length, std::int64_t assigning_crops)
        : length_(length), embeddings_(static_cast<std::size_t>(assigning_crops)) {}

    // embeddings [crops * samples, width] of the batch that was just computed.
    void push(const torch::Tensor& embeddings, std::int64_t crops);
    // Scores at the present prototypes; nothing until it is full.
    std::vector<torch::Tensor> scores(const torch::Tensor& prototypes) const;
    bool is_full() const { return full_; }
    void clear();

  private:
    std::int64_t length_;
    std::vector<torch::Tensor> embeddings_;  // newest first
    bool full_ = false;
};

}  // namespace dedloc::tasks
