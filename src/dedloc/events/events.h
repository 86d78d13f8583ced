// Events: what happened in a run, for people, for programs and for the event log (docs/events.md).
//
// An event is one alternative of a variant, with its facts as typed members: programs decide
// by the type, never by the text, which is for people. Every alternative has
//
//   kind      its name in the event log
//   fields()  its facts there, in order; an optional without a value is left out
//
// The engine records; monitor writes JSON lines, draws the terminal view, and replays. Recording
// must be quick: sinks queue.

#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::events {

// ---- the collaboration --------------------------------------------------------------------------

struct RunStarted {
    static constexpr std::string_view kind = "run_started";
    std::optional<std::string> name{};  // of this peer
    std::optional<std::string> id{};

    DEDLOC_NAMED_FIELDS(name, id)
};
struct Joined {
    static constexpr std::string_view kind = "joined";
    std::optional<std::string> name{};  // of this peer
    std::optional<std::string> id{};

    DEDLOC_NAMED_FIELDS(name, id)
};
struct PeerJoined {
    static constexpr std::string_view kind = "peer_joined";
    std::optional<std::string> name{};  // as it calls itself

    DEDLOC_NAMED_FIELDS(name)
};
struct PeerLeft {
    static constexpr std::string_view kind = "peer_left";
};
struct PeerLost {
    static constexpr std::string_view kind = "peer_lost";
};
struct Left {
    static constexpr std::string_view kind = "left";
};
struct RunOver {
    static constexpr std::string_view kind = "run_over";
};
struct StateDiffers {
    static constexpr std::string_view kind = "state_differs";
};
struct Resynced {
    static constexpr std::string_view kind = "resynced";
};
struct ReplayFailed {
    static constexpr std::string_view kind = "replay_failed";
};
struct StepNotFinite {
    static constexpr std::string_view kind = "step_not_finite";
};

// A member's part in a certified step: what it brought, and what it did for the others.
struct StepShare {
    PeerId peer;
    double samples = 0;  // of it that are in the step
    double owned = 0;    // of the averaged vector, from 0 to 1, that it reduced
};

// A certified step was applied.
struct StepMade {
    static constexpr std::string_view kind = "step";

    // Where its time went, in seconds; together all of it.
    struct Times {
        double computing_s = 0;
        double waiting_s = 0;
        double averaging_s = 0;
        double applying_s = 0;
    };

    std::uint64_t step = 0;
    double samples = 0;        // in it
    double samples_total = 0;  // on the branch
    std::uint64_t members = 0;
    std::uint64_t contributors = 0;
    std::uint64_t left_out = 0;
    std::uint64_t attempt = 0;
    double loss = 0;  // not a number: nothing of what this peer handed in is in it
    double learning_rate = 0;
    double seconds = 0;
    double predicted_s = 0;
    Digest state_hash{};
    std::optional<double> computing_s{};  // these four together, or none
    std::optional<double> waiting_s{};
    std::optional<double> averaging_s{};
    std::optional<double> applying_s{};
    std::optional<double> gradient_norm{};
    std::optional<std::uint64_t> at_work{};  // of a robust run: peers that the minimum counts …
    std::optional<double> tau{};             // … and what this step was clipped to
    // All members' parts, by the certificate; null: read from a log, which leaves them out.
    std::shared_ptr<const std::vector<StepShare>> shares{};

    void set_times(const Times& times) {
        computing_s = times.computing_s;
        waiting_s = times.waiting_s;
        averaging_s = times.averaging_s;
        applying_s = times.applying_s;
    }

    DEDLOC_NAMED_FIELDS(step,
                        samples,
                        samples_total,
                        members,
                        contributors,
                        left_out,
                        attempt,
                        loss,
                        learning_rate,
                        seconds,
                        predicted_s,
                        state_hash,
                        computing_s,
                        waiting_s,
                        averaging_s,
                        applying_s,
                        gradient_norm,
                        at_work,
                        tau)
};

struct Evaluated {
    static constexpr std::string_view kind = "evaluation";
    std::uint64_t step = 0;
    double accuracy = 0;
    double loss = 0;

    DEDLOC_NAMED_FIELDS(step, accuracy, loss)
};

