#include "experiments/mini_collaboration.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "dedloc/replica/model_state.h"
#include "dedloc/security/identity.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;

constexpr auto mini_timeout = std::chrono::seconds(60);
constexpr auto mini_leave_grace_period = std::chrono::seconds(20);
constexpr auto mini_look = std::chrono::milliseconds(20);

Result<security::Identity> identity_of(std::size_t number) {
    return security::Identity::from_seed(Bytes(32, static_cast<std::uint8_t>(number)));
}

Task<Result<void>> stop_task(collab::Collaboration& collaboration) {
    co_await collaboration.stop();
    co_return Result<void>();
}

}  // namespace

Result<std::shared_ptr<const state::Snapshot>> mini_first_state(const run::RunFile& run,
                                                                train::SampledModel& learner) {
    const run::Layout layout = learner.layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    learner.store(parameters, buffers);
    return replica::initial_state(run, layout, std::move(parameters), std::move(buffers));
}

// ---- a peer -------------------------------------------------------------------------------------

MiniPeer::MiniPeer(const tasks::TrainingTask& task, std::size_t number, const std::string& folder)
    : task_(task), number_(number), directory_(fmt::format("{}/peer-{}", folder, number)) {}

std::shared_ptr<const state::Snapshot> MiniPeer::state() const {
    return service_->collaboration().state();
}

std::string MiniPeer::join_string() const {
    return node_->run_on_network_thread([this] { return service_->collaboration().join_string(); });
}

std::map<std::uint64_t, StepSeen> MiniPeer::steps() const {
    const std::lock_guard lock(mutex_);
    return seen_;
}

void MiniPeer::record(const events::Event& event) {
    std::optional<StepSeen> seen = step_in(event);
    if (!seen) return;
    const std::lock_guard lock(mutex_);
    const std::uint64_t step = seen->step;
    seen_[step] = *std::move(seen);
}

// The PeerId decides the samples: the same every time.
Ok MiniPeer::write_identity() const {
    DEDLOC_TRY(const security::Identity identity, identity_of(number_));
    const Bytes key = identity.private_key();
    std::error_code error;
    fs::create_directories(directory_, error);
    const std::string path = directory_ + "/identity.key";
    std::ofstream file(path, std::ios::binary);
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, error);
    file.write(reinterpret_cast<const char*>(key.data()), static_cast<std::streamsize>(key.size()));
    if (file.flush()) return {};
    return make_error(ErrorKind::local_fault, "cannot write in {}", directory_);
}

