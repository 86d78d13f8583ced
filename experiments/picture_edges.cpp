#include "experiments/picture_edges.h"

#include <cstdint>

namespace dedloc::lab {
namespace {

double laplacian(const images::Picture& picture,
                 std::uint32_t x,
                 std::uint32_t y,
                 std::size_t colour) {
    const auto value = [&](std::uint32_t column, std::uint32_t row) {
        return int{picture.at(column, row)[colour]};
    };
    const int beside = value(x - 1, y) + value(x + 1, y) + value(x, y - 1) + value(x, y + 1);
    return (4 * value(x, y) - beside) / 255.0;
}

}  // namespace

double edge_energy(std::span<const images::Picture> pictures) {
    double sum = 0;
    std::uint64_t count = 0;
    for (const images::Picture& picture : pictures)
        for (std::uint32_t y = 1; y + 1 < picture.height; ++y)
            for (std::uint32_t x = 1; x + 1 < picture.width; ++x)
                for (std::size_t colour = 0; colour < 3; ++colour) {
                    const double edge = laplacian(picture, x, y, colour);
                    sum += edge * edge;
                    ++count;
                }
    return count > 0 ? sum / static_cast<double>(count) : 0;
}

}  // namespace dedloc::lab
