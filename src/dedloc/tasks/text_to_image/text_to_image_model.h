// The transformer of "Training Transformers Together": caption tokens, then image codes, each
// predicted from those before it.
//
// Layers share weights in a cycle of four, but for their norms and scales. Attention goes to the
// whole caption and, in the image, along the row (layers 0, 2, 3 of the cycle) or the column (1)
// before; in the last layer to a square above and to the left. Rotary positions on queries, keys
// and values, token shift before both parts of a layer, GEGLU, LayerScale, pre-norm, input and
// output embedding in one. The same function as dalle-pytorch 1.6.6 with these options
// (tests/oracles).
//
// Attention patterns are masks of one dense attention: (text + image)² per head and layer.
//
// Source: arXiv 2207.03481 and its repository's task.py; Su et al. 2104.09864 (rotary); Shazeer
//         2002.05202 (GEGLU); Touvron et al. 2103.17239 (LayerScale).
// Thread: one at a time. Errors: libtorch's exceptions (shapes, memory).

#pragma once
#include <vector>

#include "dedloc/tasks/text_to_image/reversible.h"
#include "dedloc/tasks/text_to_image/text_to_image_config.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::tasks {

// A cache keeps what each layer computed of the positions so far: a code then costs one position.
struct TextToImageCache {
    std::vector<torch::Tensor> keys;  // [rows, heads, positions, head_width]
    std::vector<torch::Tensor> values;
    std::vector<torch::Tensor> attention_inputs;  // unshifted: [rows, positions, width]
    std::vector<torch::Tensor> feed_inputs;
    std::int64_t length = 0;  // positions
};

class TextToImageModel : public torch::nn::Module {
  public:
    explicit TextToImageModel(const TextToImageConfig& config, std::uint64_t seed = 0);

    struct Losses {  // [samples]: means over positions, in nats a token
        torch::Tensor text;
        torch::Tensor image;
        torch::Tensor joined() const { return (text + 7 * image) / 8; }
    };
    // captions [samples, text_length], 0 is padding; codes [samples, image_length]. int64.
    // `read`: what the model reads in place of the codes that it is to predict; undefined: these.
    Losses losses(const torch::Tensor& captions,
                  const torch::Tensor& codes,
                  const torch::Tensor& read = {});

    // [samples, image_vocabulary] of the code behind `codes` [samples, fewer than image_length].
    // `cache`: began empty and has read these captions and the first of these codes, or nothing;
    // only what it has not read is computed. null: all is.
    torch::Tensor next_code_logits(const torch::Tensor& captions,
                                   const torch::Tensor& codes,
                                   TextToImageCache* cache = nullptr);
    TextToImageCache empty_cache(std::int64_t rows) const;

    const TextToImageConfig& config() const { return config_; }

  private:
    struct Weights {  // a set that layers share
        torch::Tensor qkv;
        torch::Tensor out;
        torch::Tensor out_bias;
        torch::Tensor up;
        torch::Tensor up_bias;
        torch::Tensor down;
        torch::Tensor down_bias;
    };
    struct PerLayer {  // of one half of a layer
        torch::Tensor norm;
        torch::Tensor norm_bias;
        torch::Tensor scale;
    };
    void register_weights(std::uint64_t seed);
    void make_positions();
    void make_masks();
    void follow_device();
    std::vector<ReversibleBlock> make_blocks(TextToImageCache* cache) const;
    // Hidden states [samples, positions, width] of <start>, the caption and these codes; with a
    // cache of those that it has not read.
    torch::Tensor hidden(const torch::Tensor& captions,
                         const torch::Tensor& codes,
                         TextToImageCache* cache = nullptr);
    torch::Tensor run_forward(const torch::Tensor& x,
                              const std::vector<ReversibleBlock>& blocks) const;
    torch::Tensor padded(const torch::Tensor& captions) const;
    torch::Tensor shifted(const torch::Tensor& x) const;
    torch::Tensor shifted_code(const torch::Tensor& x, std::int64_t position) const;
    torch::Tensor shifted_behind(const torch::Tensor& x,
                                 torch::Tensor* inputs,
                                 std::int64_t length) const;
    torch::Tensor normed(const PerLayer& part, const torch::Tensor& x) const;
    torch::Tensor rotated(const torch::Tensor& x, std::int64_t first) const;
    torch::Tensor attend(std::int64_t layer, const torch::Tensor& x, TextToImageCache* cache) const;
    torch::Tensor feed(std::int64_t layer, const torch::Tensor& x, TextToImageCache* cache) const;
    // Logits of tokens [first, first + count) for these positions.
    torch::Tensor logits(const torch::Tensor& hidden, std::int64_t first, std::int64_t count) const;

    TextToImageConfig config_;
    std::vector<Weights> sets_;
    std::vector<PerLayer> attention_parts_;
    std::vector<PerLayer> feed_parts_;
    PerLayer last_;  // norm before the logits; no scale
    torch::Tensor embedding_;
    torch::Tensor embedding_bias_;
    // Constants: no buffers, which would be averaged and hashed. They follow the parameters.
    torch::Tensor cosines_;  // [positions, turned width]
    torch::Tensor sines_;
    std::vector<torch::Tensor> masks_;  // row, column, square: [positions, positions], added
    std::vector<ReversibleBlock> blocks_;
};

}  // namespace dedloc::tasks
