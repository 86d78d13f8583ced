// One member of a group of processes on loopback that does whole rounds with the real engine and
// the real host: announce, plan, reduce, vote, certificate, every averaged byte decoded.
//
//   round_bench --rank R --size P --elements E --rounds N --codec NAME --folder DIR
//
// DIR is empty at the start and shared by the group; members find each other there. Rank 0 is the
// run's host and prints one JSON object: the time from the moment when everybody is ready until
// rank 0 has every averaged number. What stands for the optimizer and the state hash is nothing
// here: the state's name is the digest of the decision. Numbers are about normal; every average is
// checked, and its relative root mean square error reported. Rounds before the first measured one
// warm up connections and make everybody a voter.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/averaging/fetch.h"
#include "dedloc/averaging/round.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/real.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/remembering_verifier.h"
#include "dedloc/wire/message.h"

#include "bench/bench.h"
#include "bench/cpu_seconds.h"

namespace dedloc {
namespace {

using averaging::Base;
using averaging::Decision;
using averaging::RoundInput;

using bench::cpu_seconds;
using bench::fail;
using bench::need;

struct Arguments {
    std::uint32_t rank = 0;
    std::uint32_t size = 4;
    std::uint64_t elements = 1u << 24;
    int rounds = 5;
    std::string codec = "fp32";
    std::string folder;
};

// Wrong sums are far beyond it; blockwise8, the coarsest codec, makes 0.0104.
constexpr double relative_rmse_max = 0.02;
constexpr int warm_up_rounds = 3;
constexpr Duration patience = std::chrono::seconds(120);

// Element `i` of what `rank` contributes: about normal, variance 1.
float contributed(std::uint32_t rank, std::uint64_t i) {
    std::uint64_t bits = base::mix64(i * 0x9e3779b97f4a7c15ull + rank);
    int sum = 0;
    for (int k = 0; k < 4; ++k, bits >>= 16) sum += static_cast<int>(bits & 0xffff);
    return (static_cast<float>(sum) / 65536.0f - 2.0f) * 1.7320508f;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.at(values.size() / 2);
}

// Fixed membership: everybody waits for everybody.
class Group final : public averaging::RoundDirectory {
  public:
    std::vector<PeerId> others;

    std::vector<PeerId> expected(const Base&) const override { return others; }
    std::vector<PeerId> live_trainers() const override { return others; }
    std::size_t voters_heard_of(const Base& base) const override { return base.voters.size(); }
    bool allowed(const PeerId&) const override { return true; }
    double micro_batch_s() const override { return 0.01; }
    void round_wanted() override {}
    void behind(const PeerId&) override {}
    void note(const averaging::RoundNote& note) override {
        if (note.kind == averaging::RoundNote::Kind::plan_made) return;
        std::fprintf(stderr, "note about %s: %s\n", note.peer.text().c_str(), note.text.c_str());
    }
};

// The folder in which the group meets.
class Meeting {
  public:
    Meeting(std::filesystem::path folder, runtime::Clock& clock)
        : folder_(std::move(folder)), clock_(clock) {}

    void leave_note(const std::string& name, std::string_view text) {
        const auto hidden = folder_ / ("." + name);
        std::ofstream(hidden, std::ios::binary) << text;
        std::filesystem::rename(hidden, folder_ / name);
    }
    Task<std::string> read_note(std::string name) {
        const TimePoint deadline = clock_.now() + patience;
        while (!std::filesystem::exists(folder_ / name)) {
            if (clock_.now() > deadline) throw std::runtime_error("nobody wrote " + name);
            co_await clock_.sleep_for(std::chrono::milliseconds(2));
        }
        std::ifstream file(folder_ / name, std::ios::binary);
        std::string text(std::istreambuf_iterator<char>(file), {});
        co_return text;
    }

  private:
    std::filesystem::path folder_;
    runtime::Clock& clock_;
};

class Member {
  public:
    Member(const Arguments& arguments, runtime::Loop& loop)
        : arguments_(arguments),
          clock_(runtime::real_clock(loop.executor())),
          network_(runtime::real_network(loop.executor())),
          disk_(need(
              runtime::real_disk(arguments.folder + "/disk-" + std::to_string(arguments.rank)))),
          workers_(runtime::real_workers(loop.executor(), 2)),
          node_{loop.executor(), *clock_, *disk_, *workers_, Random(arguments.rank + 1)},
          identity_(security::Identity::generate()),
          signer_(identity_),
          meeting_(arguments.folder, *clock_),
          ledger_(verifier_, 8),
          parts_(4 * (arguments.elements * 4 + (1u << 20))) {
        p2p::HostOptions options{.executor = loop.executor(),
                                 .clock = *clock_,
                                 .network = *network_,
                                 .random = node_.random.fork("host"),
                                 .identity = identity_,
                                 .listen = {"/ip4/127.0.0.1/tcp/0"},
                                 .announce = {}};
        host_ = need(p2p::make_host(std::move(options)));
    }

