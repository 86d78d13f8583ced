// ServeMemory: what `dedloc serve --memory` lends, and whether the server keeps to it. At the start
// the largest batch is computed once, to know what that takes on this machine; then as many experts
// are served as fit beside it. Before each batch and each expert that is taken over the process
// looks at what it has and at what the system would give: libraries that get no memory end a
// process without a word.
//
// Thread: reserve() before anything is served; room_for(): any. Lifetime: the server's.

#pragma once
#include <cstdint>

#include "dedloc/experts/memory_plan.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/tasks/registry.h"

namespace dedloc::peer {

class ServeMemory {
  public:
    // Failures: the program, or one expert, does not fit.
    // `beside`: bytes that each expert takes more, while it is served.
    static Outcome<ServeMemory> reserve(const tasks::RunExperts& experts,
                                        std::uint64_t bytes,
                                        std::uint64_t beside);

    const experts::MemoryPlan& plan() const { return plan_; }
    std::uint64_t lent() const { return lent_; }
    // Before anything was computed or served, as RLIMIT_DATA counts.
    std::uint64_t program_data() const { return program_data_; }
    std::uint64_t taken() const;  // now, beyond what the program itself takes

    Ok room_for_a_batch() const { return room_for(batch_); }
    Ok room_for_an_expert() const { return room_for(expert_); }

  private:
    Ok room_for(std::uint64_t bytes) const;

    experts::MemoryPlan plan_;
    std::uint64_t lent_ = 0;
    std::uint64_t program_ = 0;  // resident
    std::uint64_t program_data_ = 0;
    std::uint64_t batch_ = 0;
    std::uint64_t expert_ = 0;
};

}  // namespace dedloc::peer
