// TokenNoise: what a training sample's model reads instead of what is there, so that it learns to
// look at captions and does not learn pictures by heart.
//
// A share of the samples have no caption: the model learns to draw without one, with which guidance
// compares (sampler.h). A share of the codes are read as random others: which picture it is, the
// codes before tell less well, and drawing goes on from its own errors.
//
// A pure function of (run seed, peer, sample number): whoever computes a sample again reads the
// same, in micro-batches of any size. Thread: any.

#pragma once
#include "dedloc/tasks/sample_order.h"
#include "dedloc/tasks/text_to_image/text_to_image_config.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::tasks {

class TokenNoise {
  public:
    explicit TokenNoise(const TextToImageConfig& sizes) : sizes_(sizes) {}

    // captions [n, text_length] and codes [n, image_length], int64 on the CPU, of the samples with
    // these numbers; both are changed.
    void spoil(const SampleOrder& order,
               collab::CounterRange samples,
               torch::Tensor& captions,
               torch::Tensor& codes) const;

  private:
    TextToImageConfig sizes_;
};

}  // namespace dedloc::tasks
