#include "experiments/equivalence_plain.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "dedloc/optim/schedule.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/sample_order.h"
#include "dedloc/tasks/vision_classifier/vision_models.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::lab::equivalence {
namespace {

// torch_optimizer's LAMB in double precision, as simply as it can be written.
class ReferenceLamb {
  public:
    ReferenceLamb(const optim::OptimizerConfig& config, std::vector<torch::Tensor> parameters)
        : config_(config), parameters_(std::move(parameters)) {
        for (const torch::Tensor& parameter : parameters_) {
            values_.push_back(parameter.detach().to(torch::kFloat64).clone());
            first_.push_back(torch::zeros_like(values_.back()));
            second_.push_back(torch::zeros_like(values_.back()));
        }
    }

    void step(double rate, int t) {
        torch::NoGradGuard no_grad;
        const double correction =
            std::sqrt(1 - std::pow(config_.beta2, t)) / (1 - std::pow(config_.beta1, t));
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            const torch::Tensor gradient = parameters_[i].grad().to(torch::kFloat64);
            first_[i] = config_.beta1 * first_[i] + (1 - config_.beta1) * gradient;
            second_[i] = config_.beta2 * second_[i] + (1 - config_.beta2) * gradient * gradient;
            torch::Tensor direction = first_[i] / (second_[i].sqrt() + config_.epsilon);
            if (parameters_[i].dim() >= 2) direction += config_.weight_decay * values_[i];
            const double norm = std::min(values_[i].norm().item<double>(), config_.norm_clamp);
            const double direction_norm = direction.norm().item<double>();
            const double trust = norm > 0 && direction_norm > 0 ? norm / direction_norm : 1;
            values_[i] -= rate * correction * trust * direction;
            parameters_[i].copy_(values_[i]);
        }
    }

  private:
    optim::OptimizerConfig config_;
    std::vector<torch::Tensor> parameters_;
    std::vector<torch::Tensor> values_;
    std::vector<torch::Tensor> first_;
    std::vector<torch::Tensor> second_;
};

class PlainLoop {
  public:
    PlainLoop(const run::RunFile& run, const Recording& recording, const tasks::FashionMnist& data)
        : run_(run), recording_(recording), data_(data) {}

    Result<std::vector<std::vector<float>>> play(std::uint64_t pieces) {
        std::vector<std::vector<float>> after;
        const torch_bridge::TorchModel model =
            tasks::make_vision_model(run_.task.model, run_.task.seed);
        DEDLOC_TRY(torch_bridge::FlatModule flat, torch_bridge::FlatModule::make(model.module));
        flat.load(replica::parameters_of(*recording_.first),
                  replica::buffers_of(*recording_.first));
        const std::vector<torch::Tensor> parameters = model.module->parameters();
        prepare(parameters);
        std::vector<PeerId> peers = recording_.peers;
        std::sort(peers.begin(), peers.end());
        for (std::uint64_t step = 0; step < recording_.steps.size(); ++step) {
            for (const torch::Tensor& parameter : parameters)
                if (parameter.grad().defined()) parameter.grad().zero_();
            if (pieces == 0)
                accumulate(model, peers, samples_of_step(step));
            else
                for (const PeerId& peer : peers)
                    for (const CounterRange& piece : cut(samples_of_step(step), pieces))
                        accumulate(model, {peer}, piece);
            apply(step);
            std::vector<float> result(recording_.layout.parameters_count);
            std::vector<float> buffers(recording_.layout.buffers_count);
            flat.store(result, buffers);
            after.push_back(std::move(result));
        }
        return after;
    }

