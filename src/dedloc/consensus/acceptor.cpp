#include "dedloc/consensus/acceptor.h"

#include "dedloc/base/fields.h"
#include "dedloc/base/log.h"
#include "dedloc/runtime/suspend.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

constexpr const char* votes_file = "votes";
constexpr std::size_t votes_file_bytes_max = 4u << 20;
// Halves of the quorum's timeout that a branch has to wait: where voters can be reached, where not.
constexpr int branch_halves_alive = 3;
constexpr int branch_halves_gone = 1;
// Ballots of one proposer in one step of a robust run: a round takes less than the time of one.
constexpr double ballots_burst = 4;
constexpr double ballots_per_s = 0.1;

struct VoterRecord {
    std::uint64_t incarnation = 0;
    AcceptorRecord acceptor;

    DEDLOC_FIELDS(incarnation, acceptor)
};

Bytes framed(const VoterRecord& record) {
    const Bytes payload = wire::encode(record);
    Bytes bytes;
    base::put_u32_le(bytes, static_cast<std::uint32_t>(payload.size()));
    base::append(bytes, payload);
    return bytes;
}

std::optional<VoterRecord> last_record(ByteView file) {
    std::optional<VoterRecord> last;
    base::ByteReader reader(file);
    for (;;) {
        const auto size = reader.u32_le();
        if (!size) break;
        const auto payload = reader.take(*size);
        if (!payload) break;  // a torn tail: that promise was never said
        auto record = wire::decode<VoterRecord>(*payload);
        if (!record) break;
        last = *std::move(record);
    }
    return last;
}

// Says that somebody writes; on the way out, cancelled or not, wakes who waits to write.
class WriterFlag {
  public:
    WriterFlag(std::optional<TimePoint>& since, TimePoint now, runtime::Event& written)
        : since_(since), written_(written) {
        since_ = now;
        written_.reset();
    }
    ~WriterFlag() {
        since_.reset();
        written_.set();
    }
    WriterFlag(const WriterFlag&) = delete;
    WriterFlag& operator=(const WriterFlag&) = delete;

  private:
    std::optional<TimePoint>& since_;
    runtime::Event& written_;
};

constexpr const char* strange_voter =
    "a proposal is refused: it makes somebody a voter who was not there";
constexpr const char* few_left = "it takes the vote from most of us";
constexpr const char* voter_less =
    "a proposal is refused: it takes its vote from somebody who is there";

// Voters of today, and members of the plan, each with its memory of votes.
bool are_known(const std::vector<Voter>& next,
               const std::vector<Voter>& voters,
               const std::vector<PlanMember>& members) {
    const auto is_it = [](const Voter& one) {
        return [&one](const auto& other) {
            return other.peer == one.peer && other.incarnation == one.incarnation;
        };
    };
    return std::ranges::all_of(next, [&](const Voter& one) {
        return std::ranges::any_of(voters, is_it(one)) || std::ranges::any_of(members, is_it(one));
    });
}

ConsensusReply refuse(Answer answer, std::string reason) {
    ConsensusReply reply;
    reply.answer = answer;
    reply.reason = std::move(reason);
    return reply;
}

}  // namespace

bool owns_ballot(const Base& base, const PeerId& proposer, std::uint32_t ballot) {
    if (base.voters.empty() || ballot > ballot_max) return false;
    const std::vector<PeerId> order = leader_order(base.previous, base.voters);
    return order[ballot % order.size()] == proposer;
}

Result<std::unique_ptr<Acceptor>> Acceptor::open(const ConsensusEnvironment& environment) {
    auto file = environment.node.disk.read(votes_file);
    if (!file && file.error().kind() != ErrorKind::not_found) return std::move(file).error();
    if (file)
        if (auto record = last_record(*file)) {
            // Written anew: appended to a torn tail, the next promise could not be read again.
            const Bytes whole = framed(*record);
            DEDLOC_TRY_VOID(environment.node.disk.write_atomically(votes_file, whole));
            std::unique_ptr<Acceptor> voter(
                new Acceptor(environment, record->incarnation, std::move(record->acceptor)));
            voter->file_bytes_ = whole.size();
            return voter;
        }
    base::Random random = environment.node.random.fork("incarnation");
    const std::uint64_t mixed = base::mix64(
        random.next() ^ static_cast<std::uint64_t>(environment.node.clock.wall_now() * 1e6));
    VoterRecord first;
    // A memory that is planted to survive the loss of the disk: a constant incarnation.
    first.incarnation = environment.options.bugs.vote_without_memory ? 1 : (mixed | 1);
    DEDLOC_TRY_VOID(environment.node.disk.write_atomically(votes_file, framed(first)));
    return std::unique_ptr<Acceptor>(new Acceptor(environment, first.incarnation, {}));
}

