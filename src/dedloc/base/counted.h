// Counted: one more in a count for as long as it lives, also where the task that has it is
// cancelled.
#pragma once
#include <cstddef>

namespace dedloc::base {

class Counted {
  public:
    explicit Counted(std::size_t& count) : count_(count) { ++count_; }
    ~Counted() { --count_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

  private:
    std::size_t& count_;
};

}  // namespace dedloc::base
