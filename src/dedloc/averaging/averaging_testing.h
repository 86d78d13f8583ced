// For tests of what an engine consists of: a simulated peer with all that is around it. Of the
// tests only.
#pragma once
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/averaging/context.h"
#include "dedloc/averaging/exchanges.h"
#include "dedloc/averaging/fetch.h"
#include "dedloc/base/random.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {

class TestPeer : public Roster, public RoundListener {
  public:
    std::vector<PeerId> expected(const consensus::Base&) const override { return {}; }
    std::vector<PeerId> live_trainers() const override { return trainers; }
    std::size_t voters_heard_of(const consensus::Base&) const override { return 0; }
    bool allowed(const PeerId&) const override { return true; }
    double micro_batch_s() const override { return 0; }
    double upload_bytes_per_s(const PeerId& peer) const override {
        const auto known = uplinks.find(peer);
        return known == uplinks.end() ? 0 : known->second;
    }
    Ok check_samples(const PeerId&, const consensus::MemberInput&) const override { return {}; }
    void round_wanted() override {}
    void voting_for(const consensus::Decision&) override {}
    void behind(const PeerId&) override {}
    void note(const RoundNote& note) override { notes.push_back(note.text); }

    std::vector<PeerId> trainers;
    std::map<PeerId, double> uplinks;  // as told
    std::vector<std::string> notes;

  protected:
    TestPeer(sim::SimNode& node, RoundOptions options)
        : parts_(64u << 20),
          ledger_(verifier_, 4),
          context_{node.runtime(),
                   node.host(),
                   node.signer(),
                   verifier_,
                   ledger_,
                   parts_,
                   *this,
                   *this,
                   options},
          handlers_(node.host()) {}

    security::ToyVerifier verifier_;
    PartStore parts_;
    consensus::Ledger ledger_;
    RoundContext context_;
    p2p::Handlers handlers_;
};

// Answers what it is asked for from its part store, and counts.
class AnsweringPeer : public TestPeer {
  public:
    AnsweringPeer(sim::SimNode& node, RoundOptions options) : TestPeer(node, options) {
        handlers_.on_call(fetch_method,
                          [this](PeerId, Bytes request) { return answer(std::move(request)); });
    }
    Task<Result<Bytes>> answer(Bytes request) {
        const auto fetch = wire::decode<Fetch>(request);
        EXPECT_TRUE(fetch);
        if (fetch) asked.push_back(fetch->part);
        if (silent) co_await context_.node.clock.sleep_for(1h);
        co_return answer_fetch(parts_, request);
    }
    RoundContext& context() { return context_; }
    Task<void> stop() { return handlers_.stop(); }

    std::vector<std::uint32_t> asked;
    bool silent = false;
};

// What a RoundEngine or an Aggregator would have around its exchanges.
class ExchangePeer final : public TestPeer {
  public:
    ExchangePeer(sim::SimNode& node, RoundOptions options)
        : TestPeer(node, options), exchanges_(context_, 4) {
        handlers_.on_stream(parts_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
            return exchanges_.serve(std::move(stream));
        });
        handlers_.on_connection([this](const PeerId& peer, bool connected) {
            if (!connected) exchanges_.peer_gone(peer);
        });
    }

    std::shared_ptr<Exchange> begin(const consensus::Plan& plan,
                                    std::shared_ptr<const RoundInput> input) {
        exchange = exchanges_.begin(plan, Digest{}, std::move(input));
        return exchange;
    }
    Task<void> stop() {
        co_await handlers_.stop();
        co_await exchanges_.stop();
    }
    ReduceMemory memory() const { return context_.memory; }
    // The whole average as this member holds it; empty if anything is missing.
    Bytes average() const {
        Bytes all;
        if (!exchange->complete()) return all;
        for (const auto& [part, header] : exchange->finished())
            base::append(all, *parts_.find(header.digest));
        return all;
    }

    std::shared_ptr<Exchange> exchange;

  private:
    Exchanges exchanges_;
};

inline std::uint32_t place_of(const consensus::Plan& plan, const PeerId& peer) {
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        if (plan.members[i].peer == peer) return i;
    return 0;
}

inline std::shared_ptr<RoundInput> make_contribution(std::uint64_t peer,
                                                     std::uint64_t samples,
                                                     std::uint64_t elements) {
    auto input = std::make_shared<RoundInput>();
    input->input.fresh = {peer * 1000, peer * 1000 + samples, 0};
    Random random(peer + 7);
    for (std::uint64_t i = 0; i < elements; ++i)
        input->sum.push_back(static_cast<float>(random.normal()) * static_cast<float>(samples));
    return input;
}

}  // namespace dedloc::averaging
