#include "lab/link_member.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "dedloc/averaging/fetch.h"
#include "dedloc/averaging/round.h"
#include "dedloc/base/log.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/real.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/remembering_verifier.h"
#include "dedloc/wire/message.h"

namespace dedloc::lab {
namespace {

namespace fs = std::filesystem;
using averaging::Base;
using averaging::Decision;
using averaging::RoundInput;
using Json = nlohmann::ordered_json;

constexpr Duration patience = 600s;
constexpr Duration look_interval = 2ms;
constexpr std::size_t checked_every = 97;  // element
constexpr double relative_rmse_max = 0.02;

[[noreturn]] void fail(const Error& error) { throw std::runtime_error(to_string(error)); }

template <typename T>
T need(Result<T> result) {
    if (!result) fail(result.error());
    return *std::move(result);
}

// Element `i` of what `rank` contributes.
float contributed(std::uint32_t rank, std::uint64_t i) {
    const std::uint64_t bits = base::mix64(i * 0x9e3779b97f4a7c15ull + rank);
    return static_cast<float>(bits >> 40) / 8388608.0f - 1.0f;
}

// Fixed membership: everybody waits for everybody.
class Group final : public averaging::RoundDirectory {
  public:
    explicit Group(runtime::Clock& clock) : clock_(clock) {}
    std::vector<PeerId> others;

    std::vector<PeerId> expected(const Base&) const override { return others; }
    std::vector<PeerId> live_trainers() const override { return others; }
    std::size_t voters_heard_of(const Base& base) const override { return base.voters.size(); }
    bool allowed(const PeerId&) const override { return true; }
    double micro_batch_s() const override { return 0.01; }
    void round_wanted() override {}
    void behind(const PeerId&) override {}
    void note(const averaging::RoundNote& note) override {
        std::fprintf(stderr,
                     "%.3f %s: %s\n",
                     to_seconds(clock_.now().since_start),
                     note.peer.short_text().c_str(),
                     note.text.c_str());
    }

  private:
    runtime::Clock& clock_;
};

class Member {
  public:
    Member(const LinkMemberCommand& command, runtime::Loop& loop)
        : command_(command),
          clock_(runtime::real_clock(loop.executor())),
          network_(runtime::real_network(loop.executor())),
          disk_(need(runtime::real_disk(command.folder + "/disk-" + std::to_string(command.rank)))),
          workers_(runtime::real_workers(loop.executor(), 1)),
          node_{loop.executor(), *clock_, *disk_, *workers_, Random(command.rank + 1)},
          identity_(security::Identity::generate()),
          signer_(identity_),
          group_(*clock_),
          ledger_(verifier_, 8),
          parts_(3 * (command.elements * 4 + (1u << 20))) {
        p2p::HostOptions options{.executor = loop.executor(),
                                 .clock = *clock_,
                                 .network = *network_,
                                 .random = node_.random.fork("host"),
                                 .identity = identity_,
                                 .listen = {"/ip4/" + command.ip + "/tcp/4001"},
                                 .announce = {}};
        host_ = need(p2p::make_host(std::move(options)));
    }

    Task<void> run() {
        averaging::RoundOptions options;
        options.codec = need(codec::codec_from_string(command_.codec));
        options.vector_count = command_.elements;
        options.group_max = command_.size;
        options.deadline_max = patience;
        options.rate_unknown = command_.rate_unknown;
        options.upload_max = command_.granted;
        options.download_max = command_.granted;
        engine_ = need(averaging::RoundEngine::make(
            node_, *host_, signer_, verifier_, ledger_, parts_, group_, options));
        co_await meet();
        engine_->start();
        co_await do_rounds();
        co_await engine_->stop();
        co_await host_->stop();
    }

  private:
    fs::path place(const std::string& name) const { return fs::path(command_.folder) / name; }
    std::string numbered(const std::string& name) const {
        return name + "-" + std::to_string(command_.rank);
    }
    void leave_note(const std::string& name, std::string_view text) const {
        const fs::path hidden = place("." + name);
        std::ofstream(hidden, std::ios::binary) << text;
        fs::rename(hidden, place(name));
    }
    Task<std::string> read_note(std::string name) {
        const TimePoint deadline = clock_->now() + patience;
        while (!fs::exists(place(name))) {
            if (clock_->now() > deadline) throw std::runtime_error("nobody wrote " + name);
            co_await clock_->sleep_for(look_interval);
        }
        std::ifstream file(place(name), std::ios::binary);
        std::string text(std::istreambuf_iterator<char>(file), {});
        co_return text;
    }

    Task<void> meet() {
        const Digest run = security::sha256(as_bytes("links"));
        const Digest state = security::sha256(as_bytes("start"));
        if (command_.rank == 0) {
            const averaging::Voter voter{host_->id(), engine_->incarnation(), true};
            const Bytes genesis = averaging::make_genesis(run, state, voter, signer_, 0, 0);
            leave_note("genesis", as_text(genesis));
        }
        leave_note(numbered("peer"), host_->addresses().at(0) + "/p2p/" + host_->id().text());
        for (std::uint32_t rank = 0; rank < command_.size; ++rank) {
            std::string name = "peer-" + std::to_string(rank);
            std::string address = co_await read_note(name);
            if (rank == command_.rank) continue;
            // Who is named later dials, so that each pair has one connection.
            const std::string id = address.substr(address.rfind('/') + 1);
            group_.others.push_back(need(PeerId::from_text(id)));
            host_->add_addresses(group_.others.back(), {address.substr(0, address.rfind("/p2p/"))});
            if (rank > command_.rank) continue;
            Result<PeerId> peer = co_await host_->dial(address, clock_->now() + patience);
            if (!peer) fail(peer.error());
        }
        while (host_->connected_peers().size() + 1 < command_.size)
            co_await clock_->sleep_for(look_interval);
        std::string name = "genesis";
        std::string genesis = co_await read_note(name);
        const Ok started = ledger_.start_from(as_bytes(genesis));
        if (!started) fail(started.error());
        ledger_.set_state(state);
    }

