// Sizes of a text-to-image transformer and of its image codes. No libtorch. Thread: any; pure.

#pragma once
#include <cstdint>
#include <string_view>

#include "dedloc/base/result.h"
#include "dedloc/run/field_rules.h"

namespace dedloc::tasks {

// The keys of [text_to_image], and sizes that follow from [pictures]. Defaults are those of
// "Training Transformers Together".
struct TextToImageConfig {
    std::int64_t width = 1024;
    std::int64_t layers = 64;
    std::int64_t heads = 16;
    std::int64_t head_width = 64;
    std::int64_t text_vocabulary =
        32100;  // the key `words`; 0 is padding; without the pads of each position
    std::int64_t text_length = 256;
    std::int64_t image_vocabulary = 8192;  // [pictures]
    std::int64_t image_side = 32;          // codes; [pictures]
    std::int64_t shared_layers = 4;        // layer i has the weights of layer i mod 4 …
    bool last_layer_apart = true;  // … but for the last, which has its own and a convolution's
    std::int64_t convolution_side = 5;  // attention of the last layer; odd
    bool reversible = true;
    // Training: shares of samples without their caption, and of codes that are read as others.
    double caption_drop = 0;
    double code_noise = 0;
    double guidance = 1;  // of drawing (sampler.h)

    std::int64_t image_length() const { return image_side * image_side; }
    // Every position of the text has a padding token of its own.
    std::int64_t text_tokens() const { return text_vocabulary + text_length; }
    std::int64_t tokens() const { return text_tokens() + image_vocabulary; }
    // The last token of the image would predict nothing.
    std::int64_t sequence() const { return text_length + image_length(); }

    // How many sets of weights the layers have, and that of a layer.
    std::int64_t weight_sets() const;
    std::int64_t weight_set(std::int64_t layer) const;

    std::int64_t parameters_count() const;
    // The same with weights of its own for every layer.
    std::int64_t unshared_parameters_count() const;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Numbers;
        constexpr std::uint64_t size_max = 1u << 16;
        visit("width", self.width, Integers{4, size_max});
        visit("layers", self.layers, Integers{1, 1024});
        visit("heads", self.heads, Integers{1, 1024});
        visit("head_width", self.head_width, Integers{12, 1024});
        visit("shared_layers",
              self.shared_layers,
              Integers{1, 1024},
              "layers with weights of their own; the others repeat them in a cycle, but for the "
              "last");
        visit("convolution_side",
              self.convolution_side,
              Integers{1, 63},
              "the last layer sees a square of codes");
        visit("reversible",
              self.reversible,
              std::string_view("activations of one layer are kept, the others computed again on "
                               "the way back"));
        visit("words",
              self.text_vocabulary,
              Integers{3, 1u << 20},
              "of the vocabulary: the most frequent of the training captions");
        visit("text_length", self.text_length, Integers{1, 4096}, "words of a caption at most");
        visit("caption_drop",
              self.caption_drop,
              Numbers{0, 0.9},
              "share of the samples whose caption is kept from the model; guidance needs some");
        visit("code_noise",
              self.code_noise,
              Numbers{0, 0.9},
              "share of the codes before that are read as random ones: the caption has to tell");
        visit("guidance",
              self.guidance,
              Numbers{0, 100},
              "of drawing, how far the caption pushes a code from what it would be without; 1: not "
              "at all");
    }
};

// bad_input: sizes that make no model, and which.
Ok check(const TextToImageConfig& config);

// bad_input: the model has not learnt what this guidance needs.
Ok check_guidance(const TextToImageConfig& config, double guidance);

// Pictures as a small square of codes (image_codes.h).
struct ImageCodesConfig {
    std::int64_t side = 16;       // of a picture, in pixels
    std::int64_t codes_side = 4;  // of its square of codes
    std::int64_t codes = 128;
    std::int64_t width = 48;  // channels; twice as many where it is small

    std::int64_t length() const { return codes_side * codes_side; }
};

// bad_input: a side that is no power of two times the codes' side, and the like.
Ok check(const ImageCodesConfig& config);

}  // namespace dedloc::tasks
