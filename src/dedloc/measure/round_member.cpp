#include "dedloc/measure/round_member.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <set>
#include <stdexcept>
#include <utility>

#include "dedloc/allreduce/fetch.h"
#include "dedloc/allreduce/gathered.h"
#include "dedloc/measure/need.h"
#include "dedloc/measure/notes.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::measure {
namespace {

using consensus::Base;
using consensus::Decision;
using consensus::RoundPlan;

constexpr Duration poll_interval = 2ms;
constexpr std::uint64_t checked_every = 97;  // element
constexpr std::uint64_t checked_least = 4096;
// Encoded parts are at most this long together; old exchanges hold on to a few rounds' worth.
constexpr std::uint64_t rounds_kept = 4;

// Element `i` of what `rank` contributes.
float contributed(std::uint32_t rank, std::uint64_t i) {
    std::uint64_t bits = base::mix64(i * 0x9e3779b97f4a7c15ull + rank);
    int sum = 0;
    for (int k = 0; k < 4; ++k, bits >>= 16) sum += static_cast<int>(bits & 0xffff);
    return (static_cast<float>(sum) / 65536.0f - 2.0f) * 1.7320508f;
}

// Averages, each contribution encoded and the average again: √2 times what one encoding makes.
// Rounding to a step that is at most 2^-n of the value makes at most 2^-n / √12.
double encoded_rmse_max(codec::CodecId codec) {
    switch (codec) {
        case codec::CodecId::fp32:
            return 0;
        case codec::CodecId::fp16:
            return 0x1p-10 / std::sqrt(6.0);
        case codec::CodecId::bf16:
            return 0x1p-7 / std::sqrt(6.0);
        case codec::CodecId::blockwise8:
            return 0.012;  // what is promised of it; normal numbers make 0.0104
        case codec::CodecId::sparse:
        case codec::CodecId::sparse_sum:
        case codec::CodecId::low_rank:
            return 1;  // nearly all of it comes in later rounds
    }
    return 0;
}

// And of the sum: one rounding of fp32 a member, each of at most 2^-24 of a sum that grows with
// √members as the last one does, and two when it is divided.
double rmse_max(codec::CodecId codec, std::size_t members) {
    return encoded_rmse_max(codec) + (std::sqrt(static_cast<double>(members)) + 2) * 0x1p-24;
}

}  // namespace

// Fixed membership: everybody waits for everybody.
class RoundMember::Group final : public averaging::Roster,
                                 public averaging::RoundListener,
                                 public events::Teller {
  public:
    explicit Group(runtime::Clock& clock) : clock_(clock) {}
    std::vector<PeerId> others;    // by rank
    std::vector<PeerId> trainers;  // of them

    std::vector<PeerId> expected(const Base&) const override { return trainers; }
    std::vector<PeerId> live_trainers() const override { return trainers; }
    std::size_t voters_heard_of(const Base& base) const override { return base.voters.size(); }
    bool allowed(const PeerId&) const override { return true; }
    // For that long nobody is left out: all are on one machine, and begin on few processors.
    double micro_batch_s() const override { return 2; }
    double upload_bytes_per_s(const PeerId&) const override { return 0; }  // nobody tells
    Ok check_samples(const PeerId&, const consensus::MemberInput&) const override { return {}; }
    void round_wanted() override {}
    void behind(const PeerId&) override {}
    void voting_for(const consensus::Decision&) override {}
    void tell(events::Any what, PeerId peer, std::string text) override {
        if (std::holds_alternative<events::PlanMade>(what)) return;
        std::fprintf(stderr,
                     "%.3f %s: %s\n",
                     to_seconds(clock_.now().since_start),
                     peer.short_text().c_str(),
                     text.c_str());
    }

  private:
    runtime::Clock& clock_;
};

RoundMember::RoundMember(RoundMemberOptions options, runtime::Loop& loop)
    : options_(std::move(options)),
      clock_(runtime::real_clock(loop.executor())),
      network_(runtime::real_network(loop.executor(), options_.congestion_control)),
      disk_(need(runtime::real_disk(fmt::format("{}/disk-{}", options_.folder, options_.rank)))),
      workers_(runtime::real_workers(loop.executor(), options_.threads)),
      node_{loop.executor(), *clock_, *disk_, *workers_, Random(options_.rank + 1)},
      identity_(security::Identity::generate()),
      identity_signer_(identity_),
      group_(std::make_unique<Group>(*clock_)),
      ledger_(verifier_, 8),
      parts_(rounds_kept *
             (codec::encoded_size(options_.round.codec, options_.round.vector_count) + (1u << 20))),
      average_(options_.round.vector_count) {
    p2p::HostOptions host{.executor = loop.executor(),
                          .clock = *clock_,
                          .network = *network_,
                          .random = node_.random.fork("host"),
                          .identity = identity_,
                          .listen = {options_.listen},
                          .announce = {}};
    host.strangers = p2p::HostOptions::Strangers::welcome;
    host_ = need(p2p::make_host(std::move(host)));
    options_.round.group_max = options_.size;
}

