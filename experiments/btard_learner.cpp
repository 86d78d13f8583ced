#include "experiments/btard_learner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/base/random.h"
#include "dedloc/tasks/sample_order.h"

#include "tests/sim/model_around.h"

namespace dedloc::lab {
namespace {

constexpr float flip_factor = -1000;
constexpr double direction_factor = 1000;
constexpr float fixed_value = 1;  // of each element of the mean
constexpr std::uint64_t direction_seed = 666;
constexpr std::size_t delay_steps = 100;
constexpr std::size_t sent_kept = 4;
// Baruch et al.: 16 peers, 7 attackers need 2 more; z is where the normal distribution has 7 / 9.
constexpr float little_z = 0.765f;

double length_of(std::span<const float> values) {
    double squares = 0;
    for (const float value : values)
        squares += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(squares);
}

void point_away(std::span<float> sum) {
    const double length = length_of(sum);
    Random random(direction_seed);
    for (float& value : sum) value = static_cast<float>(random.normal());
    const auto factor = static_cast<float>(direction_factor * length / length_of(sum));
    for (float& value : sum) value *= factor;
}

// Attacks that need nothing but the sum.
void change(Attack attack, std::span<float> sum, float weight) {
    switch (attack) {
        case Attack::sign_flip:
        case Attack::colluding_pair:
        case Attack::new_keys:
            for (float& value : sum) value *= flip_factor;
            return;
        case Attack::constant_direction:
            point_away(sum);
            return;
        case Attack::fixed_direction:
            std::ranges::fill(sum, fixed_value * weight);
            return;
        default:
            return;
    }
}

void remember(Conspiracy& conspiracy,
              const PeerId& self,
              std::uint64_t first,
              std::span<const float> sum) {
    auto& sent = conspiracy.sent[self];
    sent.emplace_back(first, std::vector<float>(sum.begin(), sum.end()));
    if (sent.size() > sent_kept) sent.pop_front();
}

// Another attacker's sum is what it should have.
void find_right(const Conspiracy& conspiracy,
                const PeerId& author,
                std::uint64_t first,
                std::span<float> sum) {
    const auto sent = conspiracy.sent.find(author);
    if (sent == conspiracy.sent.end() || !conspiracy.members.contains(author)) return;
    for (const auto& [begin, vector] : sent->second)
        if (begin == first) std::ranges::copy(vector, sum.begin());
}

class Attacker final : public ModelAround {
  public:
    Attacker(std::unique_ptr<train::SampledModel> inside,
             PeerId self,
             std::shared_ptr<Preparation> preparation,
             std::shared_ptr<Conspiracy> conspiracy)
        : ModelAround(std::move(inside)),
          self_(self),
          author_(std::move(self)),
          preparation_(std::move(preparation)),
          conspiracy_(std::move(conspiracy)) {}

    Result<void> compute_as(const PeerId& author) override {
        author_ = author;
        return inside_->compute_as(author);
    }
    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        if (!begun_) first_ = samples.begin;
        begun_ = true;
        last_ = samples;
        summed_ += samples.size();
        preparation_->flips_labels = conspiracy_->attack == Attack::label_flip &&
                                     conspiracy_->members.contains(author_) &&
                                     conspiracy_->is_active(author_, step_);
        return inside_->accumulate(samples);
    }
    void take_sum(std::span<float> sum) override {
        inside_->take_sum(sum);
        const std::uint64_t first = first_;
        const std::uint64_t samples = std::exchange(summed_, 0);
        begun_ = false;
        if (conspiracy_->at_hand_in) return;
        if (author_ == self_) {
            if (samples > 0) attack(sum, samples);
            remember(*conspiracy_, self_, first, sum);
        } else if (conspiracy_->is_active(author_, step_)) {
            find_right(*conspiracy_, author_, first, sum);
        }
    }

  private:
    void attack(std::span<float> sum, std::uint64_t samples) {
        if (conspiracy_->attack == Attack::delayed) past_.emplace_back(sum.begin(), sum.end());
        if (past_.size() > delay_steps + 1) past_.pop_front();
        if (!conspiracy_->is_active(self_, step_)) return;
        const auto weight = static_cast<float>(samples);
        switch (conspiracy_->attack) {
            case Attack::delayed:
                std::ranges::copy(past_.front(), sum.begin());
                return;
            case Attack::inner_product_01:
                send(sum, weight, -0.1f, 0);
                return;
            case Attack::inner_product_06:
                send(sum, weight, -0.6f, 0);
                return;
            case Attack::little_is_enough:
                send(sum, weight, 1, -little_z);
                return;
            default:
                change(conspiracy_->attack, sum, weight);
                return;
        }
    }
    void send(std::span<float> sum, float weight, float of_mean, float of_deviation) {
        look_at_others(sum.size());
        const Conspiracy::Statistics& honest = conspiracy_->honest;
        for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] = weight * (of_mean * honest.mean[i] + of_deviation * honest.deviation[i]);
    }
    // The attackers' own honest gradients, of one micro-batch each.
    void look_at_others(std::size_t elements) {
        Conspiracy::Statistics& honest = conspiracy_->honest;
        if (std::exchange(honest.step, step_) == step_) return;
        std::vector<double> sums(elements);
        std::vector<double> squares(elements);
        std::vector<float> one(elements);
        const auto weight = static_cast<double>(last_.size());
        for (const PeerId& member : conspiracy_->members) {
            if (!inside_->compute_as(member) || !inside_->accumulate(last_)) continue;
            inside_->take_sum(one);
            for (std::size_t i = 0; i < elements; ++i) {
                const double value = static_cast<double>(one[i]) / weight;
                sums[i] += value;
                squares[i] += value * value;
            }
        }
        (void)inside_->compute_as(self_);
        const auto count = static_cast<double>(conspiracy_->members.size());
        honest.mean.resize(elements);
        honest.deviation.resize(elements);
        for (std::size_t i = 0; i < elements; ++i) {
            const double mean = sums[i] / count;
            honest.mean[i] = static_cast<float>(mean);
            honest.deviation[i] =
                static_cast<float>(std::sqrt(std::max(squares[i] / count - mean * mean, 0.0)));
        }
    }

