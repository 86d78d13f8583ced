#include "experiments/equivalence.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "dedloc/allreduce/mean_reducer.h"
#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/model_state.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/optim/schedule.h"
#include "dedloc/security/identity.h"
#include "dedloc/state/manifest.h"
#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/tasks/sample_order.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/tasks/vision_classifier/vision_models.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/libtorch.h"
#include "dedloc/wire/message.h"

#include "tests/common/exit_codes.h"
#include "tests/common/temporary_folder.h"
#include "tests/sim/image_task.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;
using collab::CounterRange;
using SnapshotPointer = std::shared_ptr<const state::Snapshot>;

constexpr double sgd_fp32_bound = 3e-6;
constexpr double sgd_fp16_bound = 1e-3;
constexpr std::uint64_t micro_batches_per_step = 4;  // of each peer
constexpr std::uint64_t micro_batch = 64;
constexpr auto peers_patience = std::chrono::seconds(60);

// The demo's network and warm-up; deadlines so long that nobody is left out, however busy the
// machine is. (Who is left out is carried: right, but another batch.)
constexpr std::string_view equivalence_run = R"(
name = "equivalence"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[schedule]
kind = "cosine"
warmup_steps = 25
total_steps = 250
final_fraction = 0.02
[averaging]
round_deadline_min = "100s"
round_deadline_max = "300s"
quorum_timeout = "1000s"
[evaluate]
every = 0
)";

struct Case {
    std::string name;  // "sgd_fp32"
    optim::OptimizerKind optimizer;
    codec::CodecId codec;
    double peak;  // learning rate
    double weight_decay;
};

Result<collab::RunFile> run_of(const Case& wanted, int peers) {
    DEDLOC_TRY(collab::RunFile run, collab::parse_run_file(equivalence_run, "equivalence"));
    run.batch.micro = micro_batch;
    run.batch.target = micro_batch * micro_batches_per_step * static_cast<std::uint64_t>(peers);
    run.optimizer.kind = wanted.optimizer;
    run.optimizer.schedule.peak = wanted.peak;
    run.optimizer.weight_decay = wanted.weight_decay;
    run.averaging.codec = wanted.codec;
    return run;
}

// One step of the collaboration, as its certificate and its peers tell it.
struct StepRecord {
    consensus::Decision decision;
    consensus::Plan plan;
    std::vector<Digest> states;  // of each peer after it
};

struct Recording {
    collab::Layout layout;
    SnapshotPointer first;
    std::vector<SnapshotPointer> after;  // each step
    std::vector<PeerId> peers;
    std::vector<StepRecord> steps;
};

CounterRange samples_of_step(std::uint64_t step) {
    const std::uint64_t count = micro_batch * micro_batches_per_step;
    return {step * count, (step + 1) * count};
}

// The sums that one peer hands in for one step.
Result<std::vector<float>> contribution(collab::Learner& learner,
                                        const collab::Layout& layout,
                                        const state::Snapshot& state,
                                        CounterRange samples,
                                        collab::Collaboration* tell) {
    learner.load(collab::parameters_of(state), collab::buffers_of(state));
    for (std::uint64_t begin = samples.begin; begin < samples.end; begin += micro_batch) {
        DEDLOC_TRY(const collab::GradientReport report,
                   learner.accumulate({begin, begin + micro_batch}));
        if (tell != nullptr) tell->report(micro_batch, report.loss_sum, 0.01);
    }
    std::vector<float> sum(layout.vector_count());
    const std::span<float> all(sum);
    learner.take(
        all.first(layout.parameters_count), all.subspan(layout.parameters_count), samples.size());
    return sum;
}

// ---- the collaboration --------------------------------------------------------------------------

Task<Result<collab::StepOutcome>> step_task(collab::Collaboration& collaboration,
                                            collab::Contribution handed_in) {
    co_return co_await collaboration.step(std::move(handed_in));
}

class Collaborators {
  public:
    Collaborators(const tasks::TrainingTask& task, collab::RunFile run, std::string folder)
        : task_(task), run_(std::move(run)), folder_(std::move(folder)) {}

    Result<Recording> play(int peers, std::uint64_t steps);

  private:
    struct Peer {
        std::unique_ptr<collab::Node> node;
        collab::CollaborationService* service = nullptr;  // the node's
        std::unique_ptr<collab::Learner> learner;
        std::vector<Digest> states;
        std::string problem;
    };

