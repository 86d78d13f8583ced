// A wide-area network in user space: one Ethernet switch whose ports are TAP devices in network
// namespaces, each with its one-way delay, rate and queue. What many sandboxed kernels lack (netem)
// it replaces up to some hundred Mbit/s.
//
// Needs root. Thread: its own, from start() to the destructor; the devices go with it.
// Errors: local_fault.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"

namespace dedloc::lab {

struct WanPort {
    std::string netns;
    std::string device;           // made there
    Duration delay{0};            // of frames that come from there
    double bytes_per_s = 0;       // both ways; 0: no limit
    Duration queue{100'000'000};  // of a full line; more is dropped
};

class NatWan {
  public:
    static Result<std::unique_ptr<NatWan>> start(std::vector<WanPort> ports);
    ~NatWan();
    NatWan(const NatWan&) = delete;
    NatWan& operator=(const NatWan&) = delete;

  private:
    struct State;
    explicit NatWan(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace dedloc::lab
