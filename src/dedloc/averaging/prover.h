// Prover: a member's side of a robust round's proof (proof_messages.h): it reveals its nonce when
// it holds every average, answers the draw with its rows, looks at the others' rows as an owner,
// and shows inputs to who checks a proof.
//
// Bounds: the proofs of the newest proofs_max plans are kept. Thread: the network thread; rows on
// workers. Lifetime: stop() before destruction.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/allreduce/proof_rows.h"
#include "dedloc/averaging/commit_averages.h"
#include "dedloc/averaging/round_parts.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/p2p/handlers.h"

namespace dedloc::averaging {

// The proof of one plan, as far as it is known here.
struct OpenProof {
    std::shared_ptr<allreduce::Exchange> exchange;
    std::map<std::uint32_t, Reveal> reveals;  // at the leader
    std::optional<DrawMessage> draw;
    Digest draw_digest;
    std::shared_ptr<const allreduce::ProofRows> rows;
    std::optional<SignedBy> answer;  // ours
    std::optional<Proof> proof;      // whole, and sound
    Digest proof_digest;
    bool counted_silent = false;  // those who gave nothing are counted once a plan

    const consensus::RoundPlan& plan() const { return exchange->plan(); }
};

class Prover {
  public:
    Prover(RoundParts& parts, CommitAverages& averages);

    void start();
    Task<void> stop();
    // Begins the proof of a plan that has just begun here.
    void begin(std::shared_ptr<allreduce::Exchange> exchange);

    // For the leader: what it knows, and its own answers.
    std::shared_ptr<OpenProof> find(const Digest& plan) const;
    runtime::Event& changed() { return changed_; }
    // Errors: peer_broke_protocol, not_found: an average is not to be had.
    Task<Result<Objections>> answer(std::shared_ptr<OpenProof> open, DrawMessage draw);
    Task<Objections> object(std::shared_ptr<OpenProof> open, Table table);
    // A part of a contribution, from here or from whom may have it, under the root that its author
    // signed; none: nobody shows it.
    Task<std::optional<allreduce::CommittedInput>> input_of(std::shared_ptr<OpenProof> open,
                                                            std::uint32_t part,
                                                            std::uint32_t member);
    // Finds what allowed rows to be computed; the draw is one of the plan's.
    Task<std::shared_ptr<const allreduce::ProofRows>> rows_for(
        std::shared_ptr<const consensus::RoundPlan> plan, DrawMessage draw);

  private:
    Task<void> reveal(std::shared_ptr<OpenProof> open);
    Task<Result<Bytes>> on_reveal(PeerId from, Bytes request);
    Task<Result<Bytes>> on_draw(PeerId from, Bytes request);
    Task<Result<Bytes>> on_table(PeerId from, Bytes request);
    Task<Result<Bytes>> on_answer(PeerId from, Bytes request);
    Task<Result<Bytes>> on_input(PeerId from, Bytes request);
    Ok receive_reveal(const PeerId& from, const Reveal& reveal);
    Task<Result<Bytes>> objections_to_draw(std::shared_ptr<OpenProof> open, DrawMessage draw);
    void close_to_latecomers(allreduce::Exchange& exchange) const;
    // Returns nothing while an average is missing; else the round is closed to latecomers from here
    // on.
    std::optional<Reveal> reveal_own(const OpenProof& open) const;
    void note_contradictions(const OpenProof& open, const DrawMessage& draw, Objections& into);
    SignedBy testify(const OpenProof& open, const Testimony& testimony) const;
    Task<void> check_rows(std::shared_ptr<OpenProof> open,
                          RowTable table,
                          std::shared_ptr<Objections> into);
    Task<void> ask_missing(std::shared_ptr<OpenProof> open,
                           Table table,
                           std::shared_ptr<Objections> into);
    Task<bool> gives(std::shared_ptr<OpenProof> open,
                     std::uint32_t member,
                     bool drawn,
                     std::shared_ptr<Objections> into);
    Task<std::optional<allreduce::CommittedInput>> ask_input(std::shared_ptr<OpenProof> open,
                                                             PeerId peer,
                                                             AskInput ask);

    RoundParts& parts_;
    const RoundEnvironment& environment_;
    CommitAverages& averages_;
    p2p::Handlers handlers_;
    std::map<Digest, std::shared_ptr<OpenProof>> open_;
    std::deque<Digest> order_;
    std::map<PeerId, int> silent_;  // how often in a row
    runtime::Event changed_;
    runtime::Scope scope_;
};

}  // namespace dedloc::averaging
