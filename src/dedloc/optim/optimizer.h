// The optimizer step on a flat vector of parameters: SGD with momentum, AdamW, LAMB, Muon.
//
// Every peer computes the same step from the same average and must end with the same bits
// (promise 1), on any CPU and with any number of threads. Therefore: each operation is rounded by
// itself (no fused multiply-add), only + - * / and square root are used, sums of squares are
// taken in double precision in a fixed order (below), scalars come from schedule.h, and the
// floating-point environment is set for the duration of the step.
//
// Order of a sum of squares of a group: the group is cut into chunks of chunk_elements; in a chunk
// element i is added to lane i mod 16; lanes are joined in halves (lane j += lane j + 8, then + 4,
// + 2, + 1); chunks are added one after the other.
//
// The formulas and the order of their operations are torch::optim's (SGD, AdamW), apex's (LARC)
// and torch_optimizer's (LAMB 0.1.0, as the DeDLOC ALBERT runs used it). Results differ from
// theirs by the last bits only, where their kernels fuse. Muon is torch.optim.Muon with
// adjust_lr_fn="match_rms_adamw" (one learning rate for all), in fp32 instead of bf16; what is no
// matrix makes AdamW's step.
//
// Everything is a pure function of what is passed: moments live in the caller's `moments`, step
// counts are global steps, so parameters + moments + global step are the whole state.
//
// Source: Loshchilov & Hutter 1711.05101 (AdamW); You et al. 1904.00962 (LAMB); You et al.
//         1708.03888 (LARC); Jordan et al. 2024 and Liu et al. 2502.16982 (Muon).
// Cost:   optimizer_bench.cpp. Allocates a few words a chunk.
// Thread: any; no other thread may touch the spans meanwhile.

#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/optim/schedule.h"

namespace dedloc::optim {

// Part of the run's hash: raised whenever a change here changes any bit of any result.
inline constexpr std::uint32_t numerics_version = 1;

// Moments of 8 bits (8-bit LAMB): those of a tensor with at least so many elements are codes, in
// blocks of 4,096 that share a scale; what smaller tensors need is little, and they learn worse.
inline constexpr std::size_t coded_elements_min = 65536;

// Part of the definition of sums (above), so never to be changed without a new numerics_version.
inline constexpr std::size_t chunk_elements = 65536;

// sgd keeps none or "momentum"; the others keep "exp_avg" and "exp_avg_sq", muon the latter of what
// is no matrix alone.
inline constexpr std::size_t moments_max = 2;

// Bounds of a parameter group: beyond them lies a slip of the hand.
inline constexpr double group_factor_max = 1e6;
inline constexpr double group_decay_max = 10;  // the run file's own

enum class OptimizerKind : std::uint8_t { sgd = 0, adamw = 1, lamb = 2, muon = 3 };

std::string_view to_string(OptimizerKind kind);
Result<OptimizerKind> optimizer_from_string(std::string_view text);  // bad_input: names all

// A contiguous range of the flat vector that is one layer's tensor: the unit of trust ratios.
struct ParameterGroup {
    std::string name;
    std::size_t offset = 0;
    std::size_t count = 0;
    bool decay = true;  // weight decay applies (usually not to biases and norms)
    bool trust = true;  // LAMB and LARC: scale the step by the ratio of norms
    // Before this global step no gradient moves the group or its moments; it counts in no norm.
    std::uint64_t frozen_until = 0;
    // Above 0: rows of so many elements, each scaled to length 1 after a step, frozen or not.
    std::size_t unit_rows = 0;
    // Above 0: a matrix with rows of so many elements, which muon moves as one.
    std::size_t columns = 0;
    double rate_factor = 1;                // of the learning rate
    std::optional<double> weight_decay{};  // of this group, whatever `decay` and the run file say
};

struct OptimizerConfig {
    OptimizerKind kind = OptimizerKind::sgd;
    Schedule schedule{};
    double weight_decay = 0;  // sgd, lamb: added to the direction; adamw: decoupled
    // The averaged gradient is scaled down to this global norm, as torch's clip_grad_norm_ does.
    // 0: off.
    double gradient_norm_max = 0;

    double momentum = 0.9;  // sgd, where 0 keeps no moment; muon
    bool nesterov = false;  // sgd, muon
    bool larc = false;      // sgd: layer-wise rates
    bool larc_clip = true;  // at most the learning rate; false: they multiply it
    double larc_trust = 0.02;
    double larc_epsilon = 1e-8;

    double beta1 = 0.9;  // adamw, lamb; muon: of what is no matrix
    double beta2 = 0.999;
    double epsilon = 1e-8;               // the LAMB runs of the paper: 1e-6
    bool debias = true;                  // lamb
    double norm_clamp = 10000.0;         // lamb: largest parameter norm in the trust ratio
    bool moments_8bit = false;           // lamb
    std::uint64_t orthogonal_steps = 5;  // muon: rounds of its polynomial
};

// bad_input with the field's name and its bounds.
Ok check(const OptimizerConfig& config);
// bad_input when groups overlap, are not in ascending order, leave the vector or are no whole rows.
Ok check(std::span<const ParameterGroup> groups, std::size_t elements_count);

// How many numbers must be kept for each parameter from step to step; they start as zeros.
std::size_t moments_count(const OptimizerConfig& config);
std::string_view moment_name(const OptimizerConfig& config, std::size_t index);

// A moment as it is kept. fp32: a value for each parameter. 8 bits: codes of the tensors that are
// coded, one tensor after the other, a scale for each of their blocks (a block never spans two
// tensors), and the values of the other groups.
struct MomentView {
    std::span<float> values;
    std::span<std::uint8_t> codes{};
    std::span<float> scales{};
};

// The sizes of the three of one moment, by which state is laid out. No moment is larger than the
// first.
struct MomentSizes {
    std::size_t values = 0;
    std::size_t codes = 0;
    std::size_t scales = 0;

    std::size_t bytes() const { return 4 * values + codes + 4 * scales; }
};
MomentSizes moment_sizes(const OptimizerConfig& config,
                         std::span<const ParameterGroup> groups,
                         std::size_t elements_count,
                         std::size_t index = 0);

struct UpdateReport {
    double learning_rate = 0;
    double gradient_norm = 0;  // before clipping
    bool clipped = false;
};

// Runs task(0) .. task(tasks_count - 1), on any threads, and returns when all are done.
using ParallelFor =
    std::function<void(std::size_t tasks_count, const std::function<void(std::size_t)>& task)>;
void run_in_order(std::size_t tasks_count, const std::function<void(std::size_t)>& task);

// One optimizer step.
//
//   config       passed check().
//   groups       passed check(); elements in no group are left alone.
//   global_step  from 0; the bias corrections use global_step + 1.
//   gradient     the committed average, as long as parameters; finite (the caller has checked).
//   moments      moments_count(config), each of its moment_sizes().
//
// Sizes that do not fit are our bug (DEDLOC_CHECK).
UpdateReport step(const OptimizerConfig& config,
                  std::span<const ParameterGroup> groups,
                  std::uint64_t global_step,
                  std::span<float> parameters,
                  std::span<const float> gradient,
                  std::span<const MomentView> moments,
                  const ParallelFor& parallel_for = run_in_order);
// The same for moments in fp32.
UpdateReport step(const OptimizerConfig& config,
                  std::span<const ParameterGroup> groups,
                  std::uint64_t global_step,
                  std::span<float> parameters,
                  std::span<const float> gradient,
                  std::span<const std::span<float>> moments,
                  const ParallelFor& parallel_for = run_in_order);

}  // namespace dedloc::optim