Ok MiniPeer::start(const run::RunFile& run, const std::string& join) {
    DEDLOC_TRY_VOID(write_identity());
    collab::NodeOptions node;
    node.directory = directory_;
    node.listen = {"/ip4/127.0.0.1/tcp/0"};
    DEDLOC_TRY(node_, collab::Node::open(std::move(node)));
    service_ = &node_->add<collab::CollaborationService>(*node_);
    DEDLOC_TRY(auto learner, task_.learner(node_->id()));
    collab::CollaborationOptions options;
    options.run = run;
    options.layout = learner->layout();
    options.name = fmt::format("peer-{}", number_);
    if (join.empty()) {
        DEDLOC_TRY(options.initial, mini_first_state(run, *learner));
    } else {
        DEDLOC_TRY(const collab::Invitation invitation,
                   collab::fetch_invitation(*node_, join, mini_timeout));
        options.bootstrap = invitation.bootstrap;
        options.secret = invitation.secret;
    }
    DEDLOC_TRY_VOID(service_->begin(std::move(options), this));
    train::TrainerOptions trainer;
    trainer.micro_batch = run.batch.micro;
    trainer.loop.evaluate_every = 0;
    trainer.loop.delayed = run.averaging.delayed;
    trainer.on_end = [this](const Result<void>& how) { failed_ = !how; };
    trainer_ = std::make_unique<train::Trainer>(node_->spawn(),
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
    trainer_->stop(mini_leave_grace_period);
    service_->leave(mini_leave_grace_period);
    (void)trainer_->join();
    trainer_.reset();
    node_.reset();
}

// ---- together -----------------------------------------------------------------------------------

MiniCollaboration::MiniCollaboration(run::RunFile run,
                                     const tasks::TrainingTask& task,
                                     const std::string& folder,
                                     MiniPlan plan)
    : run_(std::move(run)), plan_(std::move(plan)) {
    for (std::size_t number = 1; number <= plan_.peers; ++number)
        peers_.push_back(std::make_unique<MiniPeer>(task, number, folder));
}

Ok MiniCollaboration::begin() {
    std::string join;
    for (std::size_t i = 0; i < plan_.first_peers; ++i) {
        DEDLOC_TRY_VOID(peers_[i]->start(run_, join));
        if (join.empty()) join = peers_[i]->join_string();
    }
    return {};
}

MiniPeer& MiniCollaboration::newest() const {
    MiniPeer* best = nullptr;
    for (const auto& peer : peers_) {
        if (!peer->alive()) continue;
        if (!best || peer->state()->step() > best->state()->step()) best = peer.get();
    }
    DEDLOC_CHECK(best, "no peer is left");
    return *best;
}

Ok MiniCollaboration::act(const MiniAct& act) {
    done_.push_back(fmt::format("step {}: {}", act.step, act.text));
    fmt::print(stderr, "together  step {:>4}  {}\n", act.step, act.text);
    MiniPeer& peer = *peers_[act.peer - 1];
    if (act.deed == MiniDeed::kill) peer.kill();
    if (act.deed == MiniDeed::leave) peer.leave();
    if (act.deed == MiniDeed::join) return peer.start(run_, newest().join_string());
    return {};
}

Ok MiniCollaboration::look_for_failures() const {
    for (const auto& peer : peers_)
        if (peer->alive() && peer->failed())
            return make_error(ErrorKind::conflict, "peer {} stopped training", peer->number());
    return {};
}

Ok MiniCollaboration::train(const Observer& observe) {
    DEDLOC_TRY_VOID(begin());
    std::uint64_t observed = 0;
    bool over = false;
    for (bool first = true; !over; first = false) {
        const auto state = newest().state();
        if (next_act_ < plan_.acts.size() && state->step() >= plan_.acts[next_act_].step)
            DEDLOC_TRY_VOID(act(plan_.acts[next_act_++]));
        if (first || state->step() / plan_.observe_every > observed / plan_.observe_every) {
            observed = state->step();
            DEDLOC_TRY(over, observe(*state));
        }
        DEDLOC_TRY_VOID(look_for_failures());
        if (!over) std::this_thread::sleep_for(mini_look);
    }
    steps_ = newest().state()->step();
    compare();
    return {};
}

// The last step that every living peer has applied, not before the one at which we stopped.
std::optional<std::uint64_t> MiniCollaboration::common_step() const {
    std::map<std::uint64_t, std::size_t> counts;
    std::size_t living = 0;
    for (const auto& peer : peers_) {
        if (!peer->alive()) continue;
        ++living;
        for (const auto& [step, seen] : peer->steps())
            if (step >= steps_) ++counts[step];
    }
    std::optional<std::uint64_t> common;
    for (const auto& [step, count] : counts)
        if (count == living) common = step;
    return common;
}

void MiniCollaboration::compare() {
    const auto deadline = std::chrono::steady_clock::now() + mini_timeout;
    std::optional<std::uint64_t> common = common_step();
    while (!common && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(mini_look);
        common = common_step();
    }
    std::map<std::uint64_t, std::vector<std::string>> by_step;
    std::map<std::uint64_t, std::vector<double>> losses;
    for (const auto& peer : peers_) {
        const auto steps = peer->steps();
        for (const auto& [step, seen] : steps) {
            by_step[step].push_back(seen.hash);
            hashes_.emplace(step, seen.hash);
            if (seen.loss > 0) losses[step].push_back(seen.loss);
        }
        if (!peer->alive()) continue;
        const auto last = common ? steps.find(*common) : steps.end();
        final_hashes_.push_back(last == steps.end() ? "none" : last->second.hash);
    }
    for (const auto& [step, all] : losses)
        for (const double loss : all) losses_[step] += loss / static_cast<double>(all.size());
    for (const auto& [step, hashes] : by_step) {
        if (hashes.size() < 2) continue;
        ++compared_;
        if (std::set<std::string>(hashes.begin(), hashes.end()).size() > 1) ++different_;
    }
    for (const auto& peer : peers_) peer->kill();
}

bool MiniCollaboration::identical() const {
    const std::set<std::string> finals(final_hashes_.begin(), final_hashes_.end());
    return finals.size() == 1 && !finals.contains("none") && different_ == 0;
}

// ---- alone --------------------------------------------------------------------------------------

Ok train_alone(const run::RunFile& run,
               const tasks::TrainingTask& task,
               std::uint64_t observe_every,
               const LookAlone& observe) {
    DEDLOC_TRY(const security::Identity identity, identity_of(1));
    DEDLOC_TRY(const auto learner, task.learner(identity.id()));
    const run::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> gradient(layout.parameters_count);
    learner->store(parameters, {});
    const optim::MomentSizes sizes =
        optim::moment_sizes(run.optimizer, layout.parameters, parameters.size());
    const std::size_t count = optim::moments_count(run.optimizer);
    std::vector<std::vector<float>> values(count, std::vector<float>(sizes.values));
    std::vector<std::vector<std::uint8_t>> codes(count, std::vector<std::uint8_t>(sizes.codes));
    std::vector<std::vector<float>> scales(count, std::vector<float>(sizes.scales));
    std::vector<optim::MomentView> moments;
    for (std::size_t i = 0; i < count; ++i) moments.push_back({values[i], codes[i], scales[i]});
    const std::uint64_t target = run.batch.target;
    for (std::uint64_t step = 0;; ++step) {
        if (step % observe_every == 0) {
            DEDLOC_TRY(const bool over, observe(step, parameters));
            if (over) return {};
        }
        learner->load(parameters, {});
        DEDLOC_TRY_VOID(learner->accumulate({step * target, (step + 1) * target}));
        learner->take(gradient, {}, target);
        for (float& value : gradient) value /= static_cast<float>(target);
        (void)optim::step(run.optimizer, layout.parameters, step, parameters, gradient, moments);
    }
}

}  // namespace dedloc::lab
