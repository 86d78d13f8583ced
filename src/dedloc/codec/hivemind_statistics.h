// The statistics behind hivemind's compressions, as the libraries that it calls compute them:
// numpy's quantiles, bitsandbytes' map; means and lengths in double precision, rounded once. (torch
// sums them in fp32 in an order that depends on its CPU's vectors: a last bit may differ from it,
// as two torches may differ. The golden vectors come out bit for bit.)
//
// Source: numpy 1.24 quantile, method "linear"; hivemind/utils/math.py quantile_qq_approximation;
//         bitsandbytes functional.create_dynamic_map.
// Cost: linear. Thread: any; in the caller's floating-point environment (FloatEnvironmentGuard).

#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace dedloc::codec {

float rounded_mean(std::span<const float> x);  // 0 of nothing
float rounded_norm(std::span<const float> x);  // Euclidean

// How many of 255 ascending borders are below the value.
std::uint8_t borders_below(std::span<const float, 255> borders, float value);

// `count` ≥ 2 evenly spaced quantiles: of 100,000-element chunks, then of those quantiles. Finite
// values only; zeros of nothing.
std::vector<float> estimated_quantiles(std::span<const float> x, std::size_t count);

// 256 signed values, ascending, dense around zero, for inputs within ±1.
const std::array<float, 256>& dynamic_map();
std::uint8_t nearest_in_dynamic_map(float value);

}  // namespace dedloc::codec
