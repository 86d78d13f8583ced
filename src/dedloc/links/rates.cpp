#include "dedloc/links/rates.h"

#include <algorithm>

namespace dedloc::links {
namespace {

constexpr double much_less = 0.7;  // than noise
constexpr double nearly = 0.85;    // within what one probe is wrong by
constexpr int first_probes = 2;

}  // namespace

double link_rate(std::vector<Flow> flows) {
    std::sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) {
        return a.seconds < b.seconds;
    });
    std::uint64_t bytes = 0;
    double best = 0;
    for (const Flow& flow : flows) {
        bytes += flow.bytes;
        if (bytes >= flow_bytes_min)
            best = std::max(best,
                            static_cast<double>(bytes) / std::max(flow.seconds, flow_seconds_min));
    }
    return best;
}

void LinkEstimate::round_gave(double bytes_per_s) {
    constexpr double probe_decay = 0.85;  // a round
    constexpr int rounds_telling = 2;
    if (bytes_per_s <= 0) return;
    const bool fell = bytes_per_s < rounds_ * much_less;
    const bool rose = bytes_per_s * much_less > this->bytes_per_s();
    slower_rounds_ = fell ? slower_rounds_ + 1 : 0;
    const bool slower = slower_rounds_ >= rounds_telling;
    changed_ = changed_ || fell || (rose && rounds_ > 0);
    rounds_ = rounds_ <= 0 || rose || slower ? bytes_per_s : (rounds_ + bytes_per_s) / 2;
    if (trusted_for_ > 0) --trusted_for_;
    if (fell) trusted_for_ = 0;
    if (trusted_for_ == 0) probed_ *= probe_decay;
    if (slower) probed_ = 0;
}

void LinkEstimate::round_as_planned_gave(double bytes_per_s) {
    if (bytes_per_s > this->bytes_per_s())
        round_gave(bytes_per_s);
    else
        slower_rounds_ = 0;
}

void LinkEstimate::probe_gave(double bytes_per_s) {
    constexpr int trust_min = 4;
    constexpr int trust_max = 64;
    if (bytes_per_s <= 0) return;
    ++probes_;
    if (slower_rounds_ > 0)
        rounds_ = std::min(rounds_, bytes_per_s);
    else if (probes_ == first_probes)
        bytes_per_s = std::max(bytes_per_s, probed_);
    const bool confirmed = bytes_per_s > probed_ * much_less && bytes_per_s < probed_ / much_less;
    trust_ = confirmed ? std::min(trust_ * 2, trust_max) : trust_min;
    trusted_for_ = trust_;
    probed_ = bytes_per_s;
    slower_rounds_ = 0;
    changed_ = false;
}

double LinkEstimate::bytes_per_s() const { return rounds_ >= probed_ * nearly ? rounds_ : probed_; }

bool LinkEstimate::wants_probe() const {
    return probes_ == 0 || changed_ || (probes_ < first_probes && rounds_ > 0) ||
           (trusted_for_ == 0 && rounds_ < probed_ * much_less);
}

void take_as_alike(std::span<double* const> rates) {
    constexpr double noise = 1.1;
    std::vector<double*> sorted(rates.begin(), rates.end());
    std::ranges::sort(sorted, {}, [](const double* rate) { return *rate; });
    double slowest = 0;
    for (double* rate : sorted) {
        if (*rate > slowest * noise) slowest = *rate;
        *rate = slowest;
    }
}

void GrowingRate::observe(double bytes_per_s, std::uint64_t bytes) {
    constexpr std::size_t rounds_remembered = 8;
    constexpr double more = 1.08;  // than noise
    if (bytes_per_s <= 0) return;
    const double before = best().bytes_per_s;
    recent_.push_back({bytes_per_s, bytes});
    if (recent_.size() > rounds_remembered) recent_.pop_front();
    while (slower_twice()) recent_.pop_front();
    claim_ = bytes_per_s > before * more ? 2 * best().bytes_per_s : least();
}

GrowingRate::Seen GrowingRate::best() const {
    const auto best = std::ranges::max_element(recent_, {}, &Seen::bytes_per_s);
    return best == recent_.end() ? Seen{} : *best;
}

bool GrowingRate::slower_twice() const {
    if (recent_.size() <= 2) return false;
    const double slow = best().bytes_per_s * much_less;
    const double many = static_cast<double>(best().bytes) * much_less;
    return std::all_of(recent_.end() - 2, recent_.end(), [slow, many](const Seen& seen) {
        return seen.bytes_per_s<slow&& static_cast<double>(seen.bytes)> many;
    });
}

double GrowingRate::least() const { return 1.1 * best().bytes_per_s; }

void Throughput::add(std::uint64_t bytes, TimePoint now) {
    if (marks_.empty()) {
        begun_ = now;
        marks_.push_back({0, bytes});
    }
    bytes_ += bytes;
    const double seconds = to_seconds(now - begun_);
    if (seconds < marks_.back().seconds + apart_) {
        marks_.back().bytes = bytes_;
        return;
    }
    marks_.push_back({seconds, bytes_});
    if (marks_.size() < throughput_marks_max) return;
    std::vector<Mark> half;
    for (std::size_t i = 0; i < marks_.size(); i += 2) half.push_back(marks_[i]);
    marks_ = std::move(half);
    apart_ *= 2;
}

double Throughput::bytes_per_s() const {
    if (marks_.size() < 2 || marks_.back().bytes < flow_bytes_min ||
        marks_.back().seconds < throughput_seconds_min)
        return 0;
    const double all = marks_.back().seconds;
    const double stretch = std::max(all * share_, flow_seconds_min);
    double best = 0;
    std::size_t end = 0;
    for (std::size_t begin = 0; begin < marks_.size(); ++begin) {
        while (end < marks_.size() && marks_[end].seconds < marks_[begin].seconds + stretch) ++end;
        if (end == marks_.size()) break;
        const auto bytes = static_cast<double>(marks_[end].bytes - marks_[begin].bytes);
        best = std::max(best, bytes / (marks_[end].seconds - marks_[begin].seconds));
    }
    return best;
}

}  // namespace dedloc::links
