#include "experiments/equivalence_recording.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/security/identity.h"
#include "dedloc/state/manifest.h"
#include "dedloc/wire/message.h"

#include "experiments/replayable.h"

namespace dedloc::lab::equivalence {

CounterRange samples_of_step(std::uint64_t step) {
    const std::uint64_t count = micro_batch * micro_batches_per_step;
    return {step * count, (step + 1) * count};
}

Result<std::vector<float>> contribution(train::SampledModel& learner,
                                        const run::Layout& layout,
                                        const state::Snapshot& state,
                                        CounterRange samples,
                                        collab::Collaboration* tell) {
    learner.load(replica::parameters_of(state), replica::buffers_of(state));
    for (std::uint64_t begin = samples.begin; begin < samples.end; begin += micro_batch) {
        DEDLOC_TRY(const train::GradientReport report,
                   learner.accumulate({begin, begin + micro_batch}));
        if (tell != nullptr) tell->report(micro_batch, report.loss_sum, 0.01);
    }
    std::vector<float> sum(layout.vector_count());
    const std::span<float> all(sum);
    learner.take(
        all.first(layout.parameters_count), all.subspan(layout.parameters_count), samples.size());
    return sum;
}

namespace {

namespace fs = std::filesystem;

constexpr auto peers_timeout = std::chrono::seconds(60);

Task<Result<collab::StepOutcome>> step_task(collab::Collaboration& collaboration,
                                            collab::Contribution handed_in) {
    co_return co_await collaboration.step(std::move(handed_in));
}

class Collaborators {
  public:
    Collaborators(const tasks::TrainingTask& task, run::RunFile run, std::string folder)
        : task_(task), run_(std::move(run)), folder_(std::move(folder)) {}

    Result<Recording> play(int peers, std::uint64_t steps);

  private:
    struct Peer {
        std::unique_ptr<collab::Node> node;
        collab::CollaborationService* service = nullptr;  // the node's
        std::unique_ptr<train::SampledModel> learner;
        std::vector<Digest> states;
        std::string problem;
    };

    Ok add_peer();
    Ok wait_until_all_stand_at(std::uint64_t step) const;
    void train(Peer& peer, std::uint64_t steps, std::barrier<>& together);
    Ok one_step(Peer& peer, std::uint64_t step);
    Result<StepRecord> newest_record() const;

    const tasks::TrainingTask& task_;
    run::RunFile run_;
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
    collab::CollaborationOptions options;
    options.run = run_;
    options.layout = peer->learner->layout();
    options.name = fmt::format("peer-{}", peers_.size() + 1);
    if (peers_.empty()) {
        recording_.layout = options.layout;
        std::vector<float> parameters(options.layout.parameters_count);
        std::vector<float> buffers(options.layout.buffers_count);
        peer->learner->store(parameters, buffers);
        DEDLOC_TRY(options.initial,
                   replica::initial_state(
                       options.run, options.layout, std::move(parameters), std::move(buffers)));
        recording_.first = options.initial;
    } else {
        const collab::CollaborationService& host = *peers_.front()->service;
        const std::string join =
            host.node().run_on_network_thread([&] { return host.collaboration().join_string(); });
        DEDLOC_TRY(const collab::Invitation invitation,
                   collab::fetch_invitation(*peer->node, join, peers_timeout));
        options.bootstrap = invitation.bootstrap;
        options.secret = invitation.secret;
    }
    DEDLOC_TRY_VOID(peer->service->begin(std::move(options), nullptr));
    peers_.push_back(std::move(peer));
    return {};
}

// Every peer knows every other one at this step: then a round's leader waits for all of them.
Ok Collaborators::wait_until_all_stand_at(std::uint64_t step) const {
    const auto deadline = std::chrono::steady_clock::now() + peers_timeout;
    for (const auto& peer : peers_) {
        for (;;) {
            const collab::CollaborationService& service = *peer->service;
            const auto statuses = service.node().run_on_network_thread(
                [&] { return service.collaboration().peers(); });
            const auto here = std::count_if(
                statuses.begin(), statuses.end(), [&](const membership::Status& status) {
                    return status.step == step && status.phase == membership::Phase::computing;
                });
            if (static_cast<std::size_t>(here) == peers_.size()) break;
            if (std::chrono::steady_clock::now() > deadline)
                return make_error(ErrorKind::timeout,
                                  "only {} of {} peers stood at step {} after {} s",
                                  here,
                                  peers_.size(),
                                  step,
                                  peers_timeout.count());
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
    DEDLOC_TRY(record.plan, wire::decode<consensus::RoundPlan>(record.decision.plan));
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

}  // namespace

Result<Recording> record_collaboration(const tasks::TrainingTask& task,
                                       const run::RunFile& run,
                                       const std::string& folder,
                                       int peers,
                                       std::uint64_t steps) {
    DEDLOC_TRY_VOID(check_replayable(run));
    return Collaborators(task, run, folder).play(peers, steps);
}

}  // namespace dedloc::lab::equivalence
