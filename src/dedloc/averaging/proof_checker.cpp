#include "dedloc/averaging/proof_checker.h"

#include <algorithm>

#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// Parts, or rows, that are looked into together: their inputs lie in memory meanwhile.
constexpr std::size_t checked_at_once_max = 16;

using robust::Offence;
using robust::OrderKind;

Error not_proved(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "a proposal is refused: {}", why);
}

}  // namespace

// All at once: one after another they would take longer than a voter is waited for. False: one is
// shown by nobody.
Task<bool> ProofChecker::gather(std::shared_ptr<OpenProof> open,
                                std::vector<AskInput> asks,
                                std::shared_ptr<Evidence> into,
                                std::shared_ptr<ProofFindings> findings) {
    using Inputs = std::vector<std::optional<allreduce::CommittedInput>>;
    const auto found = std::make_shared<Inputs>(asks.size());
    std::vector<Task<void>> fetches;
    for (std::size_t i = 0; i < asks.size(); ++i) fetches.push_back(fetch(open, asks[i], found, i));
    co_await runtime::all_of(std::move(fetches));
    for (std::size_t i = 0; i < asks.size(); ++i) {
        const auto& [plan, part, member] = asks[i];
        auto& input = (*found)[i];
        if (!input) {
            const std::uint32_t owner = open->draw->parts[part].owner;
            findings->unshown.push_back({plan, Observation::unshown, member, part, owner});
            co_return false;
        }
        into->inputs.push_back({part, member, std::move(input->path), to_bytes(*input->encoded)});
    }
    co_return true;
}

Task<void> ProofChecker::fetch(
    std::shared_ptr<OpenProof> open,
    AskInput ask,
    std::shared_ptr<std::vector<std::optional<allreduce::CommittedInput>>> into,
    std::size_t place) {
    (*into)[place] = co_await prover_.input_of(std::move(open), ask.part, ask.member);
}

Task<void> ProofChecker::check_part(std::shared_ptr<OpenProof> open,
                                    std::uint32_t part,
                                    std::shared_ptr<ProofFindings> findings) {
    const consensus::FinishedPart header = open->draw->parts[part];
    const auto evidence = std::make_shared<Evidence>();
    evidence->plan = wire::encode(open->plan());
    evidence->finished.push_back(header);
    std::vector<AskInput> asks;
    for (const Reveal& reveal : open->draw->reveals) {
        if (!header.includes(reveal.member)) continue;
        evidence->commitments.push_back({reveal.member, reveal.commitment});
        asks.push_back({open->exchange->digest(), part, reveal.member});
    }
    const bool shown = co_await gather(open, std::move(asks), evidence, findings);
    if (!shown) co_return;
    auto work = [evidence, context = evidence_context(environment_)] {
        return reduction_is_right(*evidence, context);
    };
    const Result<bool> right = co_await environment_.node.workers.run(std::move(work));
    if (!right || *right) co_return;
    findings->orders.push_back(propose_order(environment_.ledger.base(),
                                             open->plan().members[header.owner].peer,
                                             OrderKind::ban,
                                             Offence::wrong_reduction,
                                             *evidence));
}