  private:
    void prepare(const std::vector<torch::Tensor>& parameters);
    static std::vector<CounterRange> cut(CounterRange samples, std::uint64_t pieces) {
        std::vector<CounterRange> ranges;
        const std::uint64_t size = samples.size() / pieces;
        for (std::uint64_t begin = samples.begin; begin < samples.end; begin += size)
            ranges.push_back({begin, begin + size});
        return ranges;
    }
    // Adds the samples' share of the gradient of the mean over the step's batch.
    void accumulate(const torch_bridge::TorchModel& model,
                    const std::vector<PeerId>& peers,
                    CounterRange samples) {
        const torch_bridge::TorchBatch batch = batch_of(peers, samples);
        const auto mean =
            torch::nn::functional::cross_entropy(model.forward(batch.inputs), batch.targets);
        const double share =
            static_cast<double>(batch.targets.size(0)) / static_cast<double>(run_.batch.target);
        (share == 1 ? mean : mean * share).backward();
    }
    torch_bridge::TorchBatch batch_of(const std::vector<PeerId>& peers, CounterRange samples);
    void apply(std::uint64_t step);

    const run::RunFile& run_;
    const Recording& recording_;
    const tasks::FashionMnist& data_;
    std::unique_ptr<torch::optim::Optimizer> optimizer_;
    std::unique_ptr<ReferenceLamb> lamb_;
};

// Weight decay as dedloc's groups have it: on tensors of two dimensions and more.
void PlainLoop::prepare(const std::vector<torch::Tensor>& parameters) {
    const optim::OptimizerConfig& config = run_.optimizer;
    if (config.kind == optim::OptimizerKind::lamb) {
        lamb_ = std::make_unique<ReferenceLamb>(config, parameters);
        return;
    }
    std::vector<torch::Tensor> decayed;
    std::vector<torch::Tensor> others;
    for (const torch::Tensor& parameter : parameters)
        (parameter.dim() >= 2 ? decayed : others).push_back(parameter);
    if (config.kind == optim::OptimizerKind::sgd) {
        const torch::optim::SGDOptions options(1);
        std::vector<torch::optim::OptimizerParamGroup> groups;
        for (const bool decays : {true, false}) {
            auto own = std::make_unique<torch::optim::SGDOptions>(options);
            own->momentum(config.momentum).weight_decay(decays ? config.weight_decay : 0);
            groups.emplace_back(decays ? decayed : others, std::move(own));
        }
        optimizer_ = std::make_unique<torch::optim::SGD>(std::move(groups), options);
        return;
    }
    const torch::optim::AdamWOptions options(1);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const bool decays : {true, false}) {
        auto own = std::make_unique<torch::optim::AdamWOptions>(options);
        own->betas({config.beta1, config.beta2}).eps(config.epsilon);
        own->weight_decay(decays ? config.weight_decay : 0);
        groups.emplace_back(decays ? decayed : others, std::move(own));
    }
    optimizer_ = std::make_unique<torch::optim::AdamW>(std::move(groups), options);
}

torch_bridge::TorchBatch PlainLoop::batch_of(const std::vector<PeerId>& peers,
                                             CounterRange samples) {
    std::vector<std::uint32_t> indices;
    for (const PeerId& peer : peers) {
        tasks::SampleOrder order(run_.task.seed, peer, data_.train.count);
        const std::vector<std::uint32_t> own = order.indices(samples);
        indices.insert(indices.end(), own.begin(), own.end());
    }
    return tasks::image_batch(data_.train, indices, {});
}

void PlainLoop::apply(std::uint64_t step) {
    const double rate = optim::learning_rate(run_.optimizer.schedule, step);
    if (lamb_) return lamb_->step(rate, static_cast<int>(step) + 1);
    for (torch::optim::OptimizerParamGroup& group : optimizer_->param_groups()) {
        if (run_.optimizer.kind == optim::OptimizerKind::sgd)
            static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
        else
            static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
    }
    optimizer_->step();
}

}  // namespace

Result<std::vector<std::vector<float>>> train_plainly(const run::RunFile& run,
                                                      const Recording& recording,
                                                      const tasks::FashionMnist& data,
                                                      std::uint64_t pieces) {
    return PlainLoop(run, recording, data).play(pieces);
}

}  // namespace dedloc::lab::equivalence