Acceptor::Acceptor(const ConsensusEnvironment& environment,
                   std::uint64_t incarnation,
                   AcceptorRecord record)
    : environment_(environment),
      incarnation_(incarnation),
      paxos_(std::move(record), environment.options.bugs),
      written_(environment.node.executor),
      scope_(environment.node.executor) {}

bool Acceptor::may_vote() const {
    const auto named = environment_.ledger.base().voter_incarnation(environment_.me());
    return named && *named == incarnation_;
}

std::vector<Bytes> Acceptor::certificates_after(const Digest& previous) const {
    auto certificates = environment_.ledger.after(previous, 16);
    std::size_t bytes = 0;
    std::vector<Bytes> bounded;
    if (!certificates) return bounded;
    for (Bytes& certificate : *certificates) {
        bytes += certificate.size();
        if (bytes > certificate_bytes_max && !bounded.empty()) break;
        bounded.push_back(std::move(certificate));
    }
    return bounded;
}

Task<Result<void>> Acceptor::persist() {
    if (environment_.options.bugs.forget_votes) co_return Result<void>();
    // One writer at a time, and it writes the newest record: records never land out of order.
    const std::uint64_t wanted = ++version_;
    while (durable_ < wanted) {
        if (writing_since_) {
            co_await written_.wait();
            continue;
        }
        WriterFlag flag(writing_since_, environment_.now(), written_);
        const std::uint64_t version = version_;
        Result<void> outcome = co_await write_record();
        if (!outcome) co_return outcome;
        durable_ = std::max(durable_, version);
    }
    co_return Result<void>();
}

Task<Result<void>> Acceptor::write_record() {
    VoterRecord record;
    record.incarnation = incarnation_;
    record.acceptor = paxos_.record();
    Bytes bytes = framed(record);
    const bool rewrite = file_bytes_ + bytes.size() > votes_file_bytes_max;
    file_bytes_ = rewrite ? bytes.size() : file_bytes_ + bytes.size();
    auto work = [disk = &environment_.node.disk, bytes = std::move(bytes), rewrite] {
        return rewrite ? disk->write_atomically(votes_file, bytes)
                       : disk->append_durably(votes_file, bytes);
    };
    Result<void> written = co_await environment_.node.workers.run(std::move(work));
    if (!written) file_bytes_ = votes_file_bytes_max;  // may be torn: write it anew next time
    tell_of_disk(written);
    co_return written;
}

// A voter that cannot write its votes has none, and the others may wait for it: tell somebody.
void Acceptor::tell_of_disk(const Result<void>& written) {
    if (written) {
        if (disk_fails_since_ || told_that_it_goes_on_)
            environment_.teller.tell(events::VotesWritten{}, {}, "votes can be written again");
        disk_fails_since_.reset();
        told_that_it_goes_on_ = false;
        return;
    }
    const std::string& why = written.error().message();
    if (!disk_fails_since_) {
        disk_fails_since_ = environment_.now();
        environment_.teller.tell(events::VotesFailed{}, {}, "votes cannot be written: " + why);
        if (!std::exchange(tries_again_, true)) scope_.spawn("write votes again", write_again());
        return;
    }
    tell_that_it_goes_on(environment_.now() - *disk_fails_since_, why);
}

void Acceptor::tell_that_it_goes_on(Duration failing, const std::string& why) {
    if (failing < disk_failure_of_a_moment || std::exchange(told_that_it_goes_on_, true)) return;
    environment_.teller.tell(
        events::VotesFailing{},
        {},
        fmt::format("votes cannot be written for {:.0f} s: {}", to_seconds(failing), why));
}

void Acceptor::check_disk() {
    if (writing_since_)
        tell_that_it_goes_on(environment_.now() - *writing_since_, "the disk does not answer");
}

// Others lead until a write works, and none of their rounds need ours for it to be tried.
Task<void> Acceptor::write_again() {
    while (disk_fails_since_) {
        co_await environment_.node.clock.sleep_for(disk_tried_again_after);
        if (disk_fails_since_) (void)co_await persist();
    }
    tries_again_ = false;
}

bool Acceptor::may_lead() const {
    const bool hangs = writing_since_ && environment_.now() - *writing_since_ > disk_hangs_after;
    return may_vote() && !disk_fails_since_ && !hangs;
}

