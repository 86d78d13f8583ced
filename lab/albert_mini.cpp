#include "lab/albert_mini.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/collab/model_state.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/security/identity.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/trainer/trainer.h"

#include "lab/exit_codes.h"
#include "lab/step_book.h"
#include "lab/temporary_folder.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr double samples_ratio_bound = 1.1;
constexpr std::uint64_t measure_every = 10;  // global steps
constexpr auto albert_patience = std::chrono::seconds(60);
constexpr auto leave_patience = std::chrono::seconds(20);

constexpr std::string_view albert_mini_run = R"(
name = "albert-mini"
[task]
kind = "albert"
model = "albert"
data = "kjv"
[albert]
vocabulary = 4096
embedding = 64
hidden = 128
layers = 4
heads = 4
feed_forward = 512
positions = 64
classifier_dropout = 0.0
[text]
tokenizer = "vocabulary=4096"
length = 64
held_out_samples = 192
window_samples = 1024
[optimizer]
kind = "lamb"
weight_decay = 0.01
epsilon = 1e-6
[schedule]
peak = 0.02
warmup_steps = 20
[averaging]
round_deadline_min = "2s"
round_deadline_max = "60s"
quorum_timeout = "10s"
[evaluate]
every = 0
)";

double value_of(const std::vector<tasks::Measure>& measures, std::string_view name) {
    for (const tasks::Measure& measure : measures)
        if (measure.name == name) return measure.value;
    return 0;
}

double processor_seconds() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// Losses by samples, until they are low enough.
class Curve {
  public:
    Curve(const AlbertMiniCommand& command, const tasks::TrainingTask& task, std::string name)
        : command_(command), task_(task), name_(std::move(name)) {}

    Ok measure(std::uint64_t step, std::uint64_t samples, std::span<const float> parameters) {
        DEDLOC_TRY(const auto measures, task_.measure(parameters, {}, 0));
        const double loss = value_of(measures, "masked_loss");
        const auto here = static_cast<double>(samples);
        if (loss <= command_.loss && !reached_) {
            const double fallen = last_loss_ - loss;
            const double part = fallen > 0 ? (last_loss_ - command_.loss) / fallen : 1;
            samples_to_loss_ = last_samples_ + part * (here - last_samples_);
            reached_ = true;
        }
        last_loss_ = loss;
        last_samples_ = here;
        fmt::print(stderr,
                   "{:<9} step {:>4}  {:>6} samples  masked words {:.3f}  order {:.3f}  {:.0f} s\n",
                   name_,
                   step,
                   samples,
                   loss,
                   value_of(measures, "order_loss"),
                   seconds());
        return {};
    }

    bool reached() const { return reached_; }
    bool over() const {
        return reached_ || last_samples_ >= static_cast<double>(command_.samples_max) ||
               seconds() > command_.seconds_max;
    }
    double loss() const { return last_loss_; }
    double samples() const { return reached_ ? samples_to_loss_ : last_samples_; }
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    }

  private:
    const AlbertMiniCommand& command_;
    const tasks::TrainingTask& task_;
    std::string name_;
    std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    double last_loss_ = 0;
    double last_samples_ = 0;
    double samples_to_loss_ = 0;
    bool reached_ = false;
};

Result<security::Identity> identity_of(std::size_t number) {
    return security::Identity::from_seed(Bytes(32, static_cast<std::uint8_t>(number)));
}

// ---- alone --------------------------------------------------------------------------------------

Ok train_alone(const collab::RunFile& run, const tasks::TrainingTask& task, Curve& curve) {
    DEDLOC_TRY(const security::Identity identity, identity_of(1));
    DEDLOC_TRY(const auto learner, task.learner(identity.id()));
    const collab::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> gradient(layout.parameters_count);
    learner->initial(parameters, {});
    std::vector<std::vector<float>> moments(optim::moments_count(run.optimizer),
                                            std::vector<float>(layout.parameters_count));
    std::vector<std::span<float>> moment_spans(moments.begin(), moments.end());
    const std::uint64_t target = run.batch.target;
    for (std::uint64_t step = 0;; ++step) {
        if (step % measure_every == 0) {
            DEDLOC_TRY_VOID(curve.measure(step, step * target, parameters));
            if (curve.over()) return {};
        }
        learner->load(parameters, {});
        DEDLOC_TRY_VOID(learner->accumulate({step * target, (step + 1) * target}));
        learner->take(gradient, {}, target);
        for (float& value : gradient) value /= static_cast<float>(target);
        (void)optim::step(
            run.optimizer, layout.parameters, step, parameters, gradient, moment_spans);
    }
}

