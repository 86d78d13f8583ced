#include "dedloc/web/series.h"

namespace dedloc::web {

void Series::add(const Point& point) {
    const std::uint64_t number = seen_++;
    newest_ = point;
    if (number % kept_every_ != 0) return;
    newest_.reset();
    kept_.push_back(point);
    if (kept_.size() < points_max_) return;
    kept_every_ *= 2;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < kept_.size(); i += 2) kept_[kept++] = kept_[i];
    kept_.resize(kept);
    if (number % kept_every_ != 0) newest_ = point;
}

std::vector<Point> Series::points() const {
    std::vector<Point> points = kept_;
    if (newest_) points.push_back(*newest_);
    return points;
}

}  // namespace dedloc::web
