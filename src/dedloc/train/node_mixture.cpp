#include "dedloc/train/node_mixture.h"

#include "dedloc/base/log.h"
#include "dedloc/security/hash.h"

namespace dedloc::train {

namespace {

constexpr Duration look_again = std::chrono::milliseconds(500);

std::uint64_t own_seed() {
    std::uint64_t seed = 0;
    security::secure_random(std::span(reinterpret_cast<std::uint8_t*>(&seed), sizeof seed));
    return seed;
}

using Passed = MixtureCalls::Passed;
using Gradients = MixtureCalls::Gradients;

Task<Result<Passed>> pass_forward(experts::RemoteMixture& mixture,
                                  runtime::Clock& clock,
                                  experts::Tensor inputs,
                                  std::vector<experts::GridScores> scores) {
    const TimePoint end = clock.now() + NodeMixture::found_patience;
    bool told = false;
    for (;;) {
        experts::Tensor rows = inputs;
        std::vector<experts::GridScores> asked = scores;
        auto passed = co_await mixture.forward(std::move(rows), std::move(asked));
        if (!passed || !passed->all_lost() || clock.now() >= end) co_return passed;
        if (!std::exchange(told, true))
            log(LogLevel::info,
                "experts",
                "no expert of {} answers; waiting",
                mixture.options().grid.name);
        co_await clock.sleep_for(look_again);
    }
}

Task<Result<Gradients>> pass_backward(experts::RemoteMixture& mixture,
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
    experts::RemoteMixture mixture;
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
    return node_.call(
        "call experts",
        pass_forward(client_->mixture, node_.clock(), std::move(inputs), std::move(scores)));
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
