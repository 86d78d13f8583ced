// How good features are that were learnt without labels: by the nearest neighbours of each picture
// among others, and by a linear layer on them (a linear probe).
//
// Both know the labels of one half of the held-out pictures (the bank) and are asked for those of
// the other half (the queries). No picture of either was trained on.
//
// Neighbours: cosine, the k nearest vote with weight exp(similarity / 0.07).
// Probe: softmax regression on features of mean 0 and variance 1, Adam on the whole bank.
//
// Source: Wu et al. 1805.01978 (neighbours); Caron et al. 2006.09882. Thread: any. Cost: a product
// of queries × bank × width; the probe 200 products of bank × width × classes. Errors: libtorch's
// exceptions.

#pragma once
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::tasks {

struct LabelledFeatures {
    torch::Tensor features;  // [n, width]
    torch::Tensor labels;    // [n] int64
};

struct EvaluationHalves {
    LabelledFeatures bank;
    LabelledFeatures queries;
};

// Fractions of the queries.
double neighbours_accuracy(const EvaluationHalves& halves,
                           std::int64_t neighbours,
                           std::int64_t classes);
double linear_accuracy(const EvaluationHalves& halves, std::int64_t classes);

}  // namespace dedloc::tasks
