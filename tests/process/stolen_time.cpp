#include "tests/process/stolen_time.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace dedloc::lab {
namespace {

constexpr double poll_interval_s = 0.05;
constexpr int columns = 8;  // user nice system idle iowait irq softirq steal; guests are in user

}  // namespace

void StolenTime::observe(double now) {
    if (!samples_.empty() && now < samples_.back().at + poll_interval_s) return;
    std::ifstream file("/proc/stat");
    take(now, file);
}

void StolenTime::take(double now, std::istream& proc_stat) {
    std::string name;
    if (!(proc_stat >> name) || name != "cpu") return;
    Sample sample{.at = now};
    double ticks = 0;
    for (int column = 0; column < columns && proc_stat >> ticks; ++column) {
        sample.all += ticks;
        sample.stolen = ticks;
    }
    if (proc_stat) samples_.push_back(sample);
}

double StolenTime::share(double from, double until) const {
    if (samples_.empty()) return 0;
    const auto at = [](const Sample& sample, double time) { return sample.at < time; };
    auto last = std::lower_bound(samples_.begin(), samples_.end(), until, at);
    if (last == samples_.end()) --last;
    auto first = std::lower_bound(samples_.begin(), samples_.end(), from, at);
    if (first != samples_.begin()) --first;
    const double all = last->all - first->all;
    return all > 0 ? (last->stolen - first->stolen) / all : 0;
}

}  // namespace dedloc::lab
