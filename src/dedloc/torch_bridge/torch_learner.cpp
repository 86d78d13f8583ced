#include "dedloc/torch_bridge/torch_learner.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "dedloc/runtime/machine.h"
#include "dedloc/torch_bridge/autocast.h"
#include "dedloc/torch_bridge/cuda_library.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/libtorch_error.h"
#include "dedloc/torch_bridge/loss_scale.h"
#include "dedloc/torch_bridge/module_model.h"

namespace dedloc::torch_bridge {

namespace {

class TorchLearner final : public OverModule<train::SampledModel> {
  public:
    TorchLearner(TorchParts parts, TorchModel model, FlatModule flat)
        : OverModule(std::move(flat)),
          parts_(std::move(parts)),
          model_(std::move(model)),
          scale_(parts_.loss_scale > 0 ? parts_.loss_scale
                 : parts_.fp16         ? LossScale::start
                                       : 1) {
        model_.module->train();
    }

    run::Layout layout() const override {
        run::Layout layout = flat_.layout();
        if (parts_.shape_groups) parts_.shape_groups(layout.parameters);
        return layout;
    }

    void at_step(std::uint64_t global_step) override {
        if (model_.at_step) model_.at_step(global_step);
    }

    void limit_norm(double norm_max) override { norm_max_ = norm_max; }

    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        bool computes = false;
        try {
            for (;;) {
                DEDLOC_TRY(TorchBatch batch, (others_ ? others_ : parts_.train_batch)(samples));
                flat_.remember_buffers();
                computes = true;
                const TorchLoss loss = training_loss(std::move(batch));
                train::GradientReport report{.loss_sum = loss.sum.item<double>()};
                if (loss.correct.defined()) report.correct_sum = loss.correct.item<double>();
                if (!std::isfinite(report.loss_sum)) return left_out();
                backward(loss.sum);
                if (scale_.value() > 1 && !flat_.gradients_are_sound(0) && scale_.halve()) {
                    leave_out();
                    continue;
                }
                const double norm_max = norm_max_ * std::sqrt(static_cast<double>(samples.size()));
                if (!flat_.gradients_are_sound(norm_max * scale_.value())) return left_out();
                // The last that can fail: a caller may try the samples again.
                flat_.add_gradients(1 / scale_.value());
                scale_.sound();
                return report;
            }
        } catch (const std::exception& failure) {
            return failed(failure, computes);
        }
    }

    Result<void> compute_as(const PeerId& author) override {
        if (!parts_.batches_of) return Samples::compute_as(author);
        others_ = nullptr;
        if (author == parts_.self) return {};
        DEDLOC_TRY(others_, parts_.batches_of(author));
        return {};
    }

    Result<collab::Evaluation> evaluate() override {
        model_.module->eval();
        Result<collab::Evaluation> evaluation = evaluate_now();
        model_.module->train();
        return evaluation;
    }

    void cancel_evaluation() override { evaluation_cancelled_ = true; }

  private:
    // Memory may run out half-way through a pass. A device that broke fails at taking back, too.
    Error failed(const std::exception& failure, bool began) {
        try {
            if (began) leave_out();
        } catch (const std::exception& again) {
            return libtorch_error("taking back a gradient that failed", again);
        }
        return libtorch_error("computing a gradient", failure);
    }

    train::GradientReport left_out() {
        leave_out();
        return {.loss_sum = 0, .correct_sum = 0, .finite = false};
    }

    TorchLoss training_loss(TorchBatch batch) {
        std::optional<Autocast> autocast;
        if (parts_.bf16) autocast.emplace(flat_.device().type(), torch::kBFloat16);
        if (parts_.fp16) autocast.emplace(flat_.device().type(), torch::kHalf);
        return loss_of(std::move(batch));
    }

    void backward(const torch::Tensor& loss) const {
        (scale_.value() == 1 ? loss : loss * scale_.value()).backward();
    }

    TorchLoss loss_of(TorchBatch batch) {
        batch.inputs = batch.inputs.to(flat_.device());
        batch.targets = batch.targets.to(flat_.device());
        if (model_.loss) return model_.loss(batch);
        return parts_.loss(model_.forward(batch.inputs), batch.targets);
    }

