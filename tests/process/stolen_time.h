// StolenTime: how much of this machine's processors others had, for who measures times on it. On a
// virtual machine the host may give them to somebody else ("steal" in /proc/stat); whatever runs
// meanwhile is late for that reason.
//
// Thread: one. Cost: observe() reads a line of /proc/stat, at most every 50 ms. Where there is no
// such file, nothing is ever stolen.

#pragma once
#include <istream>
#include <vector>

namespace dedloc::lab {

class StolenTime {
  public:
    // `now`: seconds of any clock, the same one in share().
    void observe(double now);
    // A share of all processors' time between two observations around [from, until], 0 to 1.
    double share(double from, double until) const;

    // Takes what observe() has read: for tests.
    void take(double now, std::istream& proc_stat);

  private:
    struct Sample {
        double at = 0;
        double all = 0;  // ticks of all processors since boot
        double stolen = 0;
    };
    std::vector<Sample> samples_;
};

}  // namespace dedloc::lab