// ---- together -----------------------------------------------------------------------------------

Task<Result<void>> stop_task(collab::Collaboration& collaboration) {
    co_await collaboration.stop();
    co_return Result<void>();
}

// One peer of this process; its folder outlives it.
class MiniPeer final : public collab::EventSink {
  public:
    MiniPeer(const tasks::TrainingTask& task, std::size_t number, const std::string& folder)
        : task_(task), number_(number), directory_(fmt::format("{}/peer-{}", folder, number)) {}
    ~MiniPeer() override { kill(); }

    // Without a join string: hosts.
    Ok start(const collab::RunFile& run, const std::string& join);
    // As if the process died: not a word to anybody.
    void kill();
    void leave();

    bool alive() const { return node_ != nullptr; }
    std::size_t number() const { return number_; }
    std::shared_ptr<const state::Snapshot> state() const {
        return service_->collaboration().state();
    }
    std::string join_string() const {
        return node_->run_on_network_thread(
            [this] { return service_->collaboration().join_string(); });
    }
    std::map<std::uint64_t, std::string> hashes() const {
        const std::lock_guard lock(mutex_);
        return hashes_;
    }
    bool failed() const { return failed_; }

    void record(const collab::Event& event) override {
        const std::optional<StepSeen> seen = step_in(event);
        if (!seen) return;
        const std::lock_guard lock(mutex_);
        hashes_[seen->step] = seen->hash;
    }

  private:
    Ok write_identity() const;

    const tasks::TrainingTask& task_;
    std::size_t number_;
    std::string directory_;
    std::unique_ptr<collab::Node> node_;
    collab::CollaborationService* service_ = nullptr;  // the node's
    std::unique_ptr<trainer::Trainer> trainer_;
    std::atomic<bool> failed_ = false;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::string> hashes_;  // by step; under mutex_
};

// The PeerId decides the samples: the same every time.
Ok MiniPeer::write_identity() const {
    DEDLOC_TRY(const security::Identity identity, identity_of(number_));
    const Bytes key = identity.private_key();
    std::error_code error;
    fs::create_directories(directory_, error);
    std::ofstream file(directory_ + "/identity.key", std::ios::binary);
    file.write(reinterpret_cast<const char*>(key.data()), static_cast<std::streamsize>(key.size()));
    if (file.flush()) return {};
    return make_error(ErrorKind::local_fault, "cannot write in {}", directory_);
}

Ok MiniPeer::start(const collab::RunFile& run, const std::string& join) {
    DEDLOC_TRY_VOID(write_identity());
    collab::NodeOptions node;
    node.directory = directory_;
    node.listen = {"/ip4/127.0.0.1/tcp/0"};
    DEDLOC_TRY(node_, collab::Node::open(std::move(node)));
    service_ = &node_->add<collab::CollaborationService>(*node_);
    DEDLOC_TRY(auto learner, task_.learner(node_->id()));
    collab::Options options;
    options.run = run;
    options.layout = learner->layout();
    options.name = fmt::format("peer-{}", number_);
    if (join.empty()) {
        std::vector<float> parameters(options.layout.parameters_count);
        learner->initial(parameters, {});
        DEDLOC_TRY(options.initial,
                   collab::initial_state(run, options.layout, std::move(parameters), {}));
    } else {
        DEDLOC_TRY(const collab::Invitation invitation,
                   collab::fetch_invitation(*node_, join, albert_patience));
        options.bootstrap = invitation.bootstrap;
        options.secret = invitation.secret;
    }
    DEDLOC_TRY_VOID(service_->begin(std::move(options), this));
    trainer::TrainerOptions trainer;
    trainer.micro_batch = run.batch.micro;
    trainer.evaluate_every = 0;
    trainer.on_end = [this](const Result<void>& how) { failed_ = !how; };
    trainer_ = std::make_unique<trainer::Trainer>(node_->spawn(),
                                                  node_->clock(),
                                                  node_->disk(),
                                                  service_->collaboration(),
                                                  std::move(learner),
                                                  std::move(trainer));
    trainer_->start();
    return {};
}

