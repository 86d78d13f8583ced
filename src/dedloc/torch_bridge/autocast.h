// Mixed precision: while an Autocast lives, libtorch computes what it thinks safe (products and
// convolutions, above all) in bf16 or fp16, and the rest as before. Parameters, their gradients and
// what is made of them stay fp32; backward passes belong after its end.
//
// On the CPU bf16 is fast where the CPU has instructions for it (AVX-512 BF16, AMX) and slow
// elsewhere. Thread: what it changes is the present thread's.

#pragma once
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::torch_bridge {

// libtorch 2.4 gave all kinds of devices the same functions.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
inline bool autocast_is_on(torch::DeviceType device) {
    return at::autocast::is_autocast_enabled(device);
}
inline torch::ScalarType autocast_type(torch::DeviceType device) {
    return at::autocast::get_autocast_dtype(device);
}
inline void switch_autocast(torch::DeviceType device, bool on, torch::ScalarType type) {
    if (on) at::autocast::set_autocast_dtype(device, type);
    at::autocast::set_autocast_enabled(device, on);
}
#else
inline bool autocast_is_on(torch::DeviceType device) {
    return device == torch::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
inline torch::ScalarType autocast_type(torch::DeviceType device) {
    return device == torch::kCPU ? at::autocast::get_autocast_cpu_dtype()
                                 : at::autocast::get_autocast_gpu_dtype();
}
inline void switch_autocast(torch::DeviceType device, bool on, torch::ScalarType type) {
    if (device == torch::kCPU) {
        if (on) at::autocast::set_autocast_cpu_dtype(type);
        at::autocast::set_cpu_enabled(on);
    } else {
        if (on) at::autocast::set_autocast_gpu_dtype(type);
        at::autocast::set_enabled(on);
    }
}
#endif

class Autocast {
  public:
    Autocast(torch::DeviceType device, torch::ScalarType type)
        : device_(device), type_(type), before_(autocast_is_on(device)) {
        at::autocast::increment_nesting();
        switch_autocast(device_, true, type_);
    }
    ~Autocast() {
        switch_autocast(device_, before_, type_);
        // Casts of parameters are kept until then, so that each is cast once.
        if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    }
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;

  private:
    torch::DeviceType device_;
    torch::ScalarType type_;
    bool before_;
};

}  // namespace dedloc::torch_bridge
