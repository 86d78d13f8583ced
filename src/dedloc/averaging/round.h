// RoundEngine: makes the ledger advance. It announces to the leader, leads when it is this peer's
// turn, takes part in plans, votes, and repairs; DESIGN §5 in coroutines.
//
// Who drives what
//   drive()    one task: as long as a round is wanted, follow the leader or lead
//   handlers   answer at any time: announce, plan, repair, parts, fetch, prepare, propose,
//              certificate, certificates
//   Exchange   the data of one plan, kept until two steps later, so that others can finish
//
// Round trips from the last announcement to the certificate: plan ½, parts and averages 1,
// proposal and votes 1, certificate ½.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "dedloc/allreduce/exchanges.h"
#include "dedloc/allreduce/fetch.h"
#include "dedloc/averaging/commit_averages.h"
#include "dedloc/averaging/context.h"
#include "dedloc/averaging/messages.h"
#include "dedloc/averaging/reports.h"
#include "dedloc/averaging/round_pace.h"
#include "dedloc/consensus/proposer.h"
#include "dedloc/consensus/service.h"
#include "dedloc/links/bandwidth_probe.h"
#include "dedloc/links/rates.h"
#include "dedloc/links/served_link.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/planner/grid.h"
#include "dedloc/planner/left_out.h"

namespace dedloc::averaging {

class RoundEngine : private consensus::RoundUnderWay {
  public:
    static Result<std::unique_ptr<RoundEngine>> make(runtime::Node node,
                                                     p2p::Host& host,
                                                     const security::Signer& signer,
                                                     const security::Verifier& verifier,
                                                     consensus::Ledger& ledger,
                                                     allreduce::PartStore& parts,
                                                     const Roster& roster,
                                                     RoundListener& listener,
                                                     RoundOptions options);
    ~RoundEngine();

    void start();
    Task<void> stop();

    std::uint64_t incarnation() const { return acceptor_->incarnation(); }
    // Have we, as an owner, refused some of what we brought last?
    bool own_refused() const { return reports_.own_refused(); }
    RoundContext& context() { return context_; }
    // Fetches parts of commits.
    allreduce::PartFetcher& fetcher() { return fetcher_; }

    // A round is wanted (or no more) although this peer has nothing to hand in yet.
    void set_wanted(bool wanted);
    // Hands in a frozen contribution and waits until the ledger has left the open step (or branch).
    // The caller then looks at the ledger. May be called once at a time.
    Task<void> participate(std::shared_ptr<const allreduce::RoundInput> input);
    // Takes no part in votes after the next commit: this peer is about to leave.
    void set_leaving(bool leaving) {
        leaving_ = leaving;
        acceptor_->set_leaving(leaving);
    }
    // This peer hosts, and its ledger has just begun.
    void begin_run() { acceptor_->begin_run(); }
    // The ledger has moved for a reason outside (state downloaded, certificate from elsewhere).
    void ledger_moved();
    // This peer's line as measured in rounds, at most what the user grants; bytes per second,
    // 0 before the first measurement.
    double upload_bytes_per_s() const;
    double download_bytes_per_s() const;
    // What the user grants from now on, bytes per second; 0: everything.
    void set_caps(double upload_max, double download_max);
    // Plans leave us out for our line from now on (true), or we try again. What rounds showed of it
    // grows old meanwhile: it is probed, and if nobody had time for that, it counts as not measured
    // until a round shows it anew.
    void set_left_out(bool left_out);
    // A probe of the line is not wanted (any more).
    bool line_settled() const { return line_.settled(); }
    // From a plan to its certificate (RoundPace); zero before the first.
    Duration measured_round() const { return pace_.usual(); }
    // When the plan of a commit came to us, or was made here; nothing: it never did, or we have
    // forgotten it.
    std::optional<TimePoint> planned_at(const consensus::Decision& commit) const;

  private:
    struct Announced {
        Announce announce;
        TimePoint at;
    };
    struct Division;  // who owns how much, and why

    RoundEngine(RoundContext context);
    void register_handlers();

