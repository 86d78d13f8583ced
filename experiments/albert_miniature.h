// The ALBERT miniature of the lab's experiments, as a run file: 4 layers of 128 on the King James
// Bible, LAMB with a warm-up of 20 steps.

#pragma once
#include <string>
#include <string_view>

namespace dedloc::lab {

// `more`: further sections, [averaging] among them.
inline std::string albert_miniature(std::string_view name, std::string_view more) {
    constexpr std::string_view miniature = R"(
[task]
kind = "albert"
model = "albert"
data = "kjv"
[albert]
vocabulary = 4096
embedding = 64
hidden = 128
layers = 4
heads = 4
feed_forward = 512
positions = 64
classifier_dropout = 0.0
[text]
tokenizer = "vocabulary=4096"
length = 64
held_out_samples = 192
window_samples = 1024
[optimizer]
kind = "lamb"
weight_decay = 0.01
epsilon = 1e-6
[schedule]
peak = 0.02
warmup_steps = 20
[evaluate]
every = 0
)";
    return "name = \"" + std::string(name) + "\"\n" + std::string(miniature) + std::string(more);
}

}  // namespace dedloc::lab
