#include "dedloc/tasks/swav/swav_learner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dedloc::tasks {
namespace {

using torch_bridge::TorchBatch;
using torch_bridge::TorchLoss;
using torch_bridge::TorchModel;

constexpr std::uint64_t loss_batch = 64;     // held-out samples whose assignments are balanced
constexpr std::uint64_t loss_samples = 256;  // that an evaluation looks at
constexpr std::int64_t features_batch = 64;
constexpr double centre_share = 0.875;  // of ImageNet's evaluations

// Means and deviations of Fashion-MNIST's training pictures, and of ImageNet's.
constexpr double grey_mean = 0.2860;
constexpr double grey_deviation = 0.3530;
const std::vector<double>& means() {
    static const std::vector<double> values = {0.485, 0.456, 0.406};
    return values;
}
const std::vector<double>& deviations() {
    static const std::vector<double> values = {0.229, 0.224, 0.225};
    return values;
}

// Bytes [n, channels, side, side] to what a network takes.
torch::Tensor normalised(const torch::Tensor& bytes) {
    const torch::Tensor x = bytes.to(torch::kFloat32) / 255;
    if (bytes.size(1) == 1) return (x - grey_mean) / grey_deviation;
    const auto across = [&x](const std::vector<double>& values) {
        return torch::tensor(values, torch::kFloat32).to(x.device()).view({1, 3, 1, 1});
    };
    return (x - across(means())) / across(deviations());
}

// Samples × crops to crops × samples, as chunks of the loss are.
torch::Tensor crop_by_crop(const std::vector<const Bytes*>& samples,
                           std::uint64_t crops,
                           std::int64_t channels,
                           std::uint64_t side) {
    const auto count = static_cast<std::int64_t>(samples.size());
    const auto pixels = static_cast<std::int64_t>(side);
    torch::Tensor all = torch::empty(
        {static_cast<std::int64_t>(crops), count, channels, pixels, pixels}, torch::kUInt8);
    const std::size_t one = static_cast<std::size_t>(channels) * side * side;
    auto* out = all.data_ptr<std::uint8_t>();
    for (std::size_t crop = 0; crop < crops; ++crop)
        for (const Bytes* sample : samples)
            out = std::copy_n(sample->data() + crop * one, one, out);
    return all.flatten(0, 1);
}

TorchBatch batch_of(const SwavSetup& setup, const std::vector<SwavSample>& samples) {
    std::vector<const Bytes*> large;
    std::vector<const Bytes*> small;
    for (const SwavSample& sample : samples) {
        large.push_back(&sample.large);
        small.push_back(&sample.small);
    }
    const SwavKeys& keys = setup.keys;
    TorchBatch batch{
        .inputs = crop_by_crop(large, keys.large_crops, setup.channels, keys.large_side),
        .targets = torch::zeros({static_cast<std::int64_t>(samples.size())})};
    if (keys.small_crops > 0)
        batch.more.push_back(
            crop_by_crop(small, keys.small_crops, setup.channels, keys.small_side));
    return batch;
}

SwavModel::Output forward(SwavModel& model, const TorchBatch& batch) {
    std::vector<torch::Tensor> resolutions{normalised(batch.inputs)};
    for (const torch::Tensor& crops : batch.more)
        resolutions.push_back(normalised(crops.to(batch.inputs.device())));
    return model.forward(resolutions);
}

// The part of training that changes from batch to batch beside the model.
class TrainingLoss {
  public:
    TrainingLoss(const SwavKeys& keys, std::shared_ptr<SwavModel> model)
        : keys_(keys),
          model_(std::move(model)),
          queue_(static_cast<std::int64_t>(keys.queue),
                 static_cast<std::int64_t>(keys.large_crops)) {}

    void at_step(std::uint64_t step) {
        if (step != step_ && step != step_ + 1) queue_.clear();
        step_ = step;
    }

    TorchLoss of(const TorchBatch& batch) {
        const SwavModel::Output output = forward(*model_, batch);
        const bool queues = keys_.queue > 0 && step_ >= keys_.queue_from;
        const torch::Tensor loss =
            swav_loss(output.scores,
                      loss_options(keys_),
                      queues ? queue_.scores(model_->prototypes()) : std::vector<torch::Tensor>());
        if (queues && std::isfinite(loss.item<double>()))
            queue_.push(output.embeddings.to(torch::kFloat32),
                        static_cast<std::int64_t>(keys_.crops()));
        return {.sum = loss * static_cast<double>(batch.targets.size(0)), .correct = {}};
    }

