#include "tests/sim/sample_gradients.h"

#include <cmath>

#include "dedloc/base/random.h"

namespace dedloc::lab {
namespace {

constexpr float optimum = 0.5f;
constexpr float pull_max = 4;
constexpr double root_three = 1.7320508075688772;  // a uniform number's largest, in deviations

// Uniform in [-1, 1), from 16 bits.
class UniformNumbers {
  public:
    explicit UniformNumbers(std::uint64_t seed) : state_(seed) {}
    float next() {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<float>(static_cast<std::uint32_t>(state_ >> 48)) / 32768.0f - 1.0f;
    }

  private:
    std::uint64_t state_;
};

}  // namespace

void add_sample_gradients(std::size_t author,
                          consensus::CounterRange samples,
                          std::span<const float> parameters,
                          std::span<float> sum) {
    for (std::uint64_t sample = samples.begin; sample < samples.end; ++sample) {
        UniformNumbers numbers(base::mix64(base::mix64(author + 1) ^ sample));
        for (std::size_t k = 0; k < sum.size(); ++k)
            sum[k] += parameters[k] - optimum + pull_max * numbers.next();
    }
}

void add_machine_noise(std::size_t machine,
                       consensus::CounterRange samples,
                       double relative,
                       std::span<float> sum) {
    double squares = 0;
    for (const float value : sum)
        squares += static_cast<double>(value) * static_cast<double>(value);
    const double deviation = relative * std::sqrt(squares / static_cast<double>(sum.size()));
    const auto largest = static_cast<float>(deviation * root_three);
    UniformNumbers numbers(base::mix64(base::mix64(~machine) ^ samples.begin));
    for (float& value : sum) value += largest * numbers.next();
}

}  // namespace dedloc::lab
