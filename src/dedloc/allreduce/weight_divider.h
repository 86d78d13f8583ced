// WeightDivider: divides a part's sums by their weights, piece after piece, so that a part can be
// worked on inside the first-level cache; or makes sums of means again. Pure; the same bits on
// every CPU. Thread: one.

#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/codec/codec.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::allreduce {

// Elements of a part that are summed, checked, divided, encoded and hashed before the next ones are
// touched. A multiple of the block of every codec whose contributions are added.
inline constexpr std::size_t piece_elements = 4096;

// The same of a part in this codec, gathered or added: a multiple of its block.
inline std::size_t piece_elements_of(codec::CodecId codec) {
    return std::max(piece_elements, codec::block_elements(codec));
}

// `work(first, count)` for each piece of `count` elements, in order.
template <typename Work>
void for_each_piece(std::size_t count, const Work& work, std::size_t piece = piece_elements) {
    for (std::size_t first = 0; first < count; first += piece)
        work(first, std::min(piece, count - first));
}

class WeightDivider {
  public:
    explicit WeightDivider(std::vector<WeightSegment> segments) : segments_(std::move(segments)) {}

    void divide_next(std::span<float> values) {
        next(values, [](std::span<float> stretch, std::uint64_t weight) {
            if (weight == 0)
                std::fill(stretch.begin(), stretch.end(), 0.0f);
            else
                tensor::divide(stretch, static_cast<float>(weight));
        });
    }
    void multiply_next(std::span<float> values) {
        next(values, [](std::span<float> stretch, std::uint64_t weight) {
            tensor::scale(stretch, static_cast<float>(weight));
        });
    }

    // Moves on by so many elements, of which the caller divides those that are not 0 by this.
    // Nothing, and does not move, where they have not all the same weight, or none.
    std::optional<std::uint64_t> skip(std::size_t count) {
        const WeightSegment& segment = segments_.at(at_);
        if (segment.weight == 0 || segment.count - used_ < count) return std::nullopt;
        const std::uint64_t weight = segment.weight;
        used_ += count;
        if (used_ == segment.count) {
            ++at_;
            used_ = 0;
        }
        return weight;
    }

  private:
    // `work(stretch, weight)` for each stretch of the same weight.
    template <typename Work>
    void next(std::span<float> values, const Work& work) {
        while (!values.empty()) {
            const WeightSegment& segment = segments_.at(at_);
            const auto left = static_cast<std::size_t>(segment.count) - used_;
            const std::span<float> stretch = values.first(std::min(left, values.size()));
            work(stretch, segment.weight);
            values = values.subspan(stretch.size());
            used_ += stretch.size();
            if (used_ < segment.count) continue;
            ++at_;
            used_ = 0;
        }
    }

    std::vector<WeightSegment> segments_;
    std::size_t at_ = 0;
    std::size_t used_ = 0;  // of segments_[at_]
};

}  // namespace dedloc::allreduce