RoundMember::~RoundMember() = default;

Task<void> RoundMember::start() {
    if (aggregates()) {
        averaging::RoundEnvironment context{node_,
                                            *host_,
                                            signer_,
                                            verifier_,
                                            ledger_,
                                            parts_,
                                            *group_,
                                            *group_,
                                            *group_,
                                            options_.round};
        aggregator_ = std::make_unique<averaging::Aggregator>(std::move(context));
        ledger_.on_decision([this](const consensus::Link& link) { aggregator_->decided(link); });
        co_await meet();
        aggregator_->start();
        co_return;
    }
    engine_ = need(averaging::Coordinator::make({node_,
                                                 *host_,
                                                 signer_,
                                                 verifier_,
                                                 ledger_,
                                                 parts_,
                                                 *group_,
                                                 *group_,
                                                 *group_,
                                                 options_.round}));
    ledger_.on_decision([this](const consensus::Link& link) { engine_->decided(link); });
    co_await meet();
    engine_->start();
}

Task<void> RoundMember::stop() {
    if (engine_) co_await engine_->stop();
    if (aggregator_) co_await aggregator_->stop();
    co_await host_->stop();
}

Task<void> RoundMember::probe_line(TimePoint deadline) {
    while (engine_ && !engine_->link().settled() && clock_->now() < deadline)
        co_await clock_->sleep_for(poll_interval);
}

double RoundMember::upload_bytes_per_s() const {
    return engine_ ? engine_->link().upload_bytes_per_s() : aggregator_->upload_bytes_per_s();
}

double RoundMember::download_bytes_per_s() const {
    return engine_ ? engine_->link().download_bytes_per_s() : aggregator_->download_bytes_per_s();
}

std::vector<float> RoundMember::contribution() const {
    std::vector<float> sum(options_.round.vector_count);
    for (std::uint64_t i = 0; i < sum.size(); ++i) sum[i] = contributed(options_.rank, i);
    return sum;
}

Task<void> RoundMember::meet() {
    const Digest state = security::sha256(as_bytes("start"));
    if (options_.rank == 0) {
        const Digest run = security::sha256(as_bytes(options_.run));
        const consensus::Voter voter{host_->id(), engine_->incarnation(), true};
        leave_note("genesis", as_text(consensus::make_genesis(run, state, voter, signer_, 0, 0)));
    }
    leave_note(fmt::format("peer-{}", options_.rank),
               host_->addresses().at(0) + "/p2p/" + host_->id().text());
    for (std::uint32_t rank = 0; rank < options_.size; ++rank) {
        std::string name = fmt::format("peer-{}", rank);
        std::string address = co_await read_note(name);
        if (rank == options_.rank) continue;
        const PeerId peer = need(PeerId::from_text(address.substr(address.rfind('/') + 1)));
        group_->others.push_back(peer);
        if (rank + options_.aggregators < options_.size) group_->trainers.push_back(peer);
        host_->add_addresses(peer, {address.substr(0, address.rfind("/p2p/"))});
        // A member that is named later dials, so that each pair has one connection.
        if (rank > options_.rank) continue;
        Result<PeerId> dialed = co_await host_->dial(address, clock_->now() + options_.timeout);
        need(std::move(dialed));
    }
    while (host_->connected_peers().size() + 1 < options_.size)
        co_await clock_->sleep_for(poll_interval);
    std::string name = "genesis";
    std::string genesis = co_await read_note(name);
    const Ok started = ledger_.start_from(as_bytes(genesis));
    if (!started) fail(started.error());
    if (!aggregates()) ledger_.set_state(state);
}

