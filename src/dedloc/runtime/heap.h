// keep_freed_memory: a process that computes the same thing again and again shall not give its
// memory back to the system in between.
//
// glibc returns a large block when it is freed, and the top of a heap when that is free; the next
// step asks for both again, and the kernel clears every page anew. Whether that happens depends on
// what else lies on the heap: one and the same loop over a small model ran at 9,400 samples a
// second with its output in a pipe and at 13,000 with it in a file.
//
// Cost: up to a GiB a heap that is free but stays this process's; only what was in use before.
// Thread: any, before the others begin.

#pragma once

namespace dedloc::runtime {

void keep_freed_memory();

// The opposite: what is freed goes back at once, so that a process takes no more than it uses. For
// one that is bound to an amount. Cost: new pages for each large block. Thread: any, before others.
void keep_no_freed_memory();

// Memory that is free, wherever it lies, goes back to the system: after strangers took much at
// once. Cost: some milliseconds for each GiB that is free, and new pages for who asks for it again.
// Thread: any.
void give_back_freed_memory();

}  // namespace dedloc::runtime
