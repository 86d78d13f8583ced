#include "dedloc/web/series.h"

#include <gtest/gtest.h>

namespace dedloc::web {
namespace {

Point point(std::uint64_t number) {
    return {.time = 0.5 * static_cast<double>(number),
            .step = number,
            .value = 1.0 / static_cast<double>(number + 1)};
}

TEST(Series, keeps_all_while_there_is_room) {
    Series series(8);
    for (std::uint64_t i = 0; i < 7; ++i) series.add(point(i));
    ASSERT_EQ(series.points().size(), 7u);
    for (std::uint64_t i = 0; i < 7; ++i) EXPECT_EQ(series.points()[i], point(i));
    EXPECT_EQ(series.kept_every(), 1u);
}

TEST(Series, thins_evenly_and_keeps_the_first_and_the_newest) {
    Series series(16);
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        series.add(point(i));
        const auto points = series.points();
        ASSERT_LE(points.size(), 17u);
        ASSERT_EQ(points.front(), point(0));
        ASSERT_EQ(points.back(), point(i));
    }
    const auto points = series.points();
    EXPECT_GE(points.size(), 8u);
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        EXPECT_EQ(points[i], point(i * series.kept_every()));  // none is averaged
    }
    EXPECT_EQ(series.seen(), 100'000u);
}

}  // namespace
}  // namespace dedloc::web