    // round.cpp: the driver and following
    Task<void> drive();
    Task<void> one_turn(consensus::Base base);
    Task<void> until_advanced(Digest previous);
    std::optional<PeerId> pick_leader(const consensus::Base& base) const;
    Task<void> follow(consensus::Base base, PeerId leader);
    void pass_over_if_idle(const consensus::Base& base, const PeerId& leader);
    bool has_followed(const consensus::Base& base, const PeerId& leader, Duration duration);
    Announce own_announcement(const consensus::Base& base);
    void learn_rates();
    void learn_from_newest_commit();
    bool may_follow(const consensus::Decision& branch) const;
    void suspect(const PeerId& peer, std::string why);
    void refuse_plan(const PeerId& leader, const Error& why);
    bool suspected(const PeerId& peer) const;
    bool is_here(const PeerId& peer) const;
    // consensus::RoundUnderWay
    bool keeps_to_round(const PeerId& from, const consensus::Prepare& prepare) const override;
    void is_proposed_to(const PeerId& leader) override;
    Task<Result<Bytes>> whole_proposal(consensus::Propose propose) override;
    void unreadable_proposal(const PeerId& from, const Error& why) override;
    void untrue_proposal(const PeerId& from, const std::string& why) override;
    bool quorum_is_lost() const;
    bool slept() const;
    Task<void> watch_sleep();
    Duration patience_with_leader() const;
    Task<void> ask_leader(PeerId leader, Bytes request, std::shared_ptr<Result<Bytes>> answer);
    Task<void> until_overdue(PeerId leader);
    TimePoint overdue_at(const PeerId& leader, Duration silence) const;
    Duration silence_of_the_dead() const;
    Task<void> pause_following(consensus::Base base, PeerId leader);
    bool awaits_averages(const consensus::Base& base) const;
    Task<void> pause(Duration duration);

    // round_handlers.cpp
    Task<Result<Bytes>> on_announce(PeerId from, Bytes request);
    Task<Result<Bytes>> on_plan(PeerId from, Bytes request);
    Result<void> take_plan(const PeerId& from, ByteView request);
    Ok check_leaders_line(const consensus::Plan& plan) const;
    Ok check_own_line(const consensus::Plan& plan, const consensus::Base& base);
    Task<Result<Bytes>> on_repair(PeerId from, Bytes request);
    Task<Result<Bytes>> on_fetch(PeerId from, Bytes request);
    Task<void> arrival(consensus::FinishedPart part, TimePoint deadline);
    Task<void> on_probe(std::unique_ptr<p2p::MessageStream> stream);
    Task<void> on_parts(std::unique_ptr<p2p::MessageStream> stream);
    Ok check_announcement(const PeerId& from,
                          const consensus::Base& base,
                          const Announce& announce) const;
    bool make_room_for(const PeerId& from, bool aggregator);
    bool keep_announcement(const PeerId& from, Announce announce);
    std::shared_ptr<allreduce::Exchange> begin_exchange(consensus::Plan plan, Digest digest);