Task<void> ProofChecker::check_row(std::shared_ptr<OpenProof> open,
                                   std::shared_ptr<const Proof> proof,
                                   std::uint32_t owner,
                                   std::uint32_t member,
                                   std::optional<SignedBy> accusation,
                                   std::shared_ptr<ProofFindings> findings) {
    const auto evidence = std::make_shared<Evidence>();
    evidence->plan = wire::encode(open->plan());
    Proof one{proof->draw, {}};
    const auto answer = std::ranges::find(proof->answers, member, &SignedBy::member);
    if (answer == proof->answers.end()) co_return;
    // A member that weighs nothing committed to nothing here: nobody need be able to show it.
    if (reveal_of(proof->draw, member) == nullptr) co_return;
    one.answers.push_back(*answer);
    evidence->proof.push_back(std::move(one));
    const auto parts = open->rows->parts_of(owner, member);
    std::vector<AskInput> asks;
    for (const std::uint32_t part : parts) asks.push_back({open->exchange->digest(), part, member});
    const bool shown = co_await gather(open, std::move(asks), evidence, findings);
    if (!shown) co_return;
    for (const std::uint32_t part : parts) {
        const SharedBytes average = environment_.parts.find(proof->draw.parts[part].digest);
        if (!average) co_return;
        evidence->averages.push_back({part, to_bytes(*average)});
    }
    auto work = [evidence, owner, member, context = evidence_context(environment_)] {
        return row_is_right(*evidence, owner, member, context);
    };
    const Result<bool> right = co_await environment_.node.workers.run(std::move(work));
    if (!right) co_return;
    const consensus::Base& base = environment_.ledger.base();
    if (!*right) {
        const PeerId& liar = open->plan().members[member].peer;
        findings->orders.push_back(
            propose_order(base, liar, OrderKind::ban, Offence::false_row, *evidence));
    } else if (accusation) {
        evidence->statements.push_back(*accusation);
        const PeerId& liar = open->plan().members[owner].peer;
        findings->orders.push_back(
            propose_order(base, liar, OrderKind::ban, Offence::false_accusation, *evidence));
    }
}

// Some at once: one after another they take longer than voters are waited for.
Task<ProofFindings> ProofChecker::first_not_clear(std::vector<Check> checks) {
    for (std::size_t first = 0; first < checks.size(); first += checked_at_once_max) {
        const std::size_t end = std::min(first + checked_at_once_max, checks.size());
        std::vector<std::shared_ptr<ProofFindings>> found;
        std::vector<Task<void>> at_once;
        for (std::size_t i = first; i < end; ++i) {
            found.push_back(std::make_shared<ProofFindings>());
            at_once.push_back(checks[i](found.back()));
        }
        co_await runtime::all_of(std::move(at_once));
        for (const std::shared_ptr<ProofFindings>& each : found)
            if (!each->is_clear()) co_return *each;
    }
    co_return ProofFindings{};
}

Task<ProofFindings> ProofChecker::of_owner(std::shared_ptr<OpenProof> open,
                                           std::shared_ptr<const Proof> proof,
                                           std::uint32_t owner) {
    std::vector<Check> checks;
    for (std::uint32_t part = 0; part < proof->draw.parts.size(); ++part)
        if (proof->draw.parts[part].owner == owner)
            checks.push_back([this, open, part](std::shared_ptr<ProofFindings> found) {
                return check_part(open, part, std::move(found));
            });
    ProofFindings of_parts = co_await first_not_clear(std::move(checks));
    if (!of_parts.is_clear()) co_return of_parts;
    std::vector<Check> rows;
    for (const SignedBy& answer : proof->answers)
        if (!open->rows->parts_of(owner, answer.member).empty())
            rows.push_back([this, open, proof, owner, member = answer.member](
                               std::shared_ptr<ProofFindings> found) {
                return check_row(open, proof, owner, member, std::nullopt, std::move(found));
            });
    ProofFindings of_rows = co_await first_not_clear(std::move(rows));
    co_return of_rows;
}

Task<ProofFindings> ProofChecker::of_row(std::shared_ptr<OpenProof> open,
                                         std::shared_ptr<const Proof> proof,
                                         SignedBy accusation) {
    const auto findings = std::make_shared<ProofFindings>();
    const auto read = wire::decode<Accusation>(accusation.payload);
    const bool sound = read && accusation.member < open->plan().members.size() &&
                       read->draw == open->draw_digest &&
                       environment_.verifier.verify(open->plan().members[accusation.member].peer,
                                                    accusation_domain,
                                                    accusation.payload,
                                                    accusation.signature);
    if (!sound) co_return *findings;
    const std::optional<SignedBy> accuses = accusation;
    co_await check_row(open, proof, accusation.member, read->accused, accuses, findings);
    co_return *findings;
}

