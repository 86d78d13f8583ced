#include "tests/sim/bowl.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dedloc/base/random.h"
#include "dedloc/train/vector_model.h"

namespace dedloc::lab {
namespace {

constexpr float lowest = 0.5f;
constexpr float noise_size = 1.0f;

run::Layout bowl_layout(std::size_t elements) {
    return {.parameters =
                {{.name = "bowl", .offset = 0, .count = elements, .decay = true, .trust = true}},
            .parameters_count = elements};
}

class Bowl final : public train::VectorModel {
  public:
    Bowl(std::size_t elements, const PeerId& peer)
        : VectorModel(bowl_layout(elements), std::vector<float>(elements, 1.0f)) {
        take_noise_of(peer);
    }

    Result<void> compute_as(const PeerId& author) override {
        take_noise_of(author);
        return {};
    }

    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        const auto weight = static_cast<float>(samples.size());
        const float noise_scale = noise_size * std::sqrt(weight) / 32768.0f;
        std::uint64_t noise = base::mix64(seed_ ^ samples.begin);
        const std::span<const float> here = parameters();
        const std::span<float> gradient = sum();
        for (std::size_t k = 0; k < gradient.size(); ++k) {
            noise = noise * 6364136223846793005u + 1442695040888963407u;
            const auto drawn = static_cast<std::int16_t>(noise >> 48);
            gradient[k] += weight * (here[k] - lowest) + noise_scale * static_cast<float>(drawn);
        }
        return train::GradientReport{.loss_sum = loss() * static_cast<double>(samples.size())};
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
        const double away = static_cast<double>(parameters().front()) - static_cast<double>(lowest);
        return 0.5 * away * away;
    }

    std::uint64_t seed_ = 1;
};

}  // namespace

Result<std::unique_ptr<train::SampledModel>> make_bowl(std::size_t elements, const PeerId& peer) {
    if (elements == 0) return make_error(ErrorKind::bad_input, "a bowl needs a parameter");
    return std::unique_ptr<train::SampledModel>(std::make_unique<Bowl>(elements, peer));
}

}  // namespace dedloc::lab