    PeerId self_;
    PeerId author_;
    std::shared_ptr<Preparation> preparation_;
    std::shared_ptr<Conspiracy> conspiracy_;
    std::deque<std::vector<float>> past_;
    collab::CounterRange last_;
    std::uint64_t first_ = 0;
    std::uint64_t summed_ = 0;  // samples
    bool begun_ = false;
};

class Keeper final : public ModelAround {
  public:
    Keeper(std::unique_ptr<train::SampledModel> inside,
           std::uint64_t every,
           std::shared_ptr<KeptParameters> kept)
        : ModelAround(std::move(inside)), every_(every), kept_(std::move(kept)) {}
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        if (step_ % every_ == 0) kept_->try_emplace(step_, parameters.begin(), parameters.end());
        ModelAround::load(parameters, buffers);
    }

  private:
    std::uint64_t every_;
    std::shared_ptr<KeptParameters> kept_;
};

torch_bridge::TorchBatches pictures_of(std::shared_ptr<const tasks::FashionMnist> data,
                                       std::uint64_t seed,
                                       const PeerId& peer,
                                       std::shared_ptr<const Preparation> preparation) {
    auto order = std::make_shared<tasks::SampleOrder>(seed, peer, data->train.count);
    return [data = std::move(data), order, preparation = std::move(preparation)](
               collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
        auto batch = tasks::image_batch(data->train, order->indices(samples), {});
        if (preparation->flips_labels) batch.targets = 9 - batch.targets;
        if (preparation->scale != 1 || preparation->shift != 0)
            batch.inputs = batch.inputs * preparation->scale + preparation->shift;
        return batch;
    };
}

}  // namespace

std::string_view name_of(Attack attack) {
    switch (attack) {
        case Attack::none:
            return "none";
        case Attack::sign_flip:
            return "sign_flip";
        case Attack::label_flip:
            return "label_flip";
        case Attack::constant_direction:
            return "constant_direction";
        case Attack::delayed:
            return "delayed";
        case Attack::inner_product_01:
            return "inner_product_0.1";
        case Attack::inner_product_06:
            return "inner_product_0.6";
        case Attack::little_is_enough:
            return "little_is_enough";
        case Attack::colluding_pair:
            return "colluding_pair";
        case Attack::fixed_direction:
            return "fixed_direction";
        case Attack::new_keys:
            return "new_keys";
    }
    return "none";
}

Result<std::unique_ptr<train::SampledModel>> make_picture_learner(
    std::shared_ptr<const tasks::FashionMnist> data,
    std::uint64_t seed,
    const PeerId& peer,
    std::shared_ptr<const Preparation> preparation,
    std::uint64_t held_out_max) {
    torch_bridge::TorchParts parts;
    parts.make_model = [seed] { return tasks::make_vision_model("small_cnn", seed); };
    parts.self = peer;
    parts.train_batch = pictures_of(data, seed, peer, preparation);
    parts.batches_of =
        [data, seed, preparation](const PeerId& other) -> Result<torch_bridge::TorchBatches> {
        return pictures_of(data, seed, other, preparation);
    };
    parts.held_out_count = std::min<std::uint64_t>(data->test.count, held_out_max);
    parts.held_out_batch =
        [data](collab::CounterRange samples) -> Result<torch_bridge::TorchBatch> {
        std::vector<std::uint32_t> indices(samples.size());
        std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(samples.begin));
        return tasks::image_batch(data->test, indices, {});
    };
    parts.loss = torch_bridge::classification_loss;
    return torch_bridge::make_torch_learner(std::move(parts));
}

std::unique_ptr<train::SampledModel> make_attacker(std::unique_ptr<train::SampledModel> inside,
                                                   const PeerId& self,
                                                   std::shared_ptr<Preparation> preparation,
                                                   std::shared_ptr<Conspiracy> conspiracy) {
    return std::make_unique<Attacker>(
        std::move(inside), self, std::move(preparation), std::move(conspiracy));
}

void lie_at_hand_in(Conspiracy& conspiracy,
                    const PeerId& self,
                    std::uint64_t step,
                    collab::CounterRange samples,
                    std::span<float> sum) {
    if (!conspiracy.members.contains(self)) return;
    if (conspiracy.is_active(self, step))
        change(conspiracy.attack, sum, static_cast<float>(samples.size()));
    remember(conspiracy, self, samples.begin, sum);
}

void lie_in_check(const Conspiracy& conspiracy,
                  const PeerId& self,
                  const PeerId& author,
                  std::uint64_t step,
                  collab::CounterRange samples,
                  std::span<float> sum) {
    if (conspiracy.members.contains(self) && conspiracy.is_active(author, step))
        find_right(conspiracy, author, samples.begin, sum);
}

bool is_on_sums(Attack attack) {
    return attack == Attack::none || attack == Attack::sign_flip || attack == Attack::label_flip ||
           attack == Attack::constant_direction;
}

std::unique_ptr<train::SampledModel> make_keeper(std::unique_ptr<train::SampledModel> inside,
                                                 std::uint64_t every,
                                                 std::shared_ptr<KeptParameters> kept) {
    return std::make_unique<Keeper>(std::move(inside), every, std::move(kept));
}

}  // namespace dedloc::lab
