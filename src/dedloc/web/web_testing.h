// A run for the tests of this module: its facts, peers, and events as a log has them.

#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/web/run_store.h"

namespace dedloc::web::testing {

inline PeerId peer(std::uint8_t number) {
    Bytes bytes(34, number);
    bytes[0] = 0x12;  // a SHA-256, as identities are
    bytes[1] = 32;
    return *PeerId::from_bytes(bytes);
}

inline RunFacts facts(Mode mode = Mode::peer) {
    RunFacts made;
    made.mode = mode;
    made.version = "0.1.0";
    made.run.name = "words \"and\" more";
    made.run.batch.target = 1024;
    made.us = peer(1);
    made.started = 1000;
    made.may = {"pause"};
    made.vector_bytes = 4e6;
    return made;
}

// Half a second a step; peer 1 brings a quarter, and reduces a half.
inline events::Event step_event(std::uint64_t step) {
    events::StepMade made;
    made.step = step;
    made.samples = 1024;
    made.samples_total = 1024.0 * static_cast<double>(step);
    made.members = 2;
    made.contributors = 2;
    made.loss = 1.0 / static_cast<double>(step);
    made.learning_rate = 0.125;
    made.seconds = 0.5;
    made.predicted_s = 0.0625;
    made.set_times(
        {.computing_s = 0.25, .waiting_s = 0.125, .averaging_s = 0.0625, .applying_s = 0.0625});
    made.gradient_norm = 2;
    made.shares = std::make_shared<const std::vector<events::StepShare>>(
        std::vector<events::StepShare>{{.peer = peer(1), .samples = 256, .owned = 0.5},
                                       {.peer = peer(2), .samples = 768, .owned = 0.5}});
    return {.time = 1000 + 0.5 * static_cast<double>(step),
            .peer = {},
            .step = step,
            .text = "step " + std::to_string(step),
            .what = std::move(made)};
}

inline events::Event event_of(double time, events::Any what, PeerId about = {}) {
    return {.time = time,
            .peer = std::move(about),
            .step = 1,
            .text = "a text",
            .what = std::move(what)};
}

inline membership::Status status_of(std::uint8_t number, membership::Phase phase) {
    membership::Status status;
    status.peer = peer(number);
    status.name = "peer-" + std::to_string(number);
    status.phase = phase;
    status.step = 3;
    status.version = "0.1.0";
    status.samples_per_s = 100;
    status.upload_bytes_per_s = 1e6;
    status.committed_samples = 999'999;  // what it says of itself
    return status;
}

// The view of those statuses, as a peer's main thread makes it.
inline RunSnapshot snapshot_of(const std::vector<membership::Status>& statuses, WallSeconds now) {
    monitor::RunModel model(facts().run, peer(1), 1000);
    model.update(statuses, now);
    RunSnapshot snapshot;
    snapshot.view = model.view();
    snapshot.statuses = statuses;
    snapshot.now = now;
    return snapshot;
}

}  // namespace dedloc::web::testing
