#include "dedloc/tasks/text_to_image/image_codes.h"

#include <torch/nn.h>

namespace dedloc::tasks {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t vector_width = 32;
constexpr double book_kept = 0.99;    // of the moving averages, a step
constexpr double commitment = 0.25;   // weight of the encoder's distance to its codes
constexpr double least_count = 0.03;  // below, a code begins again …
constexpr double fresh_count = 0.1;   // … with so much weight

nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t stride = 1) {
    return nn::Conv2d(nn::Conv2dOptions(from, to, 3).stride(stride).padding(1));
}

}  // namespace

ImageCodes::ImageCodes(const ImageCodesConfig& config, std::uint64_t seed) : config_(config) {
    torch::manual_seed(seed);
    encoder_ = register_module("encoder", nn::Sequential());
    decoder_ = register_module("decoder", nn::Sequential());
    const std::int64_t wide = 2 * config_.width;
    std::int64_t from = 3;
    for (std::int64_t side = config_.side; side > config_.codes_side; side /= 2) {
        const std::int64_t to = side == config_.side ? config_.width : wide;
        encoder_->push_back(convolution(from, to, 2));
        encoder_->push_back(nn::ReLU());
        from = to;
    }
    encoder_->push_back(convolution(from, wide));
    encoder_->push_back(nn::ReLU());
    encoder_->push_back(nn::Conv2d(nn::Conv2dOptions(wide, vector_width, 1)));
    decoder_->push_back(convolution(vector_width, wide));
    decoder_->push_back(nn::ReLU());
    from = wide;
    for (std::int64_t side = config_.codes_side; side < config_.side; side *= 2) {
        const std::int64_t to = 2 * side == config_.side ? config_.width : wide;
        decoder_->push_back(nn::Upsample(
            nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest)));
        decoder_->push_back(convolution(from, to));
        decoder_->push_back(nn::ReLU());
        from = to;
    }
    decoder_->push_back(convolution(from, 3));
    book_ = register_buffer("book", torch::randn({config_.codes, vector_width}) * 0.1);
    counts_ = register_buffer("counts", torch::zeros({config_.codes}));
    sums_ = register_buffer("sums", torch::zeros_like(book_));
}

torch::Tensor ImageCodes::places(const torch::Tensor& pictures) {
    return encoder_->forward(pictures * 2 - 1);
}

torch::Tensor ImageCodes::nearest(const torch::Tensor& vectors) const {
    const torch::NoGradGuard none;
    const auto distances =
        book_.pow(2).sum(1) - 2 * vectors.detach().matmul(book_.t());  // less |vector|²
    return distances.argmin(1);
}

void ImageCodes::follow(const torch::Tensor& vectors, const torch::Tensor& chosen) {
    const torch::NoGradGuard none;
    const auto now = vectors.detach();
    counts_.mul_(book_kept).add_(torch::bincount(chosen, {}, config_.codes), 1 - book_kept);
    sums_.mul_(book_kept).add_(torch::zeros_like(sums_).index_add_(0, chosen, now), 1 - book_kept);
    // Unused codes begin again at the outputs that are worst off with the codes in use: at others
    // they would split what is one code already, and leave apart what shares one.
    const auto unused = (counts_ < least_count).nonzero().flatten();
    const std::int64_t count = std::min(unused.size(0), now.size(0));
    if (count > 0) {
        const auto distances = (now - book_.index_select(0, chosen)).pow(2).sum(1);
        const auto taken =
            std::get<1>(distances.sort(/*stable=*/true, 0, /*descending=*/true)).slice(0, 0, count);
        sums_.index_copy_(0, unused.slice(0, 0, count), now.index_select(0, taken) * fresh_count);
        counts_.index_fill_(0, unused.slice(0, 0, count), fresh_count);
    }
    book_.copy_(sums_ / counts_.unsqueeze(1).clamp_min(1e-5));
}

torch::Tensor ImageCodes::training_loss(const torch::Tensor& pictures) {
    const auto z = places(pictures);
    const auto vectors = z.permute({0, 2, 3, 1}).reshape({-1, vector_width});
    const auto chosen = nearest(vectors);
    const auto code = book_.index_select(0, chosen)
                          .view({z.size(0), z.size(2), z.size(3), vector_width})
                          .permute({0, 3, 1, 2});
    // The gradient of the code is that of the encoder's output.
    const auto made = torch::sigmoid(decoder_->forward(z + (code - z).detach()));
    const auto loss = (made - pictures).pow(2).mean() + commitment * (z - code).pow(2).mean();
    follow(vectors, chosen);
    return loss;
}

torch::Tensor ImageCodes::encode(const torch::Tensor& pictures) {
    const torch::NoGradGuard none;
    const auto vectors = places(pictures).permute({0, 2, 3, 1}).reshape({-1, vector_width});
    return nearest(vectors).view({pictures.size(0), -1});
}

torch::Tensor ImageCodes::decode(const torch::Tensor& codes) {
    const torch::NoGradGuard none;
    const std::int64_t side = config_.codes_side;
    const auto vectors = book_.index_select(0, codes.flatten())
                             .view({codes.size(0), side, side, vector_width})
                             .permute({0, 3, 1, 2});
    return torch::sigmoid(decoder_->forward(vectors));
}

std::int64_t ImageCodes::codes_in_use() const {
    return (counts_ >= least_count).sum().item<std::int64_t>();
}

}  // namespace dedloc::tasks
