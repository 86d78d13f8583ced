// The floating-point environment in which every peer computes: round to nearest even, denormals
// kept, no traps.
//
// Libraries (anything linked with -ffast-math, some math libraries) switch a thread to "flush
// denormals to zero"; two peers that differ in it soon hold different bits. Every function whose
// result must be the same on all machines opens with a guard. The arithmetic itself belongs in a
// function that the compiler does not inline into the guarded one (our SIMD dispatch is such a
// border), because compilers move plain arithmetic past writes of the control register.
//
// Cost: a read of the control register; two writes where the thread had other settings.
// Thread: the settings are the calling thread's own.

#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dedloc::base {

class FloatEnvironmentGuard {
  public:
    FloatEnvironmentGuard() : saved_(read()) {
        if ((saved_ & control_mask) != wanted) write((saved_ & ~control_mask) | wanted);
    }
    ~FloatEnvironmentGuard() {
        if ((saved_ & control_mask) != wanted) write(saved_);
    }
    FloatEnvironmentGuard(const FloatEnvironmentGuard&) = delete;
    FloatEnvironmentGuard& operator=(const FloatEnvironmentGuard&) = delete;

  private:
#if defined(__x86_64__)
    // MXCSR: rounding 14:13, FTZ 15, DAZ 6, exception masks 12:7, sticky flags 5:0 left alone.
    static constexpr std::uint64_t control_mask = 0xffc0;
    static constexpr std::uint64_t wanted = 0x1f80;
    static std::uint64_t read() { return _mm_getcsr(); }
    static void write(std::uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
    // FPCR: AHP 26, DN 25, FZ 24, rounding 23:22, FZ16 19, trap enables 15 and 12:8.
    static constexpr std::uint64_t control_mask = 0x07c89f00;
    static constexpr std::uint64_t wanted = 0;
    static std::uint64_t read() {
        std::uint64_t value = 0;
        __asm__ volatile("mrs %0, fpcr" : "=r"(value));
        return value;
    }
    static void write(std::uint64_t value) {
        __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
    }
#else
#error "say how this CPU's floating-point environment is set"
#endif

    std::uint64_t saved_;
};

}  // namespace dedloc::base

namespace dedloc {
using base::FloatEnvironmentGuard;
}
