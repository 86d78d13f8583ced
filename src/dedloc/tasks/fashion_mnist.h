// Fashion-MNIST from its four IDX files (gzip): 60,000 + 10,000 grey images of 28 × 28, 10 classes.
//
// Source: yann.lecun.com/exdb/mnist (IDX format); Debian package dataset-fashion-mnist.
// Cost: below 1 s, 55 MB. Thread: any. Blocks.
// Errors: not_found    no such files here; says which package brings them
//         bad_input    a file that is not what it should be: magic, counts, size, a label ≥ 10

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::tasks {

inline constexpr const char* fashion_mnist_directory = "/usr/share/datasets/fashion-mnist";
inline constexpr std::uint32_t image_side = 28;
inline constexpr std::uint32_t image_pixels = image_side * image_side;
inline constexpr std::uint32_t classes_count = 10;
// Bounds what a foreign file can make us allocate: 16 times the real training set.
inline constexpr std::uint32_t images_max = 960'000;

struct LabelledImages {
    std::uint32_t count = 0;
    std::vector<std::uint8_t> pixels;  // count × image_pixels, row by row
    std::vector<std::uint8_t> labels;  // count, each < classes_count
};

// IDX: magic 2051, count, rows, columns as u32 BE, then pixels; magic 2049, count, then labels.
// Plain and gzip files are both read.
Result<LabelledImages> load_idx(const std::string& images_path, const std::string& labels_path);

struct FashionMnist {
    LabelledImages train;
    LabelledImages test;
};

Result<FashionMnist> load_fashion_mnist(const std::string& directory);

}  // namespace dedloc::tasks