    Ok add_peer();
    Ok wait_until_all_stand_at(std::uint64_t step) const;
    void train(Peer& peer, std::uint64_t steps, std::barrier<>& together);
    Ok one_step(Peer& peer, std::uint64_t step);
    Result<StepRecord> newest_record() const;

    const tasks::TrainingTask& task_;
    collab::RunFile run_;
    std::string folder_;
    std::vector<std::unique_ptr<Peer>> peers_;
    Recording recording_;
    std::atomic<bool> failed_ = false;
};

// The PeerId decides the samples: the same every time, so that the numbers are.
Ok give_identity(const std::string& directory, std::size_t number) {
    const Bytes seed(32, static_cast<std::uint8_t>(number));
    DEDLOC_TRY(const security::Identity identity, security::Identity::from_seed(seed));
    const Bytes key = identity.private_key();
    std::error_code error;
    fs::create_directories(directory, error);
    std::ofstream file(directory + "/identity.key", std::ios::binary);
    file.write(reinterpret_cast<const char*>(key.data()), static_cast<std::streamsize>(key.size()));
    if (file.flush()) return {};
    return make_error(ErrorKind::local_fault, "cannot write in {}", directory);
}

Ok Collaborators::add_peer() {
    auto peer = std::make_unique<Peer>();
    const std::string directory = fmt::format("{}/peer-{}", folder_, peers_.size() + 1);
    DEDLOC_TRY_VOID(give_identity(directory, peers_.size() + 1));
    collab::NodeOptions node{.directory = directory,
                             .listen = {"/ip4/127.0.0.1/tcp/0"},
                             .announce = {},
                             .workers_count = 1};
    DEDLOC_TRY(peer->node, collab::Node::open(std::move(node)));
    peer->service = &peer->node->add<collab::CollaborationService>(*peer->node);
    DEDLOC_TRY(peer->learner, task_.learner(peer->node->id()));
    recording_.peers.push_back(peer->node->id());
    collab::Options options;
    options.run = run_;
    options.layout = peer->learner->layout();
    options.name = fmt::format("peer-{}", peers_.size() + 1);
    if (peers_.empty()) {
        recording_.layout = options.layout;
        std::vector<float> parameters(options.layout.parameters_count);
        std::vector<float> buffers(options.layout.buffers_count);
        peer->learner->initial(parameters, buffers);
        DEDLOC_TRY(options.initial,
                   collab::initial_state(
                       options.run, options.layout, std::move(parameters), std::move(buffers)));
        recording_.first = options.initial;
    } else {
        const collab::CollaborationService& host = *peers_.front()->service;
        const std::string join =
            host.node().run_on_network_thread([&] { return host.collaboration().join_string(); });
        DEDLOC_TRY(const collab::Invitation invitation,
                   collab::fetch_invitation(*peer->node, join, peers_patience));
        options.bootstrap = invitation.bootstrap;
        options.secret = invitation.secret;
    }
    DEDLOC_TRY_VOID(peer->service->begin(std::move(options), nullptr));
    peers_.push_back(std::move(peer));
    return {};
}