void MiniPeer::kill() {
    if (trainer_) {
        trainer_->stop(Duration(0));
        (void)node_->call("stop", stop_task(service_->collaboration()));
        (void)trainer_->join();
    }
    trainer_.reset();
    node_.reset();
}

void MiniPeer::leave() {
    trainer_->stop(leave_patience);
    service_->leave(leave_patience);
    (void)trainer_->join();
    trainer_.reset();
    node_.reset();
}

// What happens to whom, by global steps.
enum class Deed { kill, leave, join };
struct Act {
    std::uint64_t step;
    Deed deed;
    std::size_t peer;
    const char* text;
};
constexpr Act acts[] = {{30, Deed::kill, 3, "peer 3 is killed"},
                        {50, Deed::join, 3, "peer 3 comes back"},
                        {70, Deed::leave, 2, "peer 2 leaves in order"},
                        {90, Deed::join, 5, "peer 5 joins"},
                        {120, Deed::kill, 1, "peer 1, the host, is killed"},
                        {140, Deed::join, 2, "peer 2 comes back"}};

class Collaboration {
  public:
    Collaboration(const collab::RunFile& run, const tasks::TrainingTask& task, std::string folder) {
        constexpr std::size_t peers = 5;
        run_ = run;
        for (std::size_t number = 1; number <= peers; ++number)
            peers_.push_back(std::make_unique<MiniPeer>(task, number, folder));
    }

    Ok train(Curve& curve);

    std::vector<std::string> done;          // acts
    std::vector<std::string> final_hashes;  // of the living
    std::uint64_t compared = 0;
    std::uint64_t different = 0;
    std::uint64_t steps = 0;

  private:
    Ok begin();
    Ok act(const Act& act);
    MiniPeer& newest() const;
    std::optional<std::uint64_t> common_step() const;
    Ok compare();

    collab::RunFile run_;
    std::vector<std::unique_ptr<MiniPeer>> peers_;
    std::size_t next_act_ = 0;
};

Ok Collaboration::begin() {
    constexpr std::size_t first_peers = 4;
    std::string join;
    for (std::size_t i = 0; i < first_peers; ++i) {
        DEDLOC_TRY_VOID(peers_[i]->start(run_, join));
        if (join.empty()) join = peers_[i]->join_string();
    }
    return {};
}

MiniPeer& Collaboration::newest() const {
    MiniPeer* best = nullptr;
    for (const auto& peer : peers_) {
        if (!peer->alive()) continue;
        if (!best || peer->state()->step() > best->state()->step()) best = peer.get();
    }
    DEDLOC_CHECK(best, "no peer is left");
    return *best;
}

Ok Collaboration::act(const Act& act) {
    done.push_back(fmt::format("step {}: {}", act.step, act.text));
    fmt::print(stderr, "together  step {:>4}  {}\n", act.step, act.text);
    MiniPeer& peer = *peers_[act.peer - 1];
    if (act.deed == Deed::kill) peer.kill();
    if (act.deed == Deed::leave) peer.leave();
    if (act.deed == Deed::join) return peer.start(run_, newest().join_string());
    return {};
}

