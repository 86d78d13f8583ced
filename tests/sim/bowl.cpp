#include "tests/sim/bowl.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dedloc/base/random.h"

namespace dedloc::lab {
namespace {

constexpr float lowest = 0.5f;
constexpr float noise_size = 1.0f;

class Bowl final : public collab::Learner {
  public:
    Bowl(std::size_t elements, const PeerId& peer) : parameters_(elements), sum_(elements) {
        take_noise_of(peer);
    }

    Result<void> compute_as(const PeerId& author) override {
        take_noise_of(author);
        return {};
    }

    run::Layout layout() const override {
        run::Layout layout;
        layout.parameters_count = parameters_.size();
        layout.parameters.push_back({.name = "bowl",
                                     .offset = 0,
                                     .count = parameters_.size(),
                                     .decay = true,
                                     .trust = true});
        return layout;
    }
    void initial(std::span<float> parameters, std::span<float>) override {
        std::fill(parameters.begin(), parameters.end(), 1.0f);
    }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        move_to(parameters, buffers);
        std::fill(sum_.begin(), sum_.end(), 0.0f);
    }
    void move_to(std::span<const float> parameters, std::span<const float>) override {
        parameters_.assign(parameters.begin(), parameters.end());
    }
    Result<collab::GradientReport> accumulate(collab::CounterRange samples) override {
        const auto weight = static_cast<float>(samples.size());
        const float noise_scale = noise_size * std::sqrt(weight) / 32768.0f;
        std::uint64_t noise = base::mix64(seed_ ^ samples.begin);
        for (std::size_t k = 0; k < sum_.size(); ++k) {
            noise = noise * 6364136223846793005u + 1442695040888963407u;
            const auto drawn = static_cast<std::int16_t>(noise >> 48);
            sum_[k] += weight * (parameters_[k] - lowest) + noise_scale * static_cast<float>(drawn);
        }
        return collab::GradientReport{.loss_sum = loss() * static_cast<double>(samples.size())};
    }
    void take(std::span<float> gradient_sum, std::span<float>, std::uint64_t) override {
        std::copy(sum_.begin(), sum_.end(), gradient_sum.begin());
        std::fill(sum_.begin(), sum_.end(), 0.0f);
    }
    Result<collab::Evaluation> evaluate() override {
        return collab::Evaluation{
            .loss = loss(), .accuracy = std::numeric_limits<double>::quiet_NaN(), .samples = 1};
    }

  private:
    void take_noise_of(const PeerId& peer) {
        seed_ = 1;
        for (const std::uint8_t byte : peer.bytes()) seed_ = base::mix64(seed_ ^ byte);
    }
    // The first parameter's: all go the same way.
    double loss() const {
        const double away = static_cast<double>(parameters_.front()) - static_cast<double>(lowest);
        return 0.5 * away * away;
    }

    std::uint64_t seed_ = 1;
    std::vector<float> parameters_;
    std::vector<float> sum_;
};

}  // namespace

Result<std::unique_ptr<collab::Learner>> make_bowl(std::size_t elements, const PeerId& peer) {
    if (elements == 0) return make_error(ErrorKind::bad_input, "a bowl needs a parameter");
    return std::unique_ptr<collab::Learner>(std::make_unique<Bowl>(elements, peer));
}

}  // namespace dedloc::lab