    // round_leader.cpp: gather, reduce, repair; round_plan.cpp: plan
    Task<void> lead(consensus::Base base);
    Task<bool> gather(consensus::Base base);
    void look_at_line();
    Duration time_for_newcomers();
    bool others_follow_another(const consensus::Base& base) const;
    Duration usual_deadline() const;
    std::map<PeerId, Announce> announces_for(const consensus::Base& base);
    std::vector<planner::PeerRates> rates_of(const std::map<PeerId, Announce>& announces) const;
    Result<Division> divide(const std::map<PeerId, Announce>& announces) const;
    Result<Division> divide_with_aggregators(std::map<PeerId, Announce> announces) const;
    Result<Division> divide_into_groups(const std::map<PeerId, Announce>& announces) const;
    Result<Division> divide_all(std::map<PeerId, Announce> announces) const;
    std::string leave_out_slow(const consensus::Base& base,
                               std::map<PeerId, Announce>& announces,
                               std::vector<PeerId>& left_out) const;
    double computing_s() const;
    Result<planner::LeaveOutAnswer> whom_to_leave_out(
        const consensus::Base& base, const std::map<PeerId, Announce>& announces) const;
    Result<consensus::Plan> make_plan(const consensus::Base& base, std::uint32_t ballot);
    void set_parts(consensus::Plan& plan,
                   const std::vector<std::uint64_t>& shares,
                   double seconds) const;
    void set_parts(consensus::Plan& plan, const planner::Grid& grid) const;
    std::uint64_t pieces_of(std::uint64_t share,
                            std::size_t shares_count,
                            double seconds,
                            bool in_grid) const;
    std::shared_ptr<allreduce::Exchange> send_plan(consensus::Plan plan);
    Task<void> reduce(std::shared_ptr<allreduce::Exchange> exchange);
    Task<void> repair(std::shared_ptr<allreduce::Exchange> exchange,
                      std::vector<std::uint32_t> parts,
                      std::uint32_t number);
    Task<void> include_more(std::shared_ptr<allreduce::Exchange> exchange, std::uint32_t number);
    void send_repair(const std::shared_ptr<allreduce::Exchange>& exchange,
                     const std::vector<std::uint32_t>& parts,
                     std::uint32_t number);
    consensus::Decision make_decision(const consensus::Base& base,
                                      const allreduce::Exchange* exchange) const;
    std::vector<consensus::Voter> next_voters(const consensus::Base& base,
                                              const consensus::Decision& decision,
                                              const consensus::Plan* plan) const;
    std::vector<std::pair<PeerId, const Announced*>> fresh_announcements(
        const consensus::Base& base, bool of_aggregators = false) const;
    Task<void> send(PeerId peer, std::string method, Bytes message);

    Task<void> open_branch(consensus::Base base);
    std::vector<consensus::Voter> survivors(const consensus::Base& base,
                                            const std::set<PeerId>& refused) const;
    std::set<PeerId> audience() const;
    consensus::ProposerHooks proposer_hooks();

    RoundContext context_;
    Reports reports_;
    allreduce::Environment transfers_;
    allreduce::PartFetcher fetcher_;
    CommitAverages averages_;
    consensus::Environment consensus_;
    std::unique_ptr<consensus::Acceptor> acceptor_;
    std::unique_ptr<consensus::Proposer> proposer_;
    std::unique_ptr<consensus::ConsensusService> service_;
    std::shared_ptr<const allreduce::RoundInput> input_;
    std::vector<consensus::MemberInput>
        told_;  // what leaders have heard of us, for the open instance
    bool wanted_ = false;
    bool leaving_ = false;
    std::optional<TimePoint> wanted_since_;
    std::map<PeerId, Announced> announced_;
    std::map<PeerId, TimePoint> suspects_;
    // They cost a deadline; until they announce again, here or to who led a round.
    std::set<PeerId> not_waited_for_;
    allreduce::Exchanges exchanges_;
    std::uint32_t lonely_turns_ = 0;      // how often we have led it and nobody came
    TimePoint lonely_since_;              // the first of them
    TimePoint awake_at_;                  // a moment ago, unless this process was stopped
    std::pair<Digest, PeerId> followed_;  // after which decision we follow whom …
    TimePoint followed_since_;            // … and since when
    std::optional<std::pair<PeerId, TimePoint>> asked_;  // a leader that has not answered yet
    std::map<PeerId, int> late_answers_;                 // of leaders, in a row
    Duration answers_in_{0};  // the slowest leader's lately, forgotten by and by
    links::BandwidthProbe line_;
    int probes_before_ = 0;  // when we were left out
    bool line_in_doubt_ = false;
    std::optional<Digest> rates_learnt_;  // from which plan
    RoundPace pace_;
    links::ServedLink served_;   // since we led the last time
    Duration average_takes_{0};  // our line, to each who fetched meanwhile; 0: not known
    TimePoint round_begun_;      // by a plan of ours or another's
    std::pair<consensus::Instance, TimePoint> step_open_;  // which step, and since when
    std::optional<TimePoint> step_averaged_;  // since when; attempts that fail are no computing
    runtime::Event changed_;
    runtime::Event turn_over_;
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::averaging
