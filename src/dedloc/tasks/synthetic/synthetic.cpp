#include "dedloc/tasks/synthetic/synthetic.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <thread>

#include "dedloc/base/random.h"
#include "dedloc/train/vector_model.h"

namespace dedloc::tasks {

namespace {

constexpr std::uint64_t parameters_default = 4096;
constexpr float near_enough = 0.1f;
// How many consecutive elements get their noise from one mixed number.
constexpr std::size_t noise_run = 4;

struct Bowl {
    std::uint64_t parameters_count = parameters_default;
    std::chrono::milliseconds gradient_time{0};
    std::uint64_t seed = 0;
};

// The sixteen bits `number` of `mixed`, as a number in [-0.5, 0.5).
float small_number(std::uint64_t mixed, std::size_t number) {
    const auto bits = static_cast<std::uint32_t>((mixed >> (16 * number)) & 0xffff);
    return static_cast<float>(bits) / 65536.0f - 0.5f;
}

// Four numbers in [-0.5, 0.5) for each run of four elements, from one stream.
template <typename Use>
void for_noise(std::uint64_t stream, std::size_t count, Use use) {
    for (std::size_t begin = 0; begin < count; begin += noise_run) {
        const std::uint64_t mixed = base::mix64(stream + begin);
        for (std::size_t i = 0; i < noise_run && begin + i < count; ++i)
            use(begin + i, small_number(mixed, i));
    }
}

run::Layout layout_of(const Bowl& bowl) {
    const auto count = static_cast<std::size_t>(bowl.parameters_count);
    return {
        .parameters = {{.name = "bowl", .offset = 0, .count = count, .decay = true, .trust = true}},
        .parameters_count = bowl.parameters_count};
}

std::vector<float> noise_numbers(const Bowl& bowl, std::uint64_t stream, float size) {
    std::vector<float> numbers(bowl.parameters_count);
    for_noise(
        stream, numbers.size(), [&](std::size_t k, float value) { numbers[k] = size * value; });
    return numbers;
}

class BowlLearner final : public train::VectorModel {
  public:
    BowlLearner(const Bowl& bowl, const PeerId& peer)
        : VectorModel(layout_of(bowl), noise_numbers(bowl, base::mix64(bowl.seed + 2), 4)),
          bowl_(bowl),
          goal_(noise_numbers(bowl, base::mix64(bowl.seed), 2)) {
        take_noise_of(peer);
    }

    Result<void> compute_as(const PeerId& author) override {
        take_noise_of(author);
        return {};
    }

    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        const auto begun = std::chrono::steady_clock::now();
        const auto weight = static_cast<float>(samples.size());
        const std::span<const float> here = parameters();
        const std::span<float> gradient = sum();
        for (std::size_t k = 0; k < gradient.size(); ++k)
            gradient[k] += weight * (here[k] - goal_[k]);
        for (std::uint64_t sample = samples.begin; sample < samples.end; ++sample)
            for_noise(base::mix64(noise_seed_ ^ sample),
                      gradient.size(),
                      [&](std::size_t k, float value) { gradient[k] += value; });
        std::this_thread::sleep_until(begun + bowl_.gradient_time);
        return train::GradientReport{.loss_sum = loss() * static_cast<double>(samples.size())};
    }

    Result<collab::Evaluation> evaluate() override {
        std::size_t near = 0;
        for (std::size_t k = 0; k < goal_.size(); ++k)
            if (std::abs(parameters()[k] - goal_[k]) < near_enough) ++near;
        return collab::Evaluation{
            .loss = loss(),
            .accuracy = static_cast<double>(near) / static_cast<double>(goal_.size()),
            .samples = 1};
    }

  private:
    void take_noise_of(const PeerId& peer) {
        noise_seed_ = base::mix64(bowl_.seed + 1);
        for (const std::uint8_t byte : peer.bytes()) noise_seed_ = base::mix64(noise_seed_ ^ byte);
    }

    double loss() const {
        double sum = 0;
        for (std::size_t k = 0; k < goal_.size(); ++k) {
            const double away =
                static_cast<double>(parameters()[k]) - static_cast<double>(goal_[k]);
            sum += away * away;
        }
        return 0.5 * sum / static_cast<double>(goal_.size());
    }

    Bowl bowl_;
    std::uint64_t noise_seed_ = 0;
    std::vector<float> goal_;
};

class SyntheticTask final : public TrainingTask {
  public:
    explicit SyntheticTask(const Bowl& bowl) : bowl_(bowl) {}

    Result<std::unique_ptr<train::SampledModel>> learner(const PeerId& peer) const override {
        return std::unique_ptr<train::SampledModel>(std::make_unique<BowlLearner>(bowl_, peer));
    }
    std::string device() const override { return "cpu"; }
    std::string description() const override {
        return fmt::format("a synthetic bowl of {} parameters, each gradient at least {} ms",
                           bowl_.parameters_count,
                           bowl_.gradient_time.count());
    }

  private:
    Bowl bowl_;
};

// The number between `before` and `after` in `text`, if it is written so and within bounds.
std::optional<std::uint64_t> number_in(std::string_view text,
                                       std::string_view before,
                                       std::string_view after,
                                       std::uint64_t max) {
    if (!text.starts_with(before) || !text.ends_with(after)) return std::nullopt;
    if (text.size() <= before.size() + after.size()) return std::nullopt;
    text = text.substr(before.size(), text.size() - before.size() - after.size());
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (number < 1 || number > max) return std::nullopt;
    return number;
}

}  // namespace

Result<std::shared_ptr<const TrainingTask>> make_synthetic(const run::TaskConfig& config,
                                                           const TaskOptions& options) {
    Bowl bowl;
    bowl.seed = config.seed;
    const auto count = number_in(config.model, "bowl-", "", bowl_parameters_max);
    if (config.model != "bowl" && !count)
        return make_error(ErrorKind::bad_input,
                          "task.model: the synthetic task has no '{}'; it knows bowl, and bowl-N "
                          "for N parameters (1 to {})",
                          config.model,
                          bowl_parameters_max);
    bowl.parameters_count = count.value_or(parameters_default);
    const auto milliseconds = number_in(config.data, "noise-", "ms", noise_milliseconds_max);
    if (config.data != "noise" && !milliseconds)
        return make_error(ErrorKind::bad_input,
                          "task.data: the synthetic task has no '{}'; it knows noise, and "
                          "noise-Nms for gradients of N milliseconds (1 to {})",
                          config.data,
                          noise_milliseconds_max);
    bowl.gradient_time =
        std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds.value_or(0)));
    if (config.precision != "fp32")
        return make_error(ErrorKind::bad_input,
                          "task.precision: the synthetic task computes in fp32 only, not in {}",
                          config.precision);
    if (options.device != "auto" && options.device != "cpu" && !options.device.empty())
        return make_error(ErrorKind::unsupported,
                          "the synthetic task computes on the CPU only, not on '{}'",
                          options.device);
    return std::shared_ptr<const TrainingTask>(std::make_shared<SyntheticTask>(bowl));
}

}  // namespace dedloc::tasks