// Every peer knows every other one at this step: then a round's leader waits for all of them.
Ok Collaborators::wait_until_all_stand_at(std::uint64_t step) const {
    const auto deadline = std::chrono::steady_clock::now() + peers_patience;
    for (const auto& peer : peers_) {
        for (;;) {
            const collab::CollaborationService& service = *peer->service;
            const auto statuses = service.node().run_on_network_thread(
                [&] { return service.collaboration().peers(); });
            const auto here =
                std::count_if(statuses.begin(), statuses.end(), [&](const collab::Status& status) {
                    return status.step == step && status.phase == collab::Phase::computing;
                });
            if (static_cast<std::size_t>(here) == peers_.size()) break;
            if (std::chrono::steady_clock::now() > deadline)
                return make_error(ErrorKind::timeout,
                                  "only {} of {} peers stood at step {} after {} s",
                                  here,
                                  peers_.size(),
                                  step,
                                  peers_patience.count());
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }
    return {};
}

Ok Collaborators::one_step(Peer& peer, std::uint64_t step) {
    collab::Collaboration& collaboration = peer.service->collaboration();
    const SnapshotPointer state = collaboration.state();
    collab::Contribution handed_in;
    handed_in.samples = samples_of_step(step);
    DEDLOC_TRY(
        handed_in.sum,
        contribution(*peer.learner, recording_.layout, *state, handed_in.samples, &collaboration));
    DEDLOC_TRY(const collab::StepOutcome outcome,
               peer.node->call("step", step_task(collaboration, std::move(handed_in))));
    if (outcome.kind != collab::StepKind::stepped || outcome.state->step() != step + 1)
        return make_error(ErrorKind::conflict, "step {} ended at another state", step);
    peer.states.push_back(state::make_manifest(*outcome.state).root);
    return {};
}

void Collaborators::train(Peer& peer, std::uint64_t steps, std::barrier<>& together) {
    for (std::uint64_t step = 0; step < steps; ++step) {
        if (!failed_) {
            if (const Ok done = one_step(peer, step); !done) {
                peer.problem = done.error().message();
                failed_ = true;
            }
        }
        together.arrive_and_wait();  // all have stepped; the main thread looks
        together.arrive_and_wait();  // and lets them go on
    }
}

Result<StepRecord> Collaborators::newest_record() const {
    const collab::CollaborationService& service = *peers_.front()->service;
    const Bytes chain =
        service.node().run_on_network_thread([&] { return service.collaboration().chain(); });
    DEDLOC_TRY(const auto reply, wire::decode<consensus::CertificatesReply>(chain));
    if (reply.certificates.empty()) return make_error(ErrorKind::not_found, "no certificate");
    DEDLOC_TRY(const auto certificate,
               wire::decode<consensus::Certificate>(reply.certificates.back()));
    StepRecord record;
    DEDLOC_TRY(record.decision, wire::decode<consensus::Decision>(certificate.decision));
    if (record.decision.kind != consensus::DecisionKind::commit)
        return make_error(ErrorKind::conflict, "a step was not a commit");
    DEDLOC_TRY(record.plan, wire::decode<consensus::Plan>(record.decision.plan));
    for (const auto& peer : peers_) record.states.push_back(peer->states.back());
    return record;
}

Result<Recording> Collaborators::play(int peers, std::uint64_t steps) {
    for (int i = 0; i < peers; ++i) DEDLOC_TRY_VOID(add_peer());
    DEDLOC_TRY_VOID(wait_until_all_stand_at(0));
    std::barrier<> together(peers + 1);
    std::vector<std::thread> threads;
    for (const auto& peer : peers_)
        threads.emplace_back([&, peer = peer.get()] { train(*peer, steps, together); });
    Ok seen;
    for (std::uint64_t step = 0; step < steps; ++step) {
        together.arrive_and_wait();
        if (!failed_) {
            auto record = newest_record();
            if (record) recording_.steps.push_back(*std::move(record));
            recording_.after.push_back(peers_.front()->service->collaboration().state());
            seen = record ? wait_until_all_stand_at(step + 1) : Ok(record.error());
            if (!seen) failed_ = true;
        }
        together.arrive_and_wait();
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& peer : peers_)
        if (!peer->problem.empty()) return make_error(ErrorKind::conflict, "{}", peer->problem);
    DEDLOC_TRY_VOID(seen);
    return std::move(recording_);
}

// ---- one process plays all ----------------------------------------------------------------------

// Is the batch what it should be: everybody, whole, nothing else? Empty, or a sentence.
std::string batch_problem(const StepRecord& record, const Recording& recording) {
    std::vector<PeerId> expected = recording.peers;
    std::sort(expected.begin(), expected.end());
    const std::uint64_t step = record.plan.instance.step;
    if (record.plan.members.size() != expected.size())
        return fmt::format("step {} has {} members", step, record.plan.members.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const consensus::PlanMember& member = record.plan.members[i];
        const bool whole = member.peer == expected[i] &&
                           member.input.fresh == samples_of_step(step) &&
                           member.input.carried_ranges.empty();
        if (!whole) return fmt::format("step {} has another batch than was computed", step);
        for (const consensus::FinishedPart& part : record.decision.parts)
            if (!part.includes(i)) return fmt::format("step {} left somebody out", step);
    }
    return {};
}

struct Difference {
    std::uint64_t states = 0;  // steps after which a hash differed
    std::uint64_t parts = 0;   // averaged parts whose bytes differed
    std::string problem;
};

class Soloist {
  public:
    Soloist(const tasks::TrainingTask& task, const collab::RunFile& run, const Recording& recording)
        : task_(task), run_(run), recording_(recording) {}

    Result<Difference> play() {
        for (const PeerId& peer : recording_.peers) {
            DEDLOC_TRY(learners_[peer], task_.learner(peer));
        }
        SnapshotPointer state = recording_.first;
        for (const StepRecord& record : recording_.steps) {
            if (std::string problem = batch_problem(record, recording_); !problem.empty())
                difference_.problem = std::move(problem);
            DEDLOC_TRY(state, step(*state, record));
            const Digest root = state::make_manifest(*state).root;
            const bool equal = std::all_of(record.states.begin(),
                                           record.states.end(),
                                           [&](const Digest& theirs) { return theirs == root; });
            if (!equal) ++difference_.states;
        }
        return difference_;
    }

  private:
    Result<SnapshotPointer> step(const state::Snapshot& before, const StepRecord& record) {
        const consensus::Plan& plan = record.plan;
        std::vector<std::vector<float>> sums;
        for (const consensus::PlanMember& member : plan.members) {
            const auto learner = learners_.find(member.peer);
            if (learner == learners_.end())
                return make_error(ErrorKind::conflict, "a stranger is in the plan");
            DEDLOC_TRY(std::vector<float> sum,
                       contribution(*learner->second,
                                    recording_.layout,
                                    before,
                                    samples_of_step(before.step()),
                                    nullptr));
            sums.push_back(std::move(sum));
        }
        std::vector<SharedBytes> averages;
        for (std::uint32_t part = 0; part < plan.parts.size(); ++part)
            averages.push_back(average(record, part, sums));
        const collab::Layout& layout = recording_.layout;
        DEDLOC_TRY(const collab::AveragedVector average,
                   collab::averaged_vector(layout, plan, averages));
        return collab::next_state(run_, layout, before, record.decision, average.view());
    }

    SharedBytes average(const StepRecord& record,
                        std::uint32_t part,
                        const std::vector<std::vector<float>>& sums) {
        const consensus::Plan& plan = record.plan;
        const consensus::ElementRange range = plan.parts[part].range();
        std::vector<allreduce::PartInput> inputs;
        for (std::uint32_t i = 0; i < plan.members.size(); ++i) {
            const std::span<const float> sum = std::span(sums[i]).subspan(
                static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.count));
            inputs.push_back({i,
                              allreduce::encode_contribution(
                                  allreduce::codec_of(plan, part), sum, plan.members[i].input)});
        }
        const allreduce::ReducedPart reduced = allreduce::reduce_part(plan, part, inputs);
        if (reduced.digest != record.decision.parts[part].digest) ++difference_.parts;
        return reduced.encoded;
    }

    const tasks::TrainingTask& task_;
    const collab::RunFile& run_;
    const Recording& recording_;
    std::map<PeerId, std::unique_ptr<collab::Learner>> learners_;
    Difference difference_;
};