Ok Collaboration::train(Curve& curve) {
    DEDLOC_TRY_VOID(begin());
    std::uint64_t measured = 0;
    bool first = true;
    while (!curve.over()) {
        const auto state = newest().state();
        if (next_act_ < std::size(acts) && state->step() >= acts[next_act_].step)
            DEDLOC_TRY_VOID(act(acts[next_act_++]));
        if (first || state->step() / measure_every > measured / measure_every) {
            first = false;
            measured = state->step();
            DEDLOC_TRY_VOID(
                curve.measure(measured, state->info().samples, collab::parameters_of(*state)));
        }
        for (const auto& peer : peers_)
            if (peer->alive() && peer->failed())
                return make_error(ErrorKind::conflict, "peer {} stopped training", peer->number());
        if (curve.seconds() > 2 * 3600.0) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    steps = newest().state()->step();
    return compare();
}

// The last step that every living peer has applied, not before the one at which we stopped.
std::optional<std::uint64_t> Collaboration::common_step() const {
    std::map<std::uint64_t, std::size_t> counts;
    std::size_t living = 0;
    for (const auto& peer : peers_) {
        if (!peer->alive()) continue;
        ++living;
        for (const auto& [step, hash] : peer->hashes())
            if (step >= steps) ++counts[step];
    }
    std::optional<std::uint64_t> common;
    for (const auto& [step, count] : counts)
        if (count == living) common = step;
    return common;
}

Ok Collaboration::compare() {
    const auto deadline = std::chrono::steady_clock::now() + albert_patience;
    std::optional<std::uint64_t> common = common_step();
    while (!common && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        common = common_step();
    }
    std::map<std::uint64_t, std::vector<std::string>> by_step;
    for (const auto& peer : peers_) {
        for (const auto& [step, hash] : peer->hashes()) by_step[step].push_back(hash);
        if (peer->alive()) {
            const auto hashes = peer->hashes();
            const auto last = common ? hashes.find(*common) : hashes.end();
            final_hashes.push_back(last == hashes.end() ? "none" : last->second);
        }
    }
    for (const auto& [step, hashes] : by_step) {
        if (hashes.size() < 2) continue;
        ++compared;
        if (std::set<std::string>(hashes.begin(), hashes.end()).size() > 1) ++different;
    }
    for (const auto& peer : peers_) peer->kill();
    return {};
}

}  // namespace

// ---- the command --------------------------------------------------------------------------------

int run_albert_mini(const AlbertMiniCommand& command) {
    auto run = collab::parse_run_file(albert_mini_run, "albert-mini");
    if (!run) return exit_after(run.error());
    run->batch.target = command.target;
    run->batch.micro = command.micro;
    const tasks::TaskOptions options{.device = "cpu", .threads_count = 1};
    const auto task = tasks::make_task(run->task, options);
    if (!task) return exit_after(task.error());
    run->task = (*task)->decided_config().value_or(run->task);

    Curve alone(command, **task, "alone");
    double processor = processor_seconds();
    if (const Ok trained = train_alone(*run, **task, alone); !trained)
        return exit_after(trained.error());
    const double processor_alone = processor_seconds() - processor;
    const double seconds_alone = alone.seconds();

    const auto folder = TemporaryFolder::make();
    if (!folder) return exit_after(folder.error());
    Curve curve(command, **task, "together");
    processor = processor_seconds();
    Collaboration together(*run, **task, folder->path());
    if (const Ok trained = together.train(curve); !trained) return exit_after(trained.error());
    const std::set<std::string> finals(together.final_hashes.begin(), together.final_hashes.end());
    const bool identical = finals.size() == 1 && together.different == 0;
    const bool held = alone.reached() && curve.reached() && identical &&
                      curve.samples() <= samples_ratio_bound * alone.samples();
    const nlohmann::ordered_json json{{"ok", held},
                                      {"loss", curve.loss()},
                                      {"loss_alone", alone.loss()},
                                      {"samples", curve.samples()},
                                      {"samples_alone", alone.samples()},
                                      {"ratio", curve.samples() / alone.samples()},
                                      {"steps", together.steps},
                                      {"churn", together.done},
                                      {"identical", identical},
                                      {"state_hashes", together.final_hashes},
                                      {"steps_compared", together.compared},
                                      {"steps_different", together.different},
                                      {"seconds", curve.seconds()},
                                      {"seconds_alone", seconds_alone},
                                      {"processor_seconds", processor_seconds() - processor},
                                      {"processor_seconds_alone", processor_alone}};
    if (command.json) {
        fmt::print("{}\n", monitor::json_line(json));
    } else {
        fmt::print(
            "masked words reach {:.2f} after {:.0f} samples alone and {:.0f} together "
            "({:.2f} times); {} steps, after {} of {} compared ones hashes differed\n",
            command.loss,
            alone.samples(),
            curve.samples(),
            curve.samples() / alone.samples(),
            together.steps,
            together.different,
            together.compared);
    }
    return held ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
