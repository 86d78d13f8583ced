// Series: one measure of a run over steps and time, in bounded memory however long the run goes on.
//
// Every point is one that came: none is averaged. When there is no more room every second one
// goes, and only each `kept_every`-th of those that come is kept from then on. The newest is always
// there.
//
// Thread: one. Limits: series_points_max. Cost: constant an addition, amortised.

#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dedloc/base/time.h"

namespace dedloc::web {

inline constexpr std::size_t series_points_max = 1024;

struct Point {
    WallSeconds time = 0;
    std::uint64_t step = 0;
    double value = 0;

    friend bool operator==(const Point&, const Point&) = default;
};

class Series {
  public:
    explicit Series(std::size_t points_max = series_points_max) : points_max_(points_max) {}

    void add(const Point& point);
    // Oldest first.
    std::vector<Point> points() const;
    // The newest; of a series that has one.
    const Point& last() const { return newest_ ? *newest_ : kept_.back(); }
    std::uint64_t seen() const { return seen_; }
    std::uint64_t kept_every() const { return kept_every_; }

  private:
    std::size_t points_max_;
    std::vector<Point> kept_;      // those whose number is a multiple of kept_every_
    std::optional<Point> newest_;  // where it is not kept
    std::uint64_t seen_ = 0;
    std::uint64_t kept_every_ = 1;
};

}  // namespace dedloc::web