std::optional<ConsensusReply> Acceptor::compare(const PeerId& from,
                                                const Digest& previous,
                                                const Instance& instance) const {
    const Base& base = environment_.ledger.base();
    if (previous == base.previous && instance == base.instance) return std::nullopt;
    ConsensusReply reply;
    auto certificates = certificates_after(previous);
    if (!certificates.empty()) {
        reply.answer = Answer::you_are_behind;
        reply.certificates = std::move(certificates);
        return reply;
    }
    environment_.listener.behind(from);
    return refuse(Answer::i_am_behind, "the voter does not know your latest certificate");
}

std::uint32_t Acceptor::promised(const Digest& previous) const {
    const AcceptorRecord& record = paxos_.record();
    return record.previous == previous ? record.promised : 0;
}

Task<ConsensusReply> Acceptor::on_prepare(PeerId from, Prepare prepare) {
    if (auto other = compare(from, prepare.previous, prepare.instance)) co_return *std::move(other);
    if (!may_vote()) co_return refuse(Answer::may_not_vote, "this peer may not vote yet");
    if (!owns_ballot(environment_.ledger.base(), from, prepare.ballot))
        co_return refuse(Answer::refused, "that ballot belongs to another leader");
    if (has_offended(from) || environment_.complaints.is_barred(from, environment_.now()))
        co_return refuse(Answer::refused, "you broke the protocol a moment ago");
    if (bids_too_often(from))
        co_return refuse(Answer::refused, "your ballots come too often for a step");
    ConsensusReply reply = paxos_.prepare(prepare.previous, prepare.instance, prepare.ballot);
    if (reply.answer != Answer::yes) co_return reply;
    const Result<void> written = co_await persist();
    if (!written) co_return refuse(Answer::refused, written.error().message());
    // The disk took its time: what was true before may not be any more.
    if (paxos_.record().previous != prepare.previous ||
        paxos_.record().promised != prepare.ballot) {
        co_return refuse(Answer::outbid, "outbid while the promise was written");
    }
    co_return reply;
}

Task<void> Acceptor::wait_for_state() {
    const TimePoint until = environment_.now() + environment_.timeouts.answer_after_work();
    while (!environment_.ledger.base().state && environment_.now() < until)
        co_await environment_.node.clock.sleep_for(5ms);
}

Task<ConsensusReply> Acceptor::on_propose(PeerId from, Propose propose) {
    auto decoded = wire::decode<Decision>(propose.decision);
    if (!decoded) co_return accuse(from, "a proposal is refused: it cannot be read");
    Decision decision = *std::move(decoded);
    if (decision.kind == DecisionKind::branch) {
        if (auto wrong = check_branch(from, decision)) co_return *std::move(wrong);
        // Not written down: a branch leaves the voters' chain, whose promises stay as they are.
        ConsensusReply reply;
        const Digest digest = decision_digest(propose.decision);
        reply.signature = environment_.signer.sign(vote_domain, vote_bytes(digest, propose.ballot));
        co_return reply;
    }
    if (auto other = compare(from, decision.previous, decision.instance))
        co_return *std::move(other);
    if (!may_vote()) co_return refuse(Answer::may_not_vote, "this peer may not vote yet");
    if (!owns_ballot(environment_.ledger.base(), from, propose.ballot))
        co_return accuse(from, "a proposal is refused: that ballot belongs to another leader");
    co_await wait_for_state();
    if (auto wrong = co_await check_value(from, decision)) co_return *std::move(wrong);
    // Time has passed: the question must still be open.
    if (auto other = compare(from, decision.previous, decision.instance))
        co_return *std::move(other);
    ConsensusReply reply =
        paxos_.accept(decision.previous, decision.instance, propose.ballot, propose.decision);
    if (reply.answer != Answer::yes) co_return reply;
    if (decision.kind == DecisionKind::commit) {
        // The work that this begins comes to the workers before our write: it takes longer.
        environment_.listener.voting_for(decision);
        co_await runtime::next_turn();
    }
    const Result<void> written = co_await persist();
    if (!written) co_return refuse(Answer::refused, written.error().message());
    // A higher promise made meanwhile told its proposer of this acceptance, so the vote may be
    // said.
    const Digest digest = decision_digest(propose.decision);
    reply.signature = environment_.signer.sign(vote_domain, vote_bytes(digest, propose.ballot));
    co_return reply;
}