    Result<collab::Evaluation> evaluate_now() {
        torch::NoGradGuard no_grad;
        if (model_.evaluate) return evaluate_itself();
        collab::Evaluation evaluation{.samples = parts_.held_out_count};
        bool counts_correct = false;
        double correct_sum = 0;
        try {
            for (std::uint64_t begin = 0; begin < parts_.held_out_count;) {
                if (evaluation_cancelled_)
                    return make_error(ErrorKind::cancelled, "the evaluation was cancelled");
                const std::uint64_t end =
                    std::min(begin + parts_.held_out_batch_samples_max, parts_.held_out_count);
                DEDLOC_TRY(TorchBatch batch, parts_.held_out_batch({begin, end}));
                const TorchLoss loss = loss_of(std::move(batch));
                evaluation.loss += loss.sum.item<double>();
                counts_correct = loss.correct.defined();
                if (counts_correct) correct_sum += loss.correct.item<double>();
                begin = end;
            }
        } catch (const std::exception& failure) {
            return libtorch_error("evaluating the model", failure);
        }
        const auto count = static_cast<double>(parts_.held_out_count);
        evaluation.loss /= count;
        evaluation.accuracy =
            counts_correct ? correct_sum / count : std::numeric_limits<double>::quiet_NaN();
        return evaluation;
    }

    Result<collab::Evaluation> evaluate_itself() {
        const auto cancelled = [this] { return evaluation_cancelled_.load(); };
        try {
            return model_.evaluate(cancelled);
        } catch (const std::exception& failure) {
            return libtorch_error("evaluating the model", failure);
        }
    }

    TorchParts parts_;
    TorchBatches others_;  // of the peer that is computed as; empty: our own
    TorchModel model_;
    LossScale scale_;
    double norm_max_ = 0;  // of one sample's gradient
    std::atomic<bool> evaluation_cancelled_ = false;
};

}  // namespace

Result<std::unique_ptr<train::SampledModel>> make_torch_learner(TorchParts parts) {
    if (parts.fp16 && torch::Device(parts.device).is_cpu())
        return make_error(ErrorKind::unsupported,
                          "precision = \"fp16\" is computed on GPUs only, and this machine "
                          "computes on its CPU; a run for both says \"bf16\" or \"fp32\"");
    try {
        TorchModel model = parts.make_model();
        model.module->to(torch::Device(parts.device));
        DEDLOC_TRY(FlatModule flat, FlatModule::make(model.module));
        return std::unique_ptr<train::SampledModel>(
            std::make_unique<TorchLearner>(std::move(parts), std::move(model), std::move(flat)));
    } catch (const std::exception& failure) {
        return libtorch_error("making the model", failure);
    }
}

TorchLoss classification_loss(const torch::Tensor& outputs, const torch::Tensor& targets) {
    namespace functional = torch::nn::functional;
    const auto sum = functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    return {.sum = functional::cross_entropy(outputs.to(torch::kFloat32), targets, sum),
            .correct = (outputs.detach().argmax(1) == targets).sum()};
}

void set_compute_threads(int threads_count) {
    const int usable = static_cast<int>(runtime::usable_processors());
    if (threads_count == 0) threads_count = std::min(torch::get_num_threads(), usable);
    torch::set_num_threads(threads_count);
}

Result<std::string> choose_device(const std::string& wish) {
    if (wish != "cpu") load_cuda_library();
    const bool has_cuda = torch::cuda::is_available();
    if (wish == "auto" || wish.empty()) return std::string(has_cuda ? "cuda" : "cpu");
    if (wish == "cpu") return wish;
    if (wish == "cuda" || wish.starts_with("cuda:")) {
        if (!has_cuda) {
            return make_error(ErrorKind::unsupported,
                              "no CUDA device is usable here (driver, card, or a libtorch built "
                              "without CUDA); use 'cpu'");
        }
        try {
            return torch::Device(wish).str();
        } catch (const std::exception&) {
            // Falls through to the sentence below: libtorch could not read the number.
        }
    }
    return make_error(
        ErrorKind::bad_input, "'{}' is not a device; use auto, cpu, cuda or cuda:1", wish);
}

}  // namespace dedloc::torch_bridge
