#include "dedloc/tasks/text_to_image/text_to_image_model.h"

#include <cmath>
#include <numbers>
#include <torch/nn.h>

#include "dedloc/torch_bridge/dense.h"

namespace dedloc::tasks {
namespace {

namespace nn = torch::nn;
using torch::indexing::Slice;

constexpr int row_mask = 0;
constexpr int column_mask = 1;
constexpr int square_mask = 2;
constexpr double far_away = 8192;  // where the image stands for positions of text
constexpr double outside = -10;    // where text stands for positions of the image
constexpr double theta = 10'000;   // rotary
constexpr double pixel_most = 10;  // the fastest turn over the image's width, in half circles / 2

// LayerScale's start, by the number of the layer from 1.
double scale_start(std::int64_t number) {
    if (number <= 18) return 0.1;
    return number <= 24 ? 1e-5 : 1e-6;
}

// angle of position p at frequency f, each twice: [positions, 2 · frequencies].
torch::Tensor angles(const torch::Tensor& positions, const torch::Tensor& frequencies) {
    return torch::outer(positions, frequencies).repeat_interleave(2, 1);
}

// (x1, x2) to (-x2, x1), pair by pair.
torch::Tensor quarter_turned(const torch::Tensor& x) {
    const auto pairs = x.unflatten(-1, {x.size(-1) / 2, 2});
    return torch::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

}  // namespace

TextToImageModel::TextToImageModel(const TextToImageConfig& config, std::uint64_t seed)
    : config_(config) {
    register_weights(seed);
    make_positions();
    make_masks();
    blocks_ = make_blocks(nullptr);
}

std::vector<ReversibleBlock> TextToImageModel::make_blocks(TextToImageCache* cache) const {
    std::vector<ReversibleBlock> blocks;
    for (std::int64_t layer = 0; layer < config_.layers; ++layer)
        blocks.push_back(
            {[this, layer, cache](const torch::Tensor& x) { return attend(layer, x, cache); },
             [this, layer, cache](const torch::Tensor& x) { return feed(layer, x, cache); }});
    return blocks;
}

// libtorch's own starts of linear layers: uniform within one over the root of the inputs.
void TextToImageModel::register_weights(std::uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    const auto uniform = [&](const std::string& name, at::IntArrayRef shape, std::int64_t inputs) {
        const double bound = 1 / std::sqrt(static_cast<double>(inputs));
        const auto values = torch::empty(shape).uniform_(-bound, bound, generator);
        return register_parameter(name, values);
    };
    const auto filled = [&](const std::string& name, double value) {
        return register_parameter(name, torch::full({config_.width}, value));
    };
    const std::int64_t width = config_.width;
    const std::int64_t inner = config_.heads * config_.head_width;
    for (std::int64_t i = 0; i < config_.weight_sets(); ++i) {
        const std::string at = fmt::format("shared_{}_", i);
        Weights set;
        set.qkv = uniform(at + "qkv", {3 * inner, width}, width);
        set.out = uniform(at + "out", {width, inner}, inner);
        set.out_bias = uniform(at + "out_bias", {width}, inner);
        set.up = uniform(at + "up", {8 * width, width}, width);
        set.up_bias = uniform(at + "up_bias", {8 * width}, width);
        set.down = uniform(at + "down", {width, 4 * width}, 4 * width);
        set.down_bias = uniform(at + "down_bias", {width}, 4 * width);
        sets_.push_back(set);
    }
    for (std::int64_t i = 0; i < config_.layers; ++i)
        for (auto* parts : {&attention_parts_, &feed_parts_}) {
            const std::string at =
                fmt::format("layer_{}_{}_", i, parts == &feed_parts_ ? "feed" : "attention");
            PerLayer part;
            part.norm = filled(at + "norm", 1);
            part.norm_bias = filled(at + "norm_bias", 0);
            part.scale = filled(at + "scale", scale_start(i + 1));
            parts->push_back(part);
        }
    last_.norm = filled("norm", 1);
    last_.norm_bias = filled("norm_bias", 0);
    embedding_ = uniform("embedding", {config_.tokens(), width}, width);
    embedding_bias_ = uniform("embedding_bias", {config_.tokens()}, width);
}

void TextToImageModel::make_positions() {
    const std::int64_t turned = config_.head_width / 3;
    const std::int64_t text = config_.text_length + 1;
    const std::int64_t image = config_.image_length();
    const auto exponents = torch::arange(0, turned, 2).slice(0, 0, turned / 2).to(torch::kFloat32);
    const auto of_text = 1 / torch::pow(theta, exponents / static_cast<double>(turned));
    const auto of_image = torch::linspace(1., pixel_most / 2, turned / 2) * std::numbers::pi;
    const auto in_text =
        torch::cat({torch::arange(text).to(torch::kFloat32), torch::full({image}, far_away)});
    const auto line = torch::linspace(-1, 1, config_.image_side);
    const auto rows =
        torch::cat({torch::full({text}, outside), line.repeat_interleave(config_.image_side)});
    const auto columns =
        torch::cat({torch::full({text}, outside), line.repeat({config_.image_side})});
    const auto all = torch::cat(
        {angles(in_text, of_text), angles(rows, of_image), angles(columns, of_image)}, 1);
    cosines_ = all.cos();
    sines_ = all.sin();
}

void TextToImageModel::make_masks() {
    const std::int64_t text = config_.text_length + 1;
    const std::int64_t side = config_.image_side;
    const std::int64_t all = text + config_.image_length();
    const std::int64_t reach = config_.convolution_side - 1;
    for (const int kind : {row_mask, column_mask, square_mask}) {
        auto mask = torch::full({all, all}, -std::numeric_limits<float>::infinity());
        auto at = mask.accessor<float, 2>();
        for (std::int64_t i = 0; i < all; ++i) {
            for (std::int64_t j = 0; j < text && (i >= text || j <= i); ++j) at[i][j] = 0;
            for (std::int64_t j = text; j <= i; ++j) {
                const std::int64_t up = (i - text) / side - (j - text) / side;
                const std::int64_t left = (i - text) % side - (j - text) % side;
                const bool seen = kind == row_mask      ? up == 0
                                  : kind == column_mask ? left == 0
                                                        : left >= 0 && left <= reach && up <= reach;
                if (seen) at[i][j] = 0;
            }
        }
        masks_.push_back(mask);
    }
}

void TextToImageModel::follow_device() {
    const torch::Device device = embedding_.device();
    if (cosines_.device() == device) return;
    for (torch::Tensor* constant : {&cosines_, &sines_, &masks_[0], &masks_[1], &masks_[2]})
        *constant = constant->to(device);
}

torch::Tensor TextToImageModel::padded(const torch::Tensor& captions) const {
    const auto pads =
        torch::arange(config_.text_length, captions.options()) + config_.text_vocabulary;
    const auto tokens = torch::where(captions == 0, pads, captions);
    return nn::functional::pad(tokens, nn::functional::PadFuncOptions({1, 0}));  // <start> is 0
}

// Half of a text token's numbers come from the one before; a quarter of an image token's from the
// one above, a quarter from its left. At the edges they are zeros.
torch::Tensor TextToImageModel::shifted(const torch::Tensor& x) const {
    const std::int64_t text = config_.text_length + 1;
    const std::int64_t side = config_.image_side;
    const std::int64_t columns = x.size(1);
    namespace F = nn::functional;
    const auto words = x.slice(1, 0, std::min(text, columns)).chunk(2, -1);
    const auto before = F::pad(words[0], F::PadFuncOptions({0, 0, 1, -1}));
    const auto shifted_words = torch::cat({before, words[1]}, -1);
    if (columns <= text) return columns < text ? x : shifted_words;
    const std::int64_t missing = config_.image_length() - (columns - text);
    const auto image = F::pad(x.slice(1, text), F::PadFuncOptions({0, 0, 0, missing}))
                           .unflatten(1, {side, side})
                           .chunk(4, -1);
    const auto above = F::pad(image[0], F::PadFuncOptions({0, 0, 0, 0, 1, -1}));
    const auto left = F::pad(image[1], F::PadFuncOptions({0, 0, 1, -1}));
    const auto codes =
        torch::cat({above, left, image[2], image[3]}, -1).flatten(1, 2).slice(1, 0, columns - text);
    return torch::cat({shifted_words, codes}, 1);
}

// The same of the code at this position alone; x has all positions before it.
torch::Tensor TextToImageModel::shifted_code(const torch::Tensor& x, std::int64_t position) const {
    const std::int64_t code = position - config_.text_length - 1;
    const std::int64_t side = config_.image_side;
    const auto quarters = x.select(1, position).chunk(4, -1);
    const auto none = torch::zeros_like(quarters[0]);
    const auto above = code >= side ? x.select(1, position - side).chunk(4, -1)[0] : none;
    const auto left = code % side > 0 ? x.select(1, position - 1).chunk(4, -1)[1] : none;
    return torch::cat({above, left, quarters[2], quarters[3]}, -1).unsqueeze(1);
}

// shifted() of x, which stands behind the first `length` positions of `inputs`, and joins them;
// null: behind none.
torch::Tensor TextToImageModel::shifted_behind(const torch::Tensor& x,
                                               torch::Tensor* inputs,
                                               std::int64_t length) const {
    if (inputs == nullptr) return shifted(x);
    const std::int64_t all = length + x.size(1);
    inputs->narrow(1, length, x.size(1)).copy_(x);
    if (length <= config_.text_length) return shifted(inputs->narrow(1, 0, all)).slice(1, length);
    std::vector<torch::Tensor> codes;
    for (std::int64_t at = length; at < all; ++at) codes.push_back(shifted_code(*inputs, at));
    return torch::cat(codes, 1);
}

torch::Tensor TextToImageModel::normed(const PerLayer& part, const torch::Tensor& x) const {
    return torch::layer_norm(x, {config_.width}, part.norm, part.norm_bias);
}

// [..., positions, head_width]: the first numbers of each turn with the position, which begins at
// `first`; the rest stays.
torch::Tensor TextToImageModel::rotated(const torch::Tensor& x, std::int64_t first) const {
    const std::int64_t turned = cosines_.size(1);
    const std::int64_t end = first + x.size(-2);
    const auto head = x.slice(-1, 0, turned);
    const auto result =
        head * cosines_.slice(0, first, end) + quarter_turned(head) * sines_.slice(0, first, end);
    return torch::cat({result, x.slice(-1, turned)}, -1);
}

torch::Tensor TextToImageModel::attend(std::int64_t layer,
                                       const torch::Tensor& x,
                                       TextToImageCache* cache) const {
    const auto index = static_cast<std::size_t>(layer);
    const Weights& set = sets_[static_cast<std::size_t>(config_.weight_set(layer))];
    const PerLayer& part = attention_parts_[index];
    const std::int64_t first = cache != nullptr ? cache->length : 0;
    const std::int64_t end = first + x.size(1);
    int kind = layer % 4 == 1 ? column_mask : row_mask;
    if (config_.last_layer_apart && layer == config_.layers - 1) kind = square_mask;
    const auto mask =
        masks_[static_cast<std::size_t>(kind)].index({Slice(first, end), Slice(0, end)});
    const auto neighbours = shifted_behind(
        normed(part, x), cache != nullptr ? &cache->attention_inputs[index] : nullptr, first);
    const auto qkv = torch_bridge::dense(neighbours, set.qkv, {}).chunk(3, -1);
    torch::Tensor heads[3];
    for (std::size_t i = 0; i < 3; ++i)
        heads[i] = rotated(
            qkv[i].unflatten(-1, {config_.heads, config_.head_width}).transpose(1, 2).contiguous(),
            first);
    if (cache != nullptr) {
        cache->keys[index].narrow(2, first, end - first).copy_(heads[1]);
        cache->values[index].narrow(2, first, end - first).copy_(heads[2]);
        heads[1] = cache->keys[index].narrow(2, 0, end);
        heads[2] = cache->values[index].narrow(2, 0, end);
    }
    const double scale = 1 / std::sqrt(static_cast<double>(config_.head_width));
    const auto attended = torch_bridge::attention(heads[0], heads[1], heads[2], mask, scale, {});
    const auto joined = attended.transpose(1, 2).flatten(2);
    return torch_bridge::dense(joined, set.out, set.out_bias) * part.scale;
}

torch::Tensor TextToImageModel::feed(std::int64_t layer,
                                     const torch::Tensor& x,
                                     TextToImageCache* cache) const {
    const auto index = static_cast<std::size_t>(layer);
    const Weights& set = sets_[static_cast<std::size_t>(config_.weight_set(layer))];
    const PerLayer& part = feed_parts_[index];
    const auto neighbours = shifted_behind(normed(part, x),
                                           cache != nullptr ? &cache->feed_inputs[index] : nullptr,
                                           cache != nullptr ? cache->length : 0);
    const auto up = torch_bridge::dense(neighbours, set.up, set.up_bias).chunk(2, -1);
    const auto gated = up[0] * torch::gelu(up[1]);
    return torch_bridge::dense(gated, set.down, set.down_bias) * part.scale;
}

torch::Tensor TextToImageModel::hidden(const torch::Tensor& captions,
                                       const torch::Tensor& codes,
                                       TextToImageCache* cache) {
    follow_device();
    const auto tokens = torch::cat({padded(captions), codes + config_.text_tokens()}, 1);
    // The last code of a whole image predicts nothing.
    const std::int64_t first = cache != nullptr ? cache->length : 0;
    const auto x = torch::embedding(
        embedding_, tokens.slice(1, first, std::min(tokens.size(1), config_.sequence())));
    if (cache == nullptr && config_.reversible && torch::GradMode::is_enabled())
        return run_reversible(x, blocks_);
    const auto y = run_forward(x, cache != nullptr ? make_blocks(cache) : blocks_);
    if (cache != nullptr) cache->length += x.size(1);
    return y;
}

torch::Tensor TextToImageModel::run_forward(const torch::Tensor& x,
                                            const std::vector<ReversibleBlock>& blocks) const {
    if (config_.reversible) return run_remembered(x, blocks);
    torch::Tensor y = x;
    for (const ReversibleBlock& block : blocks) {
        y = y + block.f(y);
        y = y + block.g(y);
    }
    return y;
}

torch::Tensor TextToImageModel::logits(const torch::Tensor& hidden,
                                       std::int64_t first,
                                       std::int64_t count) const {
    return torch_bridge::dense(normed(last_, hidden),
                               embedding_.slice(0, first, first + count),
                               embedding_bias_.slice(0, first, first + count));
}

TextToImageModel::Losses TextToImageModel::losses(const torch::Tensor& captions,
                                                  const torch::Tensor& codes,
                                                  const torch::Tensor& read) {
    const auto y = hidden(captions, read.defined() ? read : codes);
    const std::int64_t text = config_.text_length;
    const auto of = [&](const torch::Tensor& scores, const torch::Tensor& wanted) {
        const auto likely = torch::log_softmax(scores.to(torch::kFloat32), -1);
        return -likely.gather(-1, wanted.unsqueeze(-1)).squeeze(-1).mean(1);
    };
    return {of(logits(y.slice(1, 0, text), 0, config_.text_tokens()), padded(captions).slice(1, 1)),
            of(logits(y.slice(1, text), config_.text_tokens(), config_.image_vocabulary), codes)};
}

TextToImageCache TextToImageModel::empty_cache(std::int64_t rows) const {
    TextToImageCache cache;
    const auto empty = [&](at::IntArrayRef shape) {
        return torch::empty(shape, embedding_.options().requires_grad(false));
    };
    const std::int64_t positions = config_.sequence();
    for (std::int64_t i = 0; i < config_.layers; ++i) {
        for (auto* of_heads : {&cache.keys, &cache.values})
            of_heads->push_back(empty({rows, config_.heads, positions, config_.head_width}));
        for (auto* inputs : {&cache.attention_inputs, &cache.feed_inputs})
            inputs->push_back(empty({rows, positions, config_.width}));
    }
    return cache;
}

torch::Tensor TextToImageModel::next_code_logits(const torch::Tensor& captions,
                                                 const torch::Tensor& codes,
                                                 TextToImageCache* cache) {
    const torch::NoGradGuard none;
    const auto y = hidden(captions, codes.to(captions.device()), cache);
    return logits(y.select(1, y.size(1) - 1), config_.text_tokens(), config_.image_vocabulary);
}

}  // namespace dedloc::tasks