Task<Result<void>> ProofChecker::vouch(std::shared_ptr<const consensus::RoundPlan> plan,
                                       consensus::Decision decided,
                                       PeerId proposer) {
    const auto decision = std::make_shared<const consensus::Decision>(std::move(decided));
    const std::shared_ptr<OpenProof> open =
        prover_.find(consensus::decision_digest(decision->plan));
    std::shared_ptr<const Proof> proof;
    std::shared_ptr<const allreduce::ProofRows> rows;
    if (open && open->proof && open->rows && open->proof_digest == decision->proof) {
        proof = std::make_shared<const Proof>(*open->proof);
        rows = open->rows;
        (void)store_.put(wire::encode(*proof));  // validators look for it there
        co_return co_await check_proof(plan, decision, proof, rows);
    }
    // The proof came to others, and not to us.
    const TimePoint deadline = environment_.now() + parts_.timeouts.answer_after_work();
    const auto bytes = co_await store_.fetch(proposer, decision->proof, deadline);
    if (!bytes) co_return make_error(ErrorKind::not_found, "the proof is not to be had");
    auto read = wire::decode<Proof>(*bytes);
    if (!read || read->draw.plan != consensus::decision_digest(decision->plan))
        co_return not_proved("its proof is of another plan, or none");
    proof = std::make_shared<const Proof>(*std::move(read));
    if (Ok sound = check_draw(environment_.verifier, *plan, proof->draw); !sound)
        co_return std::move(sound).error();
    rows = co_await prover_.rows_for(plan, proof->draw);
    if (open) {
        open->draw = proof->draw;
        open->draw_digest = digest_of(proof->draw);
        open->rows = rows;
        open->proof = *proof;
        open->proof_digest = decision->proof;
    }
    co_return co_await check_proof(plan, decision, proof, rows);
}

// As far as this member can tell: it revealed its own nonce when it held every average. The leader
// hears nonces before it does.
bool ProofChecker::was_committed_before_draw(const consensus::RoundPlan& plan,
                                             const DrawMessage& draw) const {
    const std::shared_ptr<OpenProof> open = prover_.find(draw.plan);
    if (!open || !open->exchange->open_to() || plan.leader == environment_.me()) return true;
    const std::set<std::uint32_t>& committed = *open->exchange->open_to();
    for (std::uint32_t member = 0; member < plan.members.size(); ++member)
        if (must_prove(plan, draw, member) && !committed.contains(member)) return false;
    return true;
}

Task<Result<void>> ProofChecker::check_proof(std::shared_ptr<const consensus::RoundPlan> plan,
                                             std::shared_ptr<const consensus::Decision> decision,
                                             std::shared_ptr<const Proof> proof,
                                             std::shared_ptr<const allreduce::ProofRows> rows) {
    for (std::size_t part = 0; part < decision->parts.size(); ++part)
        if (proof->draw.parts[part].signed_bytes() != decision->parts[part].signed_bytes())
            co_return not_proved("its proof is of other averages");
    const auto table = rows_of(environment_.verifier, *plan, *proof);
    if (table && decision->size != rows->size(*table))
        co_return not_proved("it says of its size what its rows do not");
    if (environment_.options.bugs.rows_unchecked) co_return Result<void>();
    if (!contradicting_owners(proof->draw).empty())
        co_return not_proved("an owner reduced what nobody had committed to");
    if (!was_committed_before_draw(*plan, proof->draw))
        co_return make_error(ErrorKind::conflict,
                             "it averages a contribution that came after a nonce was revealed");
    if (!table) co_return table.error();
    for (std::size_t place = 0; place < rows->owners().size(); ++place) {
        const std::uint32_t owner = rows->owners()[place];
        const auto column = column_of(*table, place, plan->members.size());
        if (rows->check_sums(owner, column)) continue;
        const std::shared_ptr<OpenProof> open = prover_.find(proof->draw.plan);
        if (!open) co_return make_error(ErrorKind::not_found, "its inputs are not to be had");
        const ProofFindings findings = co_await of_owner(open, proof, owner);
        if (!findings.orders.empty()) co_return not_proved("an average of it is wrong");
        if (!findings.unshown.empty())
            co_return make_error(ErrorKind::not_found, "its inputs are not to be had");
    }
    co_return Result<void>();
}

}  // namespace dedloc::averaging