struct SamplesDropped {
    static constexpr std::string_view kind = "samples_dropped";
    std::uint64_t samples = 0;

    DEDLOC_NAMED_FIELDS(samples)
};

struct NotFinite {
    static constexpr std::string_view kind = "not_finite";
    std::uint64_t samples = 0;

    DEDLOC_NAMED_FIELDS(samples)
};

// ---- rounds -------------------------------------------------------------------------------------

struct PlanMade {
    static constexpr std::string_view kind = "plan";
    double predicted_s = 0;
    std::optional<std::string> bottleneck{};
    std::optional<std::string> bottleneck_peer{};
    std::uint64_t left_out = 0;
    std::optional<std::string> left_out_peers{};  // with spaces between
    std::optional<double> bottleneck_mbit{};      // a second, of that link
    std::optional<double> vector_mb{};            // the average, encoded
    // The first members: the id's last letters = Mb/s up / down, then "a": it is an aggregator,
    // "n": it may own nothing; with spaces between.
    std::optional<std::string> lines{};
    std::optional<std::string> last_peer{};  // that handed in last
    std::optional<double> last_s{};          // so much later than the one before it

    DEDLOC_NAMED_FIELDS(predicted_s,
                        bottleneck,
                        bottleneck_peer,
                        left_out,
                        left_out_peers,
                        bottleneck_mbit,
                        vector_mb,
                        lines,
                        last_peer,
                        last_s)
};

struct LeftOut {
    static constexpr std::string_view kind = "left_out";
    std::uint64_t steps = 0;  // until it tries again

    DEDLOC_NAMED_FIELDS(steps)
};

// An aggregator's parts are in a certified step.
struct PartsReduced {
    static constexpr std::string_view kind = "reduced";
    std::uint64_t step = 0;
    std::uint64_t parts = 0;
    double share = 0;  // of the vector
    std::uint64_t memory_bytes_most = 0;

    DEDLOC_NAMED_FIELDS(step, parts, share, memory_bytes_most)
};

struct PartsRepaired {
    static constexpr std::string_view kind = "repair";
};
struct ValuesClipped {
    static constexpr std::string_view kind = "values_clipped";
};
struct UnsentLost {
    static constexpr std::string_view kind = "unsent_lost";
};
struct OwnerFailed {
    static constexpr std::string_view kind = "owner_failed";
};
struct InputRefused {
    static constexpr std::string_view kind = "refused_input";
};
struct MessageRefused {
    static constexpr std::string_view kind = "refused_message";
};
struct RoundFull {
    static constexpr std::string_view kind = "round_full";
};
struct LeaderSuspected {
    static constexpr std::string_view kind = "leader_suspected";
};
struct RoundFailed {
    static constexpr std::string_view kind = "round_failed";
};
struct BranchOpened {
    static constexpr std::string_view kind = "branch_opened";
};
struct NewBranch {
    static constexpr std::string_view kind = "new_branch";
};
struct VotesFailed {
    static constexpr std::string_view kind = "votes_failed";
};
struct VotesFailing {
    static constexpr std::string_view kind = "votes_failing";
};
struct VotesWritten {
    static constexpr std::string_view kind = "votes_written";
};

// ---- admission ----------------------------------------------------------------------------------

// A peer may not take part, and was told why.
struct AdmissionRefused {
    static constexpr std::string_view kind = "admission_refused";
};
// A member shows, by its token, whose device it is.
struct PersonSeen {
    static constexpr std::string_view kind = "person";
    std::string person;

    DEDLOC_NAMED_FIELDS(person)
};
// This peer, an organiser's, gave one.
struct TokenGiven {
    static constexpr std::string_view kind = "token_given";
    std::string person;

    DEDLOC_NAMED_FIELDS(person)
};
struct RenewalFailed {
    static constexpr std::string_view kind = "renewal_failed";
};
struct Revoked {
    static constexpr std::string_view kind = "revoked";
    std::string person;
    bool ours = false;  // the token of this peer names that person: it takes part no longer

    DEDLOC_NAMED_FIELDS(person)
};

// Members say that another process takes part with this peer's key.
struct KeyUsedTwice {
    static constexpr std::string_view kind = "key_used_twice";
};

