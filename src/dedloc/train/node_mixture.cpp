#include "dedloc/train/node_mixture.h"

#include <optional>

#include "dedloc/base/log.h"
#include "dedloc/security/hash.h"

namespace dedloc::train {

namespace {

constexpr Duration check_again = std::chrono::milliseconds(500);

std::uint64_t own_seed() {
    std::uint64_t seed = 0;
    security::secure_random(std::span(reinterpret_cast<std::uint8_t*>(&seed), sizeof seed));
    return seed;
}

using Passed = MixtureCalls::Passed;
using Gradients = MixtureCalls::Gradients;

// Since when nobody answers; `begun`: of the first pass that nobody did.
struct Silence {
    std::optional<TimePoint> begun;
};

Error nobody_serves(const experts::MixtureOptions& options) {
    return make_error(ErrorKind::timeout,
                      "none of the {} experts of the grid {} has answered for {:.0f} s: somebody "
                      "has to serve them (`dedloc serve JOIN_STRING`), in the folders of those who "
                      "did before, or what they learnt is lost",
                      options.grid.experts_count(),
                      options.grid.name,
                      to_seconds(options.nobody_max));
}

Task<Result<Passed>> pass_forward(experts::MixtureClient& mixture,
                                  Silence& silence,
                                  runtime::Clock& clock,
                                  experts::Tensor inputs,
                                  std::vector<experts::GridScores> scores) {
    const experts::MixtureOptions& options = mixture.options();
    const TimePoint begun = clock.now();
    bool told = false;
    for (;;) {
        experts::Tensor rows = inputs;
        std::vector<experts::GridScores> asked = scores;
        auto passed = co_await mixture.forward(std::move(rows), std::move(asked));
        if (!passed) co_return passed;
        if (!passed->all_lost()) {
            silence.begun.reset();
            co_return passed;
        }
        if (!silence.begun) silence.begun = begun;
        if (clock.now() - *silence.begun >= options.nobody_max) co_return nobody_serves(options);
        if (clock.now() - begun >= NodeMixture::found_timeout) co_return passed;
        if (!std::exchange(told, true))
            log(LogLevel::info, "experts", "no expert of {} answers; waiting", options.grid.name);
        co_await clock.sleep_for(check_again);
    }
}

Task<Result<Gradients>> pass_backward(experts::MixtureClient& mixture,
                                      Passed passed,
                                      experts::Tensor output_gradients) {
    co_return co_await mixture.backward(std::move(passed), std::move(output_gradients));
}

}  // namespace

struct NodeMixture::Client {
    Client(const collab::Node& node, experts::MixtureOptions options)
        : directory(*node.dht(), node.host().executor(), node.clock()),
          remote(node.host(), Random(own_seed())),
          mixture(node.host(), directory, remote, std::move(options)) {}

    experts::Directory directory;
    experts::RemoteExperts remote;
    experts::MixtureClient mixture;
    Silence silence;
};

NodeMixture::NodeMixture(const collab::Node& node, experts::MixtureOptions options)
    : node_(node), grid_(options.grid) {
    client_ = node_.run_on_network_thread([&] {
        DEDLOC_CHECK(node_.dht() != nullptr, "join_table() before experts are called");
        return std::make_unique<Client>(node_, std::move(options));
    });
}

NodeMixture::~NodeMixture() {
    node_.run_on_network_thread([this] { client_.reset(); });
}

Result<Passed> NodeMixture::forward(experts::Tensor inputs,
                                    std::vector<experts::GridScores> scores) {
    return node_.call("call experts",
                      pass_forward(client_->mixture,
                                   client_->silence,
                                   node_.clock(),
                                   std::move(inputs),
                                   std::move(scores)));
}

Result<Gradients> NodeMixture::backward(Passed passed, experts::Tensor output_gradients) {
    return node_.call(
        "call experts back",
        pass_backward(client_->mixture, std::move(passed), std::move(output_gradients)));
}

experts::MixtureCounts NodeMixture::counts() const {
    return node_.run_on_network_thread([this] { return client_->mixture.counts(); });
}

}  // namespace dedloc::train