    Task<void> run() {
        averaging::RoundOptions options;
        options.codec = need(codec::codec_from_string(arguments_.codec));
        options.vector_count = arguments_.elements;
        options.group_max = arguments_.size;
        engine_ = need(averaging::RoundEngine::make(
            node_, *host_, signer_, verifier_, ledger_, parts_, group_, options));
        co_await meet();
        engine_->start();
        co_await do_rounds();
        co_await all_reach("end");  // until then others may need our vote or our parts
        co_await engine_->stop();
        co_await host_->stop();
    }

    void print() const {
        std::printf("{\"seconds\": %.6f, \"seconds_min\": %.6f, \"cpu_s\": %.6f, \"rmse\": %.8f}\n",
                    median(seconds_),
                    *std::min_element(seconds_.begin(), seconds_.end()),
                    median(cpu_),
                    median(rmse_));
    }

  private:
    Task<void> meet() {
        const Digest run = security::sha256(as_bytes("round_bench"));
        const Digest state = security::sha256(as_bytes("start"));
        if (arguments_.rank == 0) {
            const averaging::Voter voter{host_->id(), engine_->incarnation(), true};
            const Bytes genesis = averaging::make_genesis(run, state, voter, signer_, 0, 0);
            meeting_.leave_note("genesis", as_text(genesis));
        }
        meeting_.leave_note("peer-" + std::to_string(arguments_.rank),
                            host_->addresses().at(0) + "/p2p/" + host_->id().text());
        for (std::uint32_t rank = 0; rank < arguments_.size; ++rank) {
            std::string name = "peer-" + std::to_string(rank);
            std::string address = co_await meeting_.read_note(name);
            if (rank == arguments_.rank) continue;
            Result<PeerId> peer = co_await host_->dial(address, clock_->now() + patience);
            group_.others.push_back(need(std::move(peer)));
        }
        std::string name = "genesis";
        std::string genesis = co_await meeting_.read_note(name);
        const Ok started = ledger_.start_from(as_bytes(genesis));
        if (!started) fail(started.error());
        ledger_.set_state(state);
    }

    // Contributions of one sample. Old exchanges hold on to a few.
    void make_inputs() {
        std::vector<float> sum(arguments_.elements);
        for (std::uint64_t i = 0; i < sum.size(); ++i) sum[i] = contributed(arguments_.rank, i);
        for (int i = 0; i < 4; ++i) {
            auto input = std::make_shared<RoundInput>();
            input->sum = sum;
            inputs_.push_back(std::move(input));
        }
    }

    Task<void> do_rounds() {
        make_inputs();
        average_.resize(arguments_.elements);
        for (int round = 0; round < warm_up_rounds + arguments_.rounds; ++round) {
            co_await all_reach("round-" + std::to_string(round));
            const TimePoint before = clock_->now();
            const double cpu_before = cpu_seconds();
            co_await do_round(static_cast<std::uint64_t>(round));
            const double seconds = to_seconds(clock_->now() - before);
            const double cpu = cpu_seconds() - cpu_before;
            check(*ledger_.newest_commit());
            if (round < warm_up_rounds) continue;
            seconds_.push_back(seconds);
            cpu_.push_back(cpu);
        }
    }

    Task<void> all_reach(std::string place) {
        meeting_.leave_note(place + "-" + std::to_string(arguments_.rank), "");
        for (std::uint32_t rank = 0; rank < arguments_.size; ++rank) {
            std::string name = place + "-" + std::to_string(rank);
            co_await meeting_.read_note(name);
        }
    }

    Task<void> do_round(std::uint64_t round) {
        auto input = inputs_[round % inputs_.size()];
        input->input.fresh = {round, round + 1};
        const std::uint64_t step = ledger_.base().instance.step;
        const TimePoint deadline = clock_->now() + patience;
        while (ledger_.base().instance.step == step) {
            if (clock_->now() > deadline) throw std::runtime_error("no round in 120 s");
            co_await engine_->participate(input);
        }
        const Decision decision = *ledger_.newest_commit();
        Result<void> fetched = co_await averaging::fetch_parts(
            engine_->context(), decision.parts, group_.others, deadline);
        if (!fetched) fail(fetched.error());
        co_await decode(decision);
        ledger_.set_state(ledger_.base().previous);
        engine_->ledger_moved();
    }