// ---- robust runs --------------------------------------------------------------------------------

// A certificate has a new order about the event's peer.
struct OrderGiven {
    static constexpr std::string_view kind = "order";
    std::string order{};         // banned, eliminated, on probation
    std::string offence{};       // in words
    std::string evidence{};      // by which digest it is kept
    std::uint64_t about_us = 0;  // 1: yes

    DEDLOC_NAMED_FIELDS(order, offence, evidence, about_us)
};
// An order that was in force ends before its time.
struct OrderEnded {
    static constexpr std::string_view kind = "order_ended";
    std::string order{};

    DEDLOC_NAMED_FIELDS(order)
};
struct CheckDisputed {
    static constexpr std::string_view kind = "check_disputed";
};
struct CheckUndecided {
    static constexpr std::string_view kind = "check_undecided";
};
// This peer computed a contribution of the event's peer again, and tells the others what it found.
struct CheckMade {
    static constexpr std::string_view kind = "check_made";
    std::uint64_t checks = 0;  // that this peer has made

    DEDLOC_NAMED_FIELDS(checks)
};
// A contribution of a newcomer, the event's peer, was found right.
struct NewcomerRight {
    static constexpr std::string_view kind = "newcomer_right";
    std::uint64_t right = 0;     // of its contributions, one after the other
    std::uint64_t needed = 0;    // until what it brings counts
    std::uint64_t about_us = 0;  // 1: yes

    DEDLOC_NAMED_FIELDS(right, needed, about_us)
};
// A check for a peer that has erred: does it compute what others do?
struct OwnCheck {
    static constexpr std::string_view kind = "own_check";
    std::uint64_t right = 0;  // 1: yes

    DEDLOC_NAMED_FIELDS(right)
};

// ---- this process -------------------------------------------------------------------------------

struct EarlierCheckpoints {
    static constexpr std::string_view kind = "earlier_checkpoints";
};
struct StartedFrom {
    static constexpr std::string_view kind = "started_from";
};
struct TaskMade {
    static constexpr std::string_view kind = "task";
};
struct MicroBatchFound {
    static constexpr std::string_view kind = "micro_batch";
};
// The user has this peer compute nothing, or again.
struct Paused {
    static constexpr std::string_view kind = "paused";
};
struct Resumed {
    static constexpr std::string_view kind = "resumed";
};
struct CapsChanged {
    static constexpr std::string_view kind = "caps";
    double up_mbit = 0;
    double down_mbit = 0;

    DEDLOC_NAMED_FIELDS(up_mbit, down_mbit)
};
struct CheckpointSaved {
    static constexpr std::string_view kind = "checkpoint_saved";
};
struct CheckpointFailed {
    static constexpr std::string_view kind = "checkpoint_failed";
};
struct Published {
    static constexpr std::string_view kind = "published";
};
struct PublishFailed {
    static constexpr std::string_view kind = "publish_failed";
};
struct FileFetched {
    static constexpr std::string_view kind = "file_fetched";
};
struct FileMissing {
    static constexpr std::string_view kind = "file_missing";
};
// A piece of the run's data that no peer has any more, and one that is there again.
struct DataGone {
    static constexpr std::string_view kind = "data_gone";
};
struct DataFound {
    static constexpr std::string_view kind = "data_found";
};
// The event's peer sent bytes that are not the piece that it was asked for.
struct DataLied {
    static constexpr std::string_view kind = "data_lied";
};
struct JoinFileFailed {
    static constexpr std::string_view kind = "join_file_failed";
};
struct TrainingFailed {
    static constexpr std::string_view kind = "training_failed";
};
// A server of experts knows what it may take.
struct Serving {
    static constexpr std::string_view kind = "serving";
    std::uint64_t experts_max = 0;
    std::uint64_t lent_bytes = 0;
    std::uint64_t work_bytes = 0;     // of them, for computing
    std::uint64_t program_bytes = 0;  // taken before

    DEDLOC_NAMED_FIELDS(experts_max, lent_bytes, work_bytes, program_bytes)
};
// The server took over an expert, handed one over, or gave one up.
struct ExpertMoved {
    static constexpr std::string_view kind = "expert";
    std::string expert{};