std::optional<ConsensusReply> Acceptor::check_branch(const PeerId& from,
                                                     const Decision& decision) const {
    const Base& base = environment_.ledger.base();
    if (decision.previous != base.previous)
        return compare(from, decision.previous, decision.instance)
            .value_or(refuse(Answer::refused, "the branch starts elsewhere"));
    const auto& named = decision.next_voters;
    const bool names_itself = std::ranges::find(named, from, &Voter::peer) != named.end();
    if (!names_us(named) || !names_itself || decision.run != base.run || !base.state ||
        decision.state_before != *base.state)
        return refuse(Answer::refused, "the branch is not from our state");
    if (const Ok carried = base.protection.check_carried(decision, nullptr); !carried)
        return refuse(Answer::refused, carried.error().message());
    // Voters who can be reached are led away by nobody who only lets them wait.
    const bool alive = lives(environment_.electorate, base);
    if (alive && base.protection.rules.on && !names_quorum(decision, base))
        return refuse(Answer::refused, "it leaves out most voters, who are there");
    // Clocks differ and the proposer began first; half the time is a quorum truly lost. Who is out
    // of reach of the others leads nobody away who is not.
    const Duration waited = wanted_since_ ? environment_.now() - *wanted_since_ : Duration(0);
    const int halves = alive ? branch_halves_alive : branch_halves_gone;
    if (waited < environment_.quorum_timeout() * halves / 2)
        return refuse(Answer::refused, "the quorum has not been away for long enough");
    return std::nullopt;
}

// A peer that orders keep out does not vote.
bool Acceptor::drops_us(const Decision& decision) const {
    const robust::Orders orders(decision.orders);
    const std::uint64_t step = step_after(decision);
    return !leaving_ && !names_us(decision.next_voters) &&
           orders.barring(environment_.me(), step) == nullptr &&
           !orders.on_probation(environment_.me(), step);
}

// Nobody is kept out by a leader's word.
Task<std::optional<ConsensusReply>> Acceptor::check_orders(PeerId from, Decision decision) {
    auto changes = robust::changes_between(
        environment_.ledger.base().orders.list(), decision.orders, decision.instance.step);
    if (!changes) co_return accuse(from, changes.error().message());
    auto of = std::make_shared<const Decision>(std::move(decision));
    const Result<void> judged =
        co_await environment_.judge.check(std::move(of), *std::move(changes), from);
    if (judged) co_return std::nullopt;
    if (judged.error().kind() == ErrorKind::peer_broke_protocol)
        co_return accuse(from, judged.error().message());
    co_return refuse(Answer::refused, judged.error().message());
}

// A leader that took the vote from most could go on without anybody's. One that takes it from a few
// may not have known that they are there.
bool Acceptor::drops_most(const Decision& decision) const {
    const std::vector<Voter>& voters = environment_.ledger.base().voters;
    const auto stays = [&decision](const Voter& voter) {
        return std::ranges::find(decision.next_voters, voter.peer, &Voter::peer) !=
               decision.next_voters.end();
    };
    return static_cast<std::size_t>(std::ranges::count_if(voters, stays)) < majority(voters.size());
}

bool names_quorum(const Decision& decision, const Base& base) {
    const auto is_named = [&decision](const Voter& voter) {
        return std::ranges::find(decision.next_voters, voter.peer, &Voter::peer) !=
               decision.next_voters.end();
    };
    const auto named = static_cast<std::size_t>(std::ranges::count_if(base.voters, is_named));
    return named >= base.quorum();
}

bool Acceptor::has_offended(const PeerId& proposer) const {
    return turn_.previous == environment_.ledger.base().previous &&
           turn_.offenders.contains(proposer);
}

Acceptor::Turn& Acceptor::turn() {
    const Digest& previous = environment_.ledger.base().previous;
    if (turn_.previous != previous) turn_ = Turn{previous, {}, {}};
    return turn_;
}

// Each higher ballot takes the step from whoever leads it, and a liar's come to nothing.
bool Acceptor::bids_too_often(const PeerId& proposer) {
    const Base& base = environment_.ledger.base();
    if (!base.protection.rules.on || !base.is_voter(proposer)) return false;
    const auto bucket =
        turn().ballots.try_emplace(proposer, TokenBucket{ballots_burst, ballots_per_s}).first;
    return !bucket->second.acquire(environment_.now());
}

// The proposer's next ballots would only take the step from those who lead after it.
ConsensusReply Acceptor::accuse(const PeerId& proposer, std::string why) {
    if (environment_.ledger.base().is_voter(proposer)) turn().offenders.insert(proposer);
    environment_.complain_of(proposer, why);
    return refuse(Answer::refused, std::move(why));
}