    Task<void> decode(Decision decision) {
        const averaging::Plan plan = need(wire::decode<averaging::Plan>(decision.plan));
        for (std::size_t i = 0; i < plan.parts.size(); ++i) {
            auto encoded = parts_.find(decision.parts.at(i).digest);
            const std::span<float> out(average_.data() + plan.parts[i].offset, plan.parts[i].count);
            const codec::CodecId codec = need(codec::codec_from_number(plan.codec));
            auto work = [encoded, out, codec] { return bool(codec::decode(codec, *encoded, out)); };
            const bool decoded = co_await workers_->run(work);
            if (!decoded) throw std::runtime_error("a certified part does not decode");
        }
    }

    void check(const Decision& decision) {
        const averaging::Plan plan = need(wire::decode<averaging::Plan>(decision.plan));
        double wrong = 0;
        double all = 0;
        for (std::size_t i = 0; i < plan.parts.size(); ++i)
            add_errors(plan, decision.parts[i], wrong, all);
        rmse_.push_back(std::sqrt(wrong / all));
        if (rmse_.back() > relative_rmse_max)
            throw std::runtime_error(
                fmt::format("the averages have a relative error of {}", rmse_.back()));
    }

    // Squares of errors and of right values, of every 97th element. Who was late for a part is not
    // in it.
    void add_errors(const averaging::Plan& plan,
                    const averaging::FinishedPart& part,
                    double& wrong,
                    double& all) const {
        std::vector<std::uint32_t> included;
        for (std::size_t member = 0; member < plan.members.size(); ++member)
            for (std::uint32_t rank = 0; rank < arguments_.size; ++rank)
                if (part.includes(member) && plan.members[member].peer == id_of(rank))
                    included.push_back(rank);
        const averaging::ElementRange range = plan.parts[part.part].range();
        for (std::uint64_t i = range.offset; i < range.end(); i += 97) {
            double right = 0;
            for (const std::uint32_t rank : included) right += contributed(rank, i);
            right /= static_cast<double>(included.size());
            wrong += (average_[i] - right) * (average_[i] - right);
            all += right * right;
        }
    }

    const PeerId& id_of(std::uint32_t rank) const {
        if (rank == arguments_.rank) return host_->id();
        return group_.others.at(rank < arguments_.rank ? rank : rank - 1);
    }

    Arguments arguments_;
    std::unique_ptr<runtime::Clock> clock_;
    std::unique_ptr<runtime::Network> network_;
    std::unique_ptr<runtime::Disk> disk_;
    std::unique_ptr<runtime::Workers> workers_;
    runtime::Node node_;
    security::Identity identity_;
    security::IdentitySigner signer_;
    security::IdentityVerifier identity_verifier_;
    security::RememberingVerifier verifier_{identity_verifier_};
    Meeting meeting_;
    Group group_;
    averaging::Ledger ledger_;
    averaging::PartStore parts_;
    std::unique_ptr<p2p::Host> host_;
    std::unique_ptr<averaging::RoundEngine> engine_;
    std::vector<std::shared_ptr<RoundInput>> inputs_;
    std::vector<float> average_;
    std::vector<double> seconds_;
    std::vector<double> cpu_;
    std::vector<double> rmse_;
};

int run(const Arguments& arguments) {
    runtime::Loop loop;
    Member member(arguments, loop);
    try {
        loop.run_task(member.run());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "round_bench, rank %u: %s\n", arguments.rank, error.what());
        std::_Exit(1);  // tasks still run; there is nothing to save
    }
    if (arguments.rank == 0) member.print();
    return 0;
}

}  // namespace
}  // namespace dedloc

int main(int argc, char** argv) {
    dedloc::Arguments arguments;
    CLI::App app("whole rounds among processes on loopback");
    app.add_option("--rank", arguments.rank)->required();
    app.add_option("--size", arguments.size)->required()->check(CLI::Range(1, 64));
    app.add_option("--elements", arguments.elements)->check(CLI::Range(1, 1 << 28));
    app.add_option("--rounds", arguments.rounds)->check(CLI::Range(1, 10000));
    app.add_option("--codec", arguments.codec)
        ->check(CLI::IsMember({"fp32", "fp16", "bf16", "blockwise8"}));
    app.add_option("--folder", arguments.folder)->required();
    CLI11_PARSE(app, argc, argv);
    try {
        return dedloc::run(arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "round_bench, rank %u: %s\n", arguments.rank, error.what());
        return 1;
    }
}