  private:
    SwavKeys keys_;
    std::shared_ptr<SwavModel> model_;
    SwavQueue queue_;
    std::uint64_t step_ = 0;
};

Error was_cancelled() { return make_error(ErrorKind::cancelled, "the evaluation was cancelled"); }

Result<torch::Tensor> features_of(const SwavSetup& setup,
                                  SwavModel& model,
                                  std::uint32_t begin,
                                  std::uint32_t end) {
    const auto side = static_cast<std::uint32_t>(setup.keys.large_side);
    const double share = setup.config.data == swav_idx_data ? 1 : centre_share;
    Bytes planes;
    for (std::uint32_t i = begin; i < end; ++i) {
        DEDLOC_TRY(const images::Picture picture, setup.pictures->held_out(i));
        append_planes(images::centre_crop(picture, side, share), setup.channels, planes);
    }
    const torch::Tensor bytes =
        torch::from_blob(planes.data(), {end - begin, setup.channels, side, side}, torch::kUInt8);
    const auto device = model.prototypes().device();
    return model.features(normalised(bytes.to(device))).to(torch::kFloat32).cpu();
}

Result<collab::Evaluation> evaluation_of(const SwavSetup& setup,
                                         SwavModel& model,
                                         const std::function<bool()>& cancelled) {
    collab::Evaluation evaluation;
    DEDLOC_TRY(evaluation.loss, held_out_loss(setup, model, loss_samples, cancelled));
    evaluation.accuracy = std::numeric_limits<double>::quiet_NaN();
    evaluation.samples = std::min<std::uint64_t>(loss_samples, setup.pictures->held_out_count());
    const auto classes = static_cast<std::int64_t>(setup.pictures->classes_count());
    if (classes < 2) return evaluation;
    DEDLOC_TRY(const EvaluationHalves halves, held_out_features(setup, model, cancelled));
    evaluation.accuracy =
        neighbours_accuracy(halves, static_cast<std::int64_t>(setup.keys.neighbours), classes);
    evaluation.samples = static_cast<std::uint64_t>(halves.queries.labels.size(0));
    return evaluation;
}

}  // namespace

SwavLossOptions loss_options(const SwavKeys& keys) {
    return {.crops = static_cast<std::int64_t>(keys.crops()),
            .assigning_crops = static_cast<std::int64_t>(keys.large_crops),
            .temperature = keys.temperature,
            .epsilon = keys.epsilon,
            .iterations = static_cast<int>(keys.iterations)};
}

TorchModel swav_torch_model(const SwavSetup& setup) {
    const auto model =
        std::make_shared<SwavModel>(setup.config.model, setup.channels, setup.config.seed);
    const auto loss = std::make_shared<TrainingLoss>(setup.keys, model);
    TorchModel result{.module = model};
    result.loss = [loss](const TorchBatch& batch) { return loss->of(batch); };
    result.at_step = [loss](std::uint64_t step) { loss->at_step(step); };
    result.evaluate = [setup, model = model.get()](const std::function<bool()>& cancelled) {
        return evaluation_of(setup, *model, cancelled);
    };
    return result;
}

Result<TorchBatch> swav_batch(const SwavSetup& setup,
                              SwavCrops& crops,
                              collab::CounterRange samples) {
    std::vector<SwavSample> taken;
    for (std::uint64_t number = samples.begin; number < samples.end; ++number) {
        DEDLOC_TRY(SwavSample sample, crops.take(number));
        taken.push_back(std::move(sample));
    }
    return batch_of(setup, taken);
}

Result<EvaluationHalves> held_out_features(const SwavSetup& setup,
                                           SwavModel& model,
                                           const std::function<bool()>& cancelled) {
    const torch::NoGradGuard none;
    const std::uint32_t count = setup.pictures->held_out_count();
    std::vector<torch::Tensor> features;
    torch::Tensor labels = torch::empty({count}, torch::kInt64);
    for (std::uint32_t begin = 0; begin < count; begin += features_batch) {
        if (cancelled()) return was_cancelled();
        const std::uint32_t end = std::min<std::uint32_t>(count, begin + features_batch);
        DEDLOC_TRY(torch::Tensor some, features_of(setup, model, begin, end));
        features.push_back(std::move(some));
        for (std::uint32_t i = begin; i < end; ++i)
            labels.data_ptr<std::int64_t>()[i] = setup.pictures->held_out_label(i);
    }
    const torch::Tensor all = torch::cat(features);
    const std::int64_t half = count / 2;
    return EvaluationHalves{.bank = {all.slice(0, 0, half), labels.slice(0, 0, half)},
                            .queries = {all.slice(0, half), labels.slice(0, half)}};
}

Result<double> held_out_loss(const SwavSetup& setup,
                             SwavModel& model,
                             std::uint64_t samples,
                             const std::function<bool()>& cancelled) {
    const torch::NoGradGuard none;
    samples = std::min<std::uint64_t>(samples, setup.pictures->held_out_count());
    double sum = 0;
    for (std::uint64_t begin = 0; begin < samples; begin += loss_batch) {
        if (cancelled()) return was_cancelled();
        const std::uint64_t end = std::min(samples, begin + loss_batch);
        std::vector<SwavSample> taken;
        for (std::uint64_t i = begin; i < end; ++i) {
            DEDLOC_TRY(const images::Picture picture,
                       setup.pictures->held_out(static_cast<std::uint32_t>(i)));
            Random random = images::random_of_sample(setup.config.seed, PeerId(), i);
            taken.push_back(crops_of(picture, setup.keys, setup.channels, random));
        }
        TorchBatch batch = batch_of(setup, taken);
        batch.inputs = batch.inputs.to(model.prototypes().device());
        const torch::Tensor loss =
            swav_loss(forward(model, batch).scores, loss_options(setup.keys));
        sum += loss.item<double>() * static_cast<double>(end - begin);
    }
    return sum / static_cast<double>(samples);
}

}  // namespace dedloc::tasks