    Task<void> do_rounds() {
        std::vector<float> sum(command_.elements);
        for (std::uint64_t i = 0; i < sum.size(); ++i) sum[i] = contributed(command_.rank, i);
        average_.resize(command_.elements);
        leave_note(numbered("ready"), "");
        for (std::uint64_t round = 0;; ++round) {
            std::string go = "go-" + std::to_string(round);
            std::string how = co_await read_note(go);
            if (how == "end") co_return;
            auto input = std::make_shared<RoundInput>();
            input->sum = sum;
            input->input.fresh = {round, round + 1};
            const TimePoint before = clock_->now();
            co_await do_round(input);
            report(round, before, clock_->now());
        }
    }

    Task<void> do_round(std::shared_ptr<const RoundInput> input) {
        const std::uint64_t step = ledger_.base().instance.step;
        const TimePoint deadline = clock_->now() + patience;
        while (ledger_.base().instance.step == step) {
            if (clock_->now() > deadline) throw std::runtime_error("no round came about");
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

    void report(std::uint64_t round, TimePoint before, TimePoint after) {
        const Decision decision = *ledger_.newest_commit();
        const averaging::Plan plan = need(wire::decode<averaging::Plan>(decision.plan));
        double owned = 0;
        double included = 0;
        for (std::size_t i = 0; i < plan.parts.size(); ++i) {
            const auto count = static_cast<double>(plan.parts[i].count);
            if (plan.members[plan.parts[i].owner].peer == host_->id()) owned += count;
            for (std::size_t m = 0; m < plan.members.size(); ++m)
                if (decision.parts[i].includes(m)) included += count / command_.size;
        }
        const Json done = {{"begin", to_seconds(before.since_start)},
                           {"end", to_seconds(after.since_start)},
                           {"decision", ledger_.base().previous.hex()},
                           {"owned", owned / static_cast<double>(command_.elements)},
                           {"included", included / static_cast<double>(command_.elements)},
                           {"parts", plan.parts.size()},
                           {"upload", engine_->upload_bytes_per_s()},
                           {"download", engine_->download_bytes_per_s()},
                           {"leads", plan.leader == host_->id()},
                           {"rmse", command_.rank == 0 ? error_of(decision, plan) : 0.0}};
        leave_note("done-" + std::to_string(round) + "-" + std::to_string(command_.rank),
                   done.dump());
    }

    // Relative root mean square error of some averages against what each contributed.
    double error_of(const Decision& decision, const averaging::Plan& plan) const {
        double wrong = 0;
        double all = 0;
        for (std::size_t p = 0; p < plan.parts.size(); ++p) {
            std::vector<std::uint32_t> ranks;
            for (std::size_t m = 0; m < plan.members.size(); ++m)
                if (decision.parts[p].includes(m)) ranks.push_back(rank_of(plan.members[m].peer));
            const averaging::ElementRange range = plan.parts[p].range();
            for (std::uint64_t i = range.offset; i < range.end(); i += checked_every) {
                double right = 0;
                for (const std::uint32_t rank : ranks) right += contributed(rank, i);
                right /= static_cast<double>(std::max<std::size_t>(1, ranks.size()));
                wrong += (average_[i] - right) * (average_[i] - right);
                all += right * right;
            }
        }
        const double error = std::sqrt(wrong / std::max(all, 1e-30));
        if (error > relative_rmse_max)
            throw std::runtime_error(fmt::format("the averages have an error of {}", error));
        return error;
    }

    std::uint32_t rank_of(const PeerId& peer) const {
        if (peer == host_->id()) return command_.rank;
        const auto found = std::find(group_.others.begin(), group_.others.end(), peer);
        const auto index = static_cast<std::uint32_t>(found - group_.others.begin());
        return index < command_.rank ? index : index + 1;
    }

    const LinkMemberCommand& command_;
    std::unique_ptr<runtime::Clock> clock_;
    std::unique_ptr<runtime::Network> network_;
    std::unique_ptr<runtime::Disk> disk_;
    std::unique_ptr<runtime::Workers> workers_;
    runtime::Node node_;
    security::Identity identity_;
    security::IdentitySigner signer_;
    security::IdentityVerifier identity_verifier_;
    security::RememberingVerifier verifier_{identity_verifier_};
    Group group_;
    averaging::Ledger ledger_;
    averaging::PartStore parts_;
    std::unique_ptr<p2p::Host> host_;
    std::unique_ptr<averaging::RoundEngine> engine_;
    std::vector<float> average_;
};

}  // namespace

int run_link_member(const LinkMemberCommand& command) {
    runtime::Loop loop;
    try {
        Member member(command, loop);
        loop.run_task(member.run());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "dedloc lab link-member %u: %s\n", command.rank, error.what());
        std::_Exit(1);  // tasks still run; there is nothing to save
    }
    return 0;
}

}  // namespace dedloc::lab
