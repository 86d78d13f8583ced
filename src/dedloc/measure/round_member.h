// One member of a fixed group that does whole rounds with the real engine, host and sockets in a
// process of its own: announce, plan, reduce, vote, certificate, every averaged number decoded.
// `dedloc-lab links` measures with it on shaped lines, bench/round_bench on loopback.
//
// The group shares a folder that is empty at the start. A member writes "peer-R" there (its
// address) when it listens. Rank 0 is the run's host. What stands for the optimizer and the state
// hash is nothing here: the state's name is the digest of the decision.
//
// Thread: its loop's. Errors: exceptions, for whoever measures.

#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/averaging/aggregator.h"
#include "dedloc/averaging/coordinator.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/real.h"
#include "dedloc/security/identity.h"
#include "dedloc/security/remembering_verifier.h"

namespace dedloc::measure {

struct RoundMemberOptions {
    std::string run;  // its name, for all members the same
    std::uint32_t rank = 0;
    std::uint32_t size = 1;
    std::uint32_t aggregators = 0;  // the last of the ranks; they bring nothing and only reduce
    std::string listen;             // a multiaddr
    std::string folder;
    std::string congestion_control;  // of TCP; empty: the system's
    std::size_t threads = 1;         // that encode and decode
    Duration timeout = 120s;         // with the others
    averaging::RoundOptions round;   // vector_count and codec at least
};

class RoundMember {
  public:
    RoundMember(RoundMemberOptions options, runtime::Loop& loop);
    ~RoundMember();

    Task<void> start();  // ends when connected to all
    Task<void> stop();

    // Ends when the line has been probed, or time is up.
    Task<void> probe_line(TimePoint deadline);

    // A contribution of one sample: about normal numbers of variance 1, each rank's its own.
    std::vector<float> contribution() const;
    // Ends when a round is committed and every averaged number is here. For an aggregator: when it
    // is committed.
    Task<void> do_round(std::shared_ptr<const allreduce::RoundInput> input);

    // The newest round's commit and the bytes of its averages were here; then they are decoded.
    TimePoint exchanged_at() const { return exchanged_at_; }

    // The decision of the newest round.
    const consensus::Decision& decision() const { return ledger_.newest_commit()->decision; }
    const consensus::RoundPlan& plan() const { return plan_; }
    const Digest& decision_digest() const { return ledger_.base().previous; }
    // Ranks whose contribution is not in every one of the averages, sorted. All members see the
    // same.
    std::vector<std::uint32_t> left_out() const;
    // The relative root mean square error of every 97th average (of all, if they are few), given
    // who is included. Throws if it is more than the codec makes.
    double error() const;

    void leave_note(const std::string& name, std::string_view text) const;
    Task<std::string> read_note(std::string name) const;  // waits for it

    runtime::Clock& clock() { return *clock_; }
    const PeerId& id() const { return host_->id(); }
    bool aggregates() const { return options_.rank + options_.aggregators >= options_.size; }
    double upload_bytes_per_s() const;  // as measured
    double download_bytes_per_s() const;

  private:
    class Group;

    Task<void> meet();
    Task<void> decode(const consensus::Decision& decision);
    std::vector<std::uint32_t> included(const consensus::FinishedPart& part) const;
    std::uint32_t rank_of(const PeerId& peer) const;

    RoundMemberOptions options_;
    std::unique_ptr<runtime::Clock> clock_;
    std::unique_ptr<runtime::Network> network_;
    std::unique_ptr<runtime::Disk> disk_;
    std::unique_ptr<runtime::Workers> workers_;
    runtime::Node node_;
    security::Identity identity_;
    security::IdentitySigner identity_signer_;
    security::IdentityVerifier identity_verifier_;
    security::RememberingVerifier verifier_{identity_verifier_};
    security::RememberingSigner signer_{identity_signer_, verifier_};
    std::unique_ptr<Group> group_;
    consensus::Ledger ledger_;
    allreduce::PartStore parts_;
    std::unique_ptr<p2p::Host> host_;
    std::unique_ptr<averaging::Coordinator> engine_;
    std::unique_ptr<averaging::Aggregator> aggregator_;  // instead of the engine
    consensus::RoundPlan plan_;
    std::vector<float> average_;
    TimePoint exchanged_at_{};
};

}  // namespace dedloc::measure
