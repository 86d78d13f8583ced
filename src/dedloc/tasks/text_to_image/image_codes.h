// ImageCodes: pictures as a small square of codes and back, a VQ autoencoder. A run trains it
// first; then it is frozen, and the transformer learns codes.
//
// Encoder: a convolution for each halving, then two more; each place takes the nearest of the code
// book's vectors. The code book follows the encoder's outputs as a moving average; a code that
// nobody uses begins again at an output of the present batch.
//
// Source: van den Oord et al. 1711.00937, with its appendix on moving averages.
// Thread: one at a time. Errors: libtorch's exceptions.

#pragma once
#include "dedloc/tasks/text_to_image/text_to_image_config.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::tasks {

class ImageCodes : public torch::nn::Module {
  public:
    explicit ImageCodes(const ImageCodesConfig& config, std::uint64_t seed = 0);

    // pictures [n, 3, side, side] in 0 … 1. Mean squared error and commitment, for the optimizer of
    // the convolutions; the code book has moved when this returns.
    torch::Tensor training_loss(const torch::Tensor& pictures);

    torch::Tensor encode(const torch::Tensor& pictures);  // [n, codes_side²] int64
    torch::Tensor decode(const torch::Tensor& codes);     // [n, 3, side, side] in 0 … 1
    // How many codes the moving average has in use.
    std::int64_t codes_in_use() const;

    const ImageCodesConfig& config() const { return config_; }

  private:
    torch::Tensor places(const torch::Tensor& pictures);  // [n, vector, codes_side, codes_side]
    torch::Tensor nearest(const torch::Tensor& vectors) const;  // [m, vector] to [m]
    void follow(const torch::Tensor& vectors, const torch::Tensor& chosen);

    ImageCodesConfig config_;
    torch::nn::Sequential encoder_{nullptr};
    torch::nn::Sequential decoder_{nullptr};
    torch::Tensor book_;    // [codes, vector]
    torch::Tensor counts_;  // moving averages
    torch::Tensor sums_;
};

}  // namespace dedloc::tasks