Task<void> RoundMember::do_round(std::shared_ptr<const allreduce::RoundInput> input) {
    const std::uint64_t step = ledger_.base().instance.step;
    const TimePoint deadline = clock_->now() + options_.timeout;
    while (ledger_.base().instance.step == step) {
        if (clock_->now() > deadline) throw std::runtime_error("no round came about");
        if (aggregates())
            co_await clock_->sleep_for(poll_interval);
        else
            co_await engine_->participate(input);
    }
    const Decision decided = decision();
    plan_ = need(wire::decode<RoundPlan>(decided.plan));
    if (aggregates()) co_return;
    allreduce::PartSources sources{allreduce::peers_of(plan_.members), group_->trainers};
    Result<void> fetched =
        co_await engine_->fetcher().fetch(decided.parts, std::move(sources), deadline);
    if (!fetched) fail(fetched.error());
    exchanged_at_ = clock_->now();
    co_await decode(decided);
    ledger_.set_state(ledger_.base().previous);
    engine_->ledger_moved();
}

Task<void> RoundMember::decode(const Decision& decision) {
    for (std::size_t i = 0; i < plan_.parts.size(); ++i) {
        auto encoded = parts_.find(decision.parts.at(i).digest);
        const std::span<float> out(average_.data() + plan_.parts[i].offset, plan_.parts[i].count);
        auto work = [this, encoded, out, part = static_cast<std::uint32_t>(i)] {
            return bool(allreduce::decode_average(plan_, part, *encoded, out));
        };
        const bool decoded = co_await workers_->run(work);
        if (!decoded) throw std::runtime_error("a certified part does not decode");
    }
}

std::vector<std::uint32_t> RoundMember::left_out() const {
    std::set<std::uint32_t> missing;
    for (const consensus::FinishedPart& part : decision().parts) {
        const std::vector<std::uint32_t> there = included(part);
        for (std::uint32_t rank = 0; rank + options_.aggregators < options_.size; ++rank)
            if (std::find(there.begin(), there.end(), rank) == there.end()) missing.insert(rank);
    }
    return {missing.begin(), missing.end()};
}

double RoundMember::error() const {
    const std::uint64_t step =
        std::clamp<std::uint64_t>(average_.size() / checked_least, 1, checked_every);
    double wrong = 0;
    double all = 0;
    for (const consensus::FinishedPart& part : decision().parts) {
        const std::vector<std::uint32_t> ranks = included(part);
        const consensus::ElementRange range = plan_.parts.at(part.part).range();
        for (std::uint64_t i = range.offset; i < range.end(); i += step) {
            double right = 0;
            for (const std::uint32_t rank : ranks) right += contributed(rank, i);
            right /= static_cast<double>(std::max<std::size_t>(1, ranks.size()));
            wrong += (average_[i] - right) * (average_[i] - right);
            all += right * right;
        }
    }
    const double error = std::sqrt(wrong / std::max(all, 1e-30));
    // All are clipped a little; but for that the centre is the mean.
    constexpr double clipped_rmse_max = 0.05;
    const double most =
        options_.round.proves ? clipped_rmse_max : rmse_max(options_.round.codec, options_.size);
    if (error > most)
        throw std::runtime_error(
            fmt::format("the averages have a relative error of {:.3g}; {} makes at most {:.3g}",
                        error,
                        codec::to_string(options_.round.codec),
                        most));
    return error;
}

std::vector<std::uint32_t> RoundMember::included(const consensus::FinishedPart& part) const {
    std::vector<std::uint32_t> ranks;
    for (std::size_t member = 0; member < plan_.members.size(); ++member)
        if (part.includes(member)) ranks.push_back(rank_of(plan_.members[member].peer));
    return ranks;
}

std::uint32_t RoundMember::rank_of(const PeerId& peer) const {
    if (peer == host_->id()) return options_.rank;
    const auto found = std::find(group_->others.begin(), group_->others.end(), peer);
    const auto index = static_cast<std::uint32_t>(found - group_->others.begin());
    return index < options_.rank ? index : index + 1;
}

void RoundMember::leave_note(const std::string& name, std::string_view text) const {
    measure::leave_note(options_.folder, name, text);
}

Task<std::string> RoundMember::read_note(std::string name) const {
    const TimePoint deadline = clock_->now() + options_.timeout;
    for (;;) {
        std::optional<std::string> text = measure::read_note(options_.folder, name);
        if (text) co_return *std::move(text);
        if (clock_->now() > deadline) throw std::runtime_error("nobody wrote " + name);
        co_await clock_->sleep_for(poll_interval);
    }
}

}  // namespace dedloc::measure