    DEDLOC_NAMED_FIELDS(expert)
};
// A member sent gradients that an expert was spared.
struct GradientsBounded {
    static constexpr std::string_view kind = "gradients_bounded";
    std::uint64_t calls = 0;      // of that member so far
    std::uint64_t shortened = 0;  // longer than others'
    std::uint64_t withheld = 0;   // more than its share: not applied

    DEDLOC_NAMED_FIELDS(calls, shortened, withheld)
};
// Events of a kind that others can cause: more than the log takes (event_rate.h).
struct EventsLeftOut {
    static constexpr std::string_view kind = "events_left_out";
    std::string of{};
    std::uint64_t count = 0;

    DEDLOC_NAMED_FIELDS(of, count)
};
// This peer leads, and a round began later for the sake of one that did not come.
struct WaitedInVain {
    static constexpr std::string_view kind = "waited_in_vain";
};
// The others make steps faster than this peer's line brings them.
struct CannotFollow {
    static constexpr std::string_view kind = "cannot_follow";
    double needed_bytes_per_s = 0;
    double bytes_per_s = 0;  // that came

    DEDLOC_NAMED_FIELDS(needed_bytes_per_s, bytes_per_s)
};
struct EventsDropped {
    static constexpr std::string_view kind = "events_dropped";
    std::uint64_t count = 0;

    DEDLOC_NAMED_FIELDS(count)
};

// Read from a log of another version: it is kept as it is.
struct Unknown {
    using Value = std::variant<std::int64_t, double, std::string>;
    std::string kind;
    std::vector<std::pair<std::string, Value>> facts{};
};

using Any = std::variant<Unknown,
                         RunStarted,
                         Joined,
                         PeerJoined,
                         PeerLeft,
                         PeerLost,
                         Left,
                         RunOver,
                         StateDiffers,
                         Resynced,
                         ReplayFailed,
                         StepNotFinite,
                         StepMade,
                         Evaluated,
                         SamplesDropped,
                         NotFinite,
                         PlanMade,
                         LeftOut,
                         PartsReduced,
                         PartsRepaired,
                         OwnerFailed,
                         ValuesClipped,
                         UnsentLost,
                         InputRefused,
                         MessageRefused,
                         RoundFull,
                         LeaderSuspected,
                         RoundFailed,
                         BranchOpened,
                         NewBranch,
                         VotesFailed,
                         VotesFailing,
                         VotesWritten,
                         AdmissionRefused,
                         PersonSeen,
                         TokenGiven,
                         RenewalFailed,
                         Revoked,
                         KeyUsedTwice,
                         OrderGiven,
                         OrderEnded,
                         CheckDisputed,
                         CheckUndecided,
                         CheckMade,
                         NewcomerRight,
                         OwnCheck,
                         EarlierCheckpoints,
                         StartedFrom,
                         TaskMade,
                         MicroBatchFound,
                         Paused,
                         Resumed,
                         CapsChanged,
                         CheckpointSaved,
                         CheckpointFailed,
                         Published,
                         PublishFailed,
                         FileFetched,
                         FileMissing,
                         DataGone,
                         DataFound,
                         DataLied,
                         JoinFileFailed,
                         TrainingFailed,
                         Serving,
                         ExpertMoved,
                         GradientsBounded,
                         EventsDropped,
                         EventsLeftOut,
                         WaitedInVain,
                         CannotFollow>;

struct Event {
    WallSeconds time = 0;
    PeerId peer{};  // whom it is about; empty: us
    std::uint64_t step = 0;
    std::string text{};  // one sentence for people
    Any what{};

    template <typename... Kinds>
    bool is() const {
        return (std::holds_alternative<Kinds>(what) || ...);
    }
    // Null: something else has happened.
    template <typename Kind>
    const Kind* as() const {
        return std::get_if<Kind>(&what);
    }
    // The event's name in the event log.
    std::string_view kind() const {
        return std::visit([](const auto& held) { return std::string_view(held.kind); }, what);
    }
};

class EventSink {
  public:
    virtual ~EventSink() = default;
    virtual void record(const Event& event) = 0;  // network thread; must not block
};

}  // namespace dedloc::events
