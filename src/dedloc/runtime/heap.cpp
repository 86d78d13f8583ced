#include "dedloc/runtime/heap.h"

#include <malloc.h>

namespace dedloc::runtime {

void keep_freed_memory() {
    constexpr int mapped_min = 32 << 20;  // bytes of a block that is worth a mapping of its own
    constexpr int free_max = 1 << 30;     // bytes at the top of a heap
    // Both only save time: a library that refuses changes nothing else.
    (void)mallopt(M_MMAP_THRESHOLD, mapped_min);
    (void)mallopt(M_TRIM_THRESHOLD, free_max);
}

void keep_no_freed_memory() {
    constexpr int mapped_min = 256 << 10;
    constexpr int free_max = 4 << 20;
    constexpr int heaps_max = 2;  // each has holes of its own
    (void)mallopt(M_MMAP_THRESHOLD, mapped_min);
    (void)mallopt(M_TRIM_THRESHOLD, free_max);
    (void)mallopt(M_ARENA_MAX, heaps_max);
}

void give_back_freed_memory() { (void)malloc_trim(0); }

}  // namespace dedloc::runtime
