#include "experiments/picture_edges.h"

#include <gtest/gtest.h>
#include <vector>

namespace dedloc::lab {
namespace {

// Columns of these greys, four pixels high.
images::Picture columns_of(const std::vector<std::uint8_t>& greys) {
    auto picture = images::Picture::of_size(static_cast<std::uint32_t>(greys.size()), 4);
    for (std::uint32_t y = 0; y < 4; ++y)
        for (std::uint32_t x = 0; x < picture.width; ++x)
            for (std::size_t colour = 0; colour < 3; ++colour) picture.at(x, y)[colour] = greys[x];
    return picture;
}

TEST(EdgeEnergy, is_the_mean_square_of_the_laplacian) {
    const std::vector<images::Picture> flat{columns_of({9, 9, 9})};
    EXPECT_EQ(edge_energy(flat), 0);
    const std::vector<images::Picture> line{columns_of({0, 255, 0})};
    EXPECT_DOUBLE_EQ(edge_energy(line), 4);  // (2 · 1)² at each pixel that has four beside it
    const std::vector<images::Picture> both{columns_of({9, 9, 9}), columns_of({0, 255, 0})};
    EXPECT_DOUBLE_EQ(edge_energy(both), 2);
    const std::vector<images::Picture> narrow{columns_of({0, 255})};
    EXPECT_EQ(edge_energy(narrow), 0) << "no pixel has four beside it";
}

TEST(EdgeEnergy, falls_when_an_edge_is_blurred) {
    const std::vector<images::Picture> sharp{columns_of({0, 0, 0, 240, 240, 240})};
    const std::vector<images::Picture> blurred{columns_of({0, 0, 80, 160, 240, 240})};
    EXPECT_NEAR(edge_energy(blurred) / edge_energy(sharp), 1.0 / 9, 1e-9);
}

}  // namespace
}  // namespace dedloc::lab