Task<std::optional<ConsensusReply>> Acceptor::check_value(PeerId from, Decision decision) {
    const Base& base = environment_.ledger.base();
    if (!base.state)
        co_return refuse(Answer::refused, "the voter is still computing the state before");
    if (decision.state_before != *base.state)
        co_return refuse(Answer::refused, "the decision does not follow from the voter's state");
    // A decision that no ledger takes must not be certified: it could not be followed, nor anything
    // else.
    auto plan = environment_.ledger.check_decision(base, decision);
    if (!plan) co_return accuse(from, "a proposal is refused: " + plan.error().message());
    if (auto wrong = co_await check_orders(from, decision)) co_return *std::move(wrong);
    if (decision.kind == DecisionKind::abort) {
        if (!are_known(decision.next_voters, base.voters, {}))
            co_return accuse(from, strange_voter);
        if (drops_us(decision) && drops_most(decision)) co_return refuse(Answer::refused, few_left);
        co_return std::nullopt;
    }
    if (decision.kind != DecisionKind::commit)
        co_return accuse(from, "a proposal is refused: there is no such decision");
    std::optional<ConsensusReply> outcome =
        co_await check_commit(from, std::move(decision), *std::move(plan));
    co_return outcome;
}

Task<std::optional<ConsensusReply>> Acceptor::check_commit(PeerId from,
                                                           Decision decision,
                                                           std::shared_ptr<const RoundPlan> plan) {
    if (const Ok sound = environment_.averages.check_plan(*plan); !sound)
        co_return accuse(from, sound.error().message());
    if (plan->instance != decision.instance || plan->previous != decision.previous ||
        decision.parts.size() != plan->parts.size())
        co_return accuse(from, "a proposal is refused: its plan is for another step");
    if (auto wrong = check_members(from, decision, *plan)) co_return *std::move(wrong);
    if (auto wrong = check_parts(from, decision, *plan)) co_return *std::move(wrong);
    const double samples = environment_.ledger.base().branch_samples +
                           committed_samples(*plan, decision.parts, vector_count(*plan));
    if (decision.branch_samples != samples)
        co_return accuse(from, "a proposal is refused: its count of samples is wrong");
    const Result<void> held = co_await environment_.averages.hold(plan, decision.parts, from);
    if (!held && held.error().kind() == ErrorKind::peer_broke_protocol)
        co_return accuse(from, held.error().message());
    if (!held) co_return refuse(Answer::refused, held.error().message());
    const Result<void> proved = co_await environment_.averages.prove(plan, decision, from);
    if (!proved && proved.error().kind() == ErrorKind::peer_broke_protocol)
        co_return accuse(from, proved.error().message());
    if (!proved) co_return refuse(Answer::refused, proved.error().message());
    environment_.averages.keep(*plan, decision);
    co_return std::nullopt;
}

std::optional<ConsensusReply> Acceptor::check_members(const PeerId& from,
                                                      const Decision& decision,
                                                      const RoundPlan& plan) {
    for (const PlanMember& member : plan.members) {
        if (member.aggregator && std::ranges::any_of(decision.next_voters, [&](const Voter& voter) {
                return voter.peer == member.peer;
            }))
            return accuse(from, "a proposal is refused: it makes an aggregator a voter");
        const Ok fresh = environment_.ledger.check_not_committed(
            member.peer, member.input, moved_range(plan).offset);
        if (!fresh) return accuse(from, "a proposal is refused: it counts samples twice");
    }
    if (!are_known(decision.next_voters, environment_.ledger.base().voters, plan.members))
        return accuse(from, strange_voter);
    if (!drops_us(decision)) return std::nullopt;
    if (names_us(plan.members)) return accuse(from, voter_less);
    if (drops_most(decision)) return refuse(Answer::refused, few_left);
    return std::nullopt;
}

std::optional<ConsensusReply> Acceptor::check_parts(const PeerId& from,
                                                    const Decision& decision,
                                                    const RoundPlan& plan) {
    const Digest plan_digest = decision_digest(decision.plan);
    for (std::uint32_t i = 0; i < decision.parts.size(); ++i) {
        const FinishedPart& part = decision.parts[i];
        if (part.part != i || !fits_plan(part, plan, plan_digest))
            return accuse(from, "a proposal is refused: a part does not fit its plan");
        if (!environment_.verifier.verify(
                plan.members[part.owner].peer, part_domain, part.signed_bytes(), part.signature))
            return accuse(from, "a proposal is refused: a part is not what its owner signed");
    }
    return std::nullopt;
}

}  // namespace dedloc::consensus