// ‖a - b‖ / ‖b‖
double relative_distance(std::span<const float> a, std::span<const float> b) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double x = a[i];
        const double y = b[i];
        difference += (x - y) * (x - y);
        size += y * y;
    }
    return std::sqrt(difference / size);
}

// ---- plain libtorch -----------------------------------------------------------------------------

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
    PlainLoop(const collab::RunFile& run,
              const Recording& recording,
              const tasks::FashionMnist& data)
        : run_(run), recording_(recording), data_(data) {}

    // The parameters after each step. `pieces`: of each peer's samples of a step; 0: one large
    // batch of all. The two differ in nothing but libtorch's own order of sums.
    Result<std::vector<std::vector<float>>> play(std::uint64_t pieces) {
        std::vector<std::vector<float>> after;
        const torch_bridge::TorchModel model =
            tasks::make_vision_model(run_.task.model, run_.task.seed);
        DEDLOC_TRY(torch_bridge::FlatModule flat, torch_bridge::FlatModule::make(model.module));
        flat.load(collab::parameters_of(*recording_.first), collab::buffers_of(*recording_.first));
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

    const collab::RunFile& run_;
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

// ---- the command --------------------------------------------------------------------------------

struct CaseOutcome {
    std::string name;
    bool bit_identical = false;
    Difference difference;
    double relative = 0;
    std::vector<double> by_step;
    double torch_itself = 0;  // a plain loop in micro-batches against the one with large batches
    double moved = 0;         // ‖last - first‖ / ‖first‖: what there was to differ in
    double seconds = 0;
};

Result<CaseOutcome> run_case(const Case& wanted,
                             const EquivalenceCommand& command,
                             const tasks::TrainingTask& task,
                             const tasks::FashionMnist& data) {
    const auto begun = std::chrono::steady_clock::now();
    CaseOutcome outcome;
    outcome.name = wanted.name;
    DEDLOC_TRY(const collab::RunFile run, run_of(wanted, command.peers));
    DEDLOC_TRY(const TemporaryFolder folder, TemporaryFolder::make());
    Collaborators collaborators(task, run, folder.path());
    DEDLOC_TRY(const Recording recording,
               collaborators.play(command.peers, static_cast<std::uint64_t>(command.steps)));
    Soloist soloist(task, run, recording);
    DEDLOC_TRY(outcome.difference, soloist.play());
    outcome.bit_identical = outcome.difference.states == 0 && outcome.difference.parts == 0 &&
                            outcome.difference.problem.empty();
    PlainLoop plain(run, recording, data);
    DEDLOC_TRY(const auto reference, plain.play(0));
    for (std::size_t step = 0; step < reference.size(); ++step)
        outcome.by_step.push_back(
            relative_distance(collab::parameters_of(*recording.after[step]), reference[step]));
    outcome.relative = outcome.by_step.back();
    PlainLoop in_pieces(run, recording, data);
    DEDLOC_TRY(const auto pieces, in_pieces.play(micro_batches_per_step));
    outcome.torch_itself = relative_distance(pieces.back(), reference.back());
    outcome.moved = relative_distance(collab::parameters_of(*recording.after.back()),
                                      collab::parameters_of(*recording.first));
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return outcome;
}

void print_outcome(const CaseOutcome& outcome, bool json) {
    std::FILE* out = json ? stderr : stdout;
    fmt::print(out,
               "{:<10} {}  relative {:.2g} (torch in micro-batches: {:.2g}; parameters moved by "
               "{:.2g})  {:.1f} s\n",
               outcome.name,
               outcome.bit_identical ? "bit-identical" : "NOT identical",
               outcome.relative,
               outcome.torch_itself,
               outcome.moved,
               outcome.seconds);
    std::string by_step;
    for (const double distance : outcome.by_step) by_step += fmt::format(" {:.1e}", distance);
    fmt::print(out, "           after each step:{}\n", by_step);
    if (!outcome.bit_identical)
        fmt::print(out,
                   "           {} states and {} parts differ{}{}\n",
                   outcome.difference.states,
                   outcome.difference.parts,
                   outcome.difference.problem.empty() ? "" : "; ",
                   outcome.difference.problem);
    std::fflush(out);
}

}  // namespace

