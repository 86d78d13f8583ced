// For tests of what an exchange consists of: a simulated peer with all that is around it. Of the
// tests only.
#pragma once
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/allreduce/exchanges.h"
#include "dedloc/allreduce/fetch.h"
#include "dedloc/base/random.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {

class TestPeer : public events::Teller {
  public:
    void tell(events::Any, PeerId, std::string text) override { notes.push_back(std::move(text)); }

    std::vector<std::string> notes;
    OpenStep open_step;

    PartStore& parts() { return parts_; }
    links::Timeouts& timeouts() { return timeouts_; }
    const TransferEnvironment& environment() const { return environment_; }

  protected:
    TestPeer(sim::SimNode& node, TransferOptions options)
        : parts_(64u << 20),
          timeouts_(600ms, options.deadline_max),
          environment_{node.runtime(),
                       node.host(),
                       node.signer(),
                       verifier_,
                       parts_,
                       timeouts_,
                       *this,
                       complaints_,
                       std::move(options),
                       [this] { return open_step; },
                       [](const PeerId&) { return true; }},
          handlers_(node.host()) {}

    security::ToyVerifier verifier_;
    PartStore parts_;
    links::Timeouts timeouts_;
    events::Complaints complaints_{*this};
    TransferEnvironment environment_;
    p2p::Handlers handlers_;
};

// Answers what it is asked for from its part store, and counts.
class AnsweringPeer : public TestPeer {
  public:
    AnsweringPeer(sim::SimNode& node, TransferOptions options)
        : TestPeer(node, std::move(options)) {
        handlers_.on_call(fetch_method,
                          [this](PeerId, Bytes request) { return answer(std::move(request)); });
    }
    Task<Result<Bytes>> answer(Bytes request) {
        const auto fetch = wire::decode<Fetch>(request);
        EXPECT_TRUE(fetch);
        if (fetch) asked.push_back(fetch->part);
        if (silent) co_await environment_.node.clock.sleep_for(1h);
        co_return answer_fetch(parts_, request);
    }
    Task<void> stop() { return handlers_.stop(); }

    PartFetcher fetcher{environment_};
    std::vector<std::uint32_t> asked;
    bool silent = false;
};

// Stands in for what a Coordinator or an Aggregator has around its exchanges.
class ExchangePeer final : public TestPeer {
  public:
    ExchangePeer(sim::SimNode& node, TransferOptions options)
        : TestPeer(node, std::move(options)), exchanges_(environment_, 4) {
        handlers_.on_stream(parts_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
            return exchanges_.serve(std::move(stream));
        });
        handlers_.on_connection([this](const PeerId& peer, bool connected) {
            if (!connected) exchanges_.peer_gone(peer);
        });
    }

    std::shared_ptr<Exchange> begin(const consensus::RoundPlan& plan,
                                    std::shared_ptr<const RoundInput> input) {
        exchange = begin_as(plan, Digest{}, std::move(input));
        return exchange;
    }
    std::shared_ptr<Exchange> begin_as(const consensus::RoundPlan& plan,
                                       const Digest& digest,
                                       std::shared_ptr<const RoundInput> input) {
        return exchanges_.begin(plan, digest, std::move(input));
    }
    Task<void> stop() {
        co_await handlers_.stop();
        co_await exchanges_.stop();
    }
    const KeptRests& rests() const { return exchanges_.state().rests; }
    void forget_inputs() { exchanges_.forget_inputs(); }
    ReduceMemory memory() const { return exchanges_.state().memory; }
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

// A reducer that wants all contributions of a part at once: the median of their means, element by
// element, of a vector in fp32.
class MedianReducer final : public Reducer {
  public:
    std::uint32_t number() const override { return 7; }
    bool adds_up() const override { return false; }
    ReducedPart reduce(const consensus::RoundPlan& plan,
                       std::uint32_t part,
                       const std::vector<PartInput>& inputs) const override {
        const auto count = static_cast<std::size_t>(plan.parts[part].count);
        ReducedPart reduced;
        reduced.included = consensus::no_members(plan);
        std::vector<std::vector<float>> means;
        for (const PartInput& input : inputs) {
            std::vector<float>& mean = means.emplace_back(count);
            EXPECT_TRUE(codec::decode(codec::CodecId::fp32, *input.encoded, mean));
            const std::uint64_t weight = plan.members[input.member].input.weight_max();
            for (float& value : mean) value /= static_cast<float>(weight);
            base::set_bit(reduced.included, input.member);
        }
        std::vector<float> medians(count);
        for (std::size_t i = 0; i < count; ++i) medians[i] = median(means, i);
        reduced.encoded = SharedBytes(codec::encode(codec::CodecId::fp32, medians));
        reduced.digest = security::hash_list(*reduced.encoded);
        return reduced;
    }
    ReducedPart sum(const consensus::RoundPlan&,
                    std::uint32_t,
                    const std::vector<PartInput>&) const override {
        ADD_FAILURE() << "medians do not add up";
        return {};
    }
    static float median(const std::vector<std::vector<float>>& means, std::size_t i) {
        std::vector<float> values;
        for (const std::vector<float>& mean : means) values.push_back(mean[i]);
        std::ranges::sort(values);
        return values.empty() ? 0.0f : values[values.size() / 2];
    }
};

inline std::uint32_t place_of(const consensus::RoundPlan& plan, const PeerId& peer) {
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

// Members of one exchange, among simulated peers: node i's place in the plan is place(i).
class ExchangeGroup : public testing::Test {
  protected:
    explicit ExchangeGroup(std::uint64_t seed) : world_(seed) {}
    ~ExchangeGroup() override {
        stop_members();
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }

    std::uint32_t place(std::size_t node) const { return place_of(plan_, nodes_[node]->id()); }
    // The next node is a member of the plan, and brings this; null: nothing.
    void add_member(std::shared_ptr<const RoundInput> input, bool aggregator = false) {
        consensus::PlanMember member;
        member.peer = nodes_[inputs_.size()]->id();
        member.aggregator = aggregator;
        if (input) member.input = input->input;
        plan_.members.push_back(member);
        inputs_.push_back(std::move(input));
    }
    // All are there; the first node leads.
    void order_members() {
        std::ranges::sort(plan_.members, {}, &consensus::PlanMember::peer);
        plan_.leader = nodes_[0]->id();
    }
    void stop_members() {
        for (auto& member : members_) world_.run_task(member->stop());
        members_.clear();
    }

    sim::World world_;
    std::vector<sim::SimNode*> nodes_;
    std::vector<std::unique_ptr<ExchangePeer>> members_;
    std::vector<std::shared_ptr<const RoundInput>> inputs_;
    TransferOptions options_;
    consensus::RoundPlan plan_;
};

}  // namespace dedloc::allreduce
