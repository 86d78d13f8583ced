// SampleCounter: numbers a peer's samples, and never gives out a number twice, whatever happens to
// the process in between.
//
// Numbers are reserved on disk in blocks before they are used; a crash skips the rest of a block.
// File: the first number that was never reserved, u64 BE. Errors: local_fault, bad_input.
// Cost: one durable write a block. Thread: one at a time.

#pragma once
#include <cstdint>
#include <string>

#include "dedloc/base/result.h"
#include "dedloc/collab/samples.h"
#include "dedloc/runtime/disk.h"

namespace dedloc::train {

inline constexpr std::uint64_t counter_block = 8192;

class SampleCounter {
  public:
    static Result<SampleCounter> open(runtime::Disk& disk, std::string path);

    std::uint64_t next() const { return next_; }
    Result<collab::CounterRange> take(std::uint64_t count);
    // Gives back the unused rest of the block; the clean end.
    Result<void> close();

  private:
    SampleCounter(runtime::Disk& disk, std::string path, std::uint64_t next)
        : disk_(&disk), path_(std::move(path)), next_(next), reserved_(next) {}
    Result<void> save(std::uint64_t value);

    runtime::Disk* disk_;
    std::string path_;
    std::uint64_t next_;
    std::uint64_t reserved_;
};

}  // namespace dedloc::train