int run_equivalence(const EquivalenceCommand& command) {
    const auto begun = std::chrono::steady_clock::now();
    using optim::OptimizerKind;
    const std::vector<Case> cases = {
        {"sgd_fp32", OptimizerKind::sgd, codec::CodecId::fp32, command.rate, 0},
        {"sgd_fp16", OptimizerKind::sgd, codec::CodecId::fp16, command.rate, 0},
        {"adamw_fp32", OptimizerKind::adamw, codec::CodecId::fp32, 0.01, 0.01},
        {"lamb_fp32", OptimizerKind::lamb, codec::CodecId::fp32, 0.02, 0.01}};
    const std::string directory = command.data_directory.empty()
                                      ? std::string(tasks::fashion_mnist_directory)
                                      : command.data_directory;
    const auto data = tasks::load_fashion_mnist(directory);
    if (!data) return exit_after(data.error());
    const collab::TaskConfig config = image_task();
    const tasks::TaskOptions options{
        .device = "cpu", .threads_count = 1, .data_directory = directory};
    const auto task = tasks::make_task(config, options);
    if (!task) return exit_after(task.error());

    std::map<std::string, CaseOutcome> outcomes;
    bool identical = true;
    for (const Case& wanted : cases) {
        auto outcome = run_case(wanted, command, **task, *data);
        if (!outcome) return exit_after(outcome.error().with_context(wanted.name));
        print_outcome(*outcome, command.json);
        identical = identical && outcome->bit_identical;
        outcomes[wanted.name] = *std::move(outcome);
    }
    const double relative = outcomes["sgd_fp32"].relative;
    const double relative_fp16 = outcomes["sgd_fp16"].relative;
    const bool held = identical && relative <= sgd_fp32_bound && relative_fp16 <= sgd_fp16_bound;
    if (command.json) {
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
        const nlohmann::ordered_json json{{"ok", held},
                                          {"steps", command.steps},
                                          {"peers", command.peers},
                                          {"bit_identical", identical},
                                          {"relative", relative},
                                          {"relative_fp16", relative_fp16},
                                          {"relative_torch", outcomes["sgd_fp32"].torch_itself},
                                          {"relative_adamw", outcomes["adamw_fp32"].relative},
                                          {"relative_lamb", outcomes["lamb_fp32"].relative},
                                          {"moved", outcomes["sgd_fp32"].moved},
                                          {"seconds", seconds}};
        fmt::print("{}\n", monitor::json_line(json));
    }
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
