#include "dedloc/averaging/prove_phase.h"

#include <algorithm>
#include <optional>

#include "dedloc/robust/recheck.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

// A share of a round's time: how long nonces are waited for.
constexpr int nonces_share = 4;

}  // namespace

TimePoint ProvePhase::deadline(const Attempt& attempt) const {
    const TimePoint least = environment_.now() + parts_.timeouts.answer_after_work();
    return attempt.exchange ? std::max(attempt.exchange->round_deadline(), least) : least;
}

Task<PhaseEnd> ProvePhase::begin(std::shared_ptr<Attempt> attempt) {
    if (!environment_.options.proves || !attempt->exchange || !attempt->exchange->complete())
        co_return PhaseEnd::go_on;
    const std::shared_ptr<OpenProof> open = prover_.find(attempt->exchange->digest());
    if (open) co_await prove(attempt, open);
    co_return PhaseEnd::go_on;
}

Task<void> ProvePhase::prove(std::shared_ptr<Attempt> attempt, std::shared_ptr<OpenProof> open) {
    const bool revealed = co_await nonces(open);
    if (!revealed) co_return;
    const auto proof = std::make_shared<Proof>();
    const bool answered = co_await rows(open, proof);
    if (!answered) co_return;
    const auto table = rows_of(environment_.verifier, open->plan(), *proof);
    if (!table) co_return;
    const bool right = co_await objections(open, proof);
    if (!right) co_return;
    const bool adds_up = co_await sums(open, proof, *table);
    if (!adds_up) co_return;
    attempt->proof = store_.put(wire::encode(*proof));
    attempt->proved = proof->draw.parts;
    attempt->size = open->rows->size(*table);
}

// ---- asking -------------------------------------------------------------------------------------

Task<void> ProvePhase::ask(std::shared_ptr<OpenProof> open,
                           std::uint32_t member,
                           std::string method,
                           Bytes message,
                           std::shared_ptr<Heard> heard) {
    const PeerId peer = open->plan().members[member].peer;
    const bool weightless = open->plan().members[member].weightless;
    const TimePoint least = environment_.now() + parts_.timeouts.answer_after_work();
    // A member that weighs nothing must not delay the others.
    const TimePoint until = weightless ? environment_.now() + parts_.timeouts.answer()
                                       : std::max(open->exchange->round_deadline(), least);
    auto reply = co_await environment_.host.call(peer, method, std::move(message), until);
    if (weightless && !reply) weightless_.failed(peer, environment_.now());
    if (weightless && reply) weightless_.came(peer);
    if (!reply) co_return;
    auto objections = wire::decode<Objections>(*reply);
    if (objections) heard->emplace(member, *std::move(objections));
}

Task<std::shared_ptr<ProvePhase::Heard>> ProvePhase::ask_all(std::shared_ptr<OpenProof> open,
                                                             std::string method,
                                                             Bytes message,
                                                             std::vector<Task<void>> besides,
                                                             Asked asked) {
    const auto heard = std::make_shared<Heard>();
    std::vector<Task<void>> questions = std::move(besides);
    for (std::uint32_t member = 0; member < open->plan().members.size(); ++member) {
        const consensus::PlanMember& of = open->plan().members[member];
        const bool may = !of.weightless || (asked == Asked::all &&
                                            weightless_.waits_for(of.peer, environment_.now()));
        if (of.peer != environment_.me() && may)
            questions.push_back(ask(open, member, method, message, heard));
    }
    if (!questions.empty()) co_await runtime::all_of(std::move(questions));
    co_return heard;
}

// A table to everybody, ourselves included.
Task<std::shared_ptr<ProvePhase::Heard>> ProvePhase::show(std::shared_ptr<OpenProof> open,
                                                          Table table) {
    Bytes message = wire::encode(table);
    const auto own = std::make_shared<Objections>();
    std::vector<Task<void>> besides;
    besides.push_back(check_table(open, std::move(table), own));
    auto heard = co_await ask_all(open, table_method, std::move(message), std::move(besides));
    heard->emplace(*open->exchange->own_place(), std::move(*own));
    co_return heard;
}

Task<void> ProvePhase::check_table(std::shared_ptr<OpenProof> open,
                                   Table table,
                                   std::shared_ptr<Objections> own) {
    *own = co_await prover_.object(std::move(open), std::move(table));
}

Task<void> ProvePhase::answer_draw(std::shared_ptr<OpenProof> open,
                                   DrawMessage draw,
                                   std::shared_ptr<std::optional<Result<Objections>>> own) {
    Result<Objections> answered = co_await prover_.answer(std::move(open), std::move(draw));
    own->emplace(std::move(answered));
}

// ---- nonces -------------------------------------------------------------------------------------

DrawMessage ProvePhase::draw_of(const OpenProof& open) const {
    DrawMessage draw;
    draw.plan = open.exchange->digest();
    for (const auto& [part, header] : open.exchange->finished()) draw.parts.push_back(header);
    for (const auto& [member, reveal] : open.reveals)
        if (must_prove(open.plan(), draw, member)) draw.reveals.push_back(reveal);
    return draw;
}

std::vector<std::uint32_t> ProvePhase::without_nonce(const OpenProof& open) const {
    const DrawMessage draw = draw_of(open);
    std::vector<std::uint32_t> missing;
    for (std::uint32_t member = 0; member < open.plan().members.size(); ++member)
        if (must_prove(open.plan(), draw, member) && !open.reveals.contains(member))
            missing.push_back(member);
    return missing;
}

Task<bool> ProvePhase::nonces(std::shared_ptr<OpenProof> open) {
    const Duration share = std::chrono::milliseconds(open->plan().round_ms) / nonces_share;
    const TimePoint until =
        environment_.now() + std::max<Duration>(share, parts_.timeouts.answer());
    while (!without_nonce(*open).empty() && environment_.now() < until)
        (void)co_await prover_.changed().wait_until(environment_.node.clock, until);
    Table table;
    table.plan = open->exchange->digest();
    table.missing = without_nonce(*open);
    if (table.missing.empty()) co_return true;
    const auto heard = co_await show(open, std::move(table));
    for (const auto& [member, objections] : *heard)
        for (const Reveal& reveal : objections.reveals)
            if (reveal.plan == open->exchange->digest() &&
                check_reveal(environment_.verifier, open->plan(), reveal))
                open->reveals.try_emplace(reveal.member, reveal);
    if (without_nonce(*open).empty()) co_return true;
    report_by_testimonies(*open, *heard);
    co_return false;
}

// ---- rows ---------------------------------------------------------------------------------------

Task<bool> ProvePhase::rows(std::shared_ptr<OpenProof> open, std::shared_ptr<Proof> proof) {
    proof->draw = draw_of(*open);
    Bytes message = wire::encode(proof->draw);
    const auto own = std::make_shared<std::optional<Result<Objections>>>();
    std::vector<Task<void>> besides;
    besides.push_back(answer_draw(open, proof->draw, own));
    const auto heard =
        co_await ask_all(open, draw_method, std::move(message), std::move(besides), Asked::all);
    Result<Objections> mine = **std::move(own);
    if (!mine) {
        environment_.teller.tell(events::RoundFailed{}, {}, mine.error().message());
        co_return false;
    }
    heard->emplace(*open->exchange->own_place(), *std::move(mine));
    std::map<std::uint32_t, SignedBy> answers;
    const auto take = [&](const SignedBy& answer) {
        if (rows_of(environment_.verifier, open->plan(), proof->draw, answer))
            answers.try_emplace(answer.member, answer);
    };
    for (const auto& [member, objections] : *heard)
        for (const SignedBy& answer : objections.answer)
            if (answer.member == member) take(answer);
    report_two_commitments(*open, *heard);
    report_by_testimonies(*open, *heard);
    const std::vector<std::uint32_t> contradicting = contradicting_owners(proof->draw);
    // Where no second commitment explains it, that one reduces nothing for a while.
    for (const std::uint32_t owner : contradicting)
        parts_.exchanges.state().failed_owners.failed(
            open->plan().members[owner].peer, environment_.now(), /*broke_protocol=*/true);
    if (!contradicting.empty()) co_return false;
    co_await complete_rows(open, proof, std::move(answers));
    co_return true;
}

// An owner that gave us nothing may give it to others.
Task<void> ProvePhase::complete_rows(std::shared_ptr<OpenProof> open,
                                     std::shared_ptr<Proof> proof,
                                     std::map<std::uint32_t, SignedBy> answers) {
    Table table;
    table.plan = open->exchange->digest();
    table.draw = open->draw_digest;
    for (std::uint32_t member = 0; member < open->plan().members.size(); ++member)
        if (must_prove(open->plan(), proof->draw, member) && !answers.contains(member))
            table.missing.push_back(member);
    if (!table.missing.empty()) {
        const auto second = co_await show(open, std::move(table));
        for (const auto& [member, objections] : *second)
            for (const SignedBy& answer : objections.answer)
                if (rows_of(environment_.verifier, open->plan(), proof->draw, answer))
                    answers.try_emplace(answer.member, answer);
        report_by_testimonies(*open, *second);
    }
    for (auto& [member, answer] : answers) proof->answers.push_back(std::move(answer));
}

// ---- objections ---------------------------------------------------------------------------------

Task<bool> ProvePhase::objections(std::shared_ptr<OpenProof> open,
                                  std::shared_ptr<const Proof> proof) {
    Table table;
    table.plan = open->exchange->digest();
    table.draw = open->draw_digest;
    table.answers = proof->answers;
    const auto heard = co_await show(open, std::move(table));
    bool right = true;
    for (const auto& [member, said] : *heard)
        for (const SignedBy& accusation : said.accusations) {
            if (accusation.member != member || !right) continue;
            ProofFindings findings = co_await checker_.of_row(open, proof, accusation);
            right = findings.is_clear();
            if (!right) co_await settle(open, std::move(findings));
        }
    co_return right;
}

Task<bool> ProvePhase::sums(std::shared_ptr<OpenProof> open,
                            std::shared_ptr<const Proof> proof,
                            const RowTable& table) {
    const std::vector<std::uint32_t> owners = open->rows->owners();
    for (std::size_t place = 0; place < owners.size(); ++place) {
        const auto column = column_of(table, place, open->plan().members.size());
        if (open->rows->check_sums(owners[place], column)) continue;
        ProofFindings findings = co_await checker_.of_owner(open, proof, owners[place]);
        if (findings.is_clear()) continue;
        co_await settle(open, std::move(findings));
        co_return environment_.options.bugs.rows_unchecked;
    }
    co_return true;
}

// Others may be shown what nobody shows us.
Task<void> ProvePhase::settle(std::shared_ptr<OpenProof> open, ProofFindings findings) {
    for (ProposedOrder& each : findings.orders) pending_orders_.add(std::move(each));
    if (findings.unshown.empty()) co_return;
    const Testimony question = findings.unshown.front();
    Table table;
    table.plan = open->exchange->digest();
    table.draw = open->draw_digest;
    table.unshown.push_back(question);
    const auto heard = co_await show(open, std::move(table));
    Evidence evidence;
    evidence.plan = wire::encode(open->plan());
    const consensus::Base& base = environment_.ledger.base();
    for (const auto& [member, said] : *heard) {
        if (said.testimonies.size() != 1 || !base.is_voter(open->plan().members[member].peer))
            continue;
        const SignedBy& statement = said.testimonies.front();
        const auto testimony = wire::decode<Testimony>(statement.payload);
        if (testimony && *testimony == question && statement.member == member)
            evidence.statements.push_back(statement);
    }
    const std::set<std::uint32_t> pair{question.subject, question.owner};
    for (const std::uint32_t member : pair) {
        Evidence about = evidence;
        std::erase_if(about.statements,
                      [member](const SignedBy& statement) { return statement.member == member; });
        if (about.statements.size() < robust::findings_needed(base.voters.size())) continue;
        pending_orders_.add(propose_order(base,
                                          open->plan().members[member].peer,
                                          robust::OrderKind::eliminate,
                                          robust::Offence::unjudged,
                                          about));
    }
}

// ---- orders ------------------------------------------------------------------------------------

void ProvePhase::report_two_commitments(const OpenProof& open, const Heard& heard) {
    for (const auto& [member, said] : heard)
        for (const SecondCommitment& other : said.commitments) {
            const auto first = open.reveals.find(other.member);
            if (first == open.reveals.end() || first->second.commitment.says(other.commitment) ||
                !allreduce::is_signed(environment_.verifier,
                                      open.plan().members[other.member].peer,
                                      open.exchange->digest(),
                                      other.commitment))
                continue;
            Evidence evidence;
            evidence.plan = wire::encode(open.plan());
            evidence.commitments = {{other.member, first->second.commitment}, other};
            pending_orders_.add(propose_order(environment_.ledger.base(),
                                              open.plan().members[other.member].peer,
                                              robust::OrderKind::ban,
                                              robust::Offence::two_commitments,
                                              evidence));
        }
}

void ProvePhase::report_by_testimonies(const OpenProof& open, const Heard& heard) {
    std::map<std::uint32_t, Evidence> about;
    const consensus::Base& base = environment_.ledger.base();
    for (const auto& [member, said] : heard) {
        if (!base.is_voter(open.plan().members[member].peer)) continue;
        std::set<std::uint32_t> subjects;  // of this witness: one testimony each
        for (const SignedBy& statement : said.testimonies) {
            const auto testimony = wire::decode<Testimony>(statement.payload);
            if (!testimony || testimony->observation == Observation::unshown ||
                statement.member != member || testimony->subject == member ||
                testimony->subject >= open.plan().members.size())
                continue;
            if (subjects.insert(testimony->subject).second)
                about[testimony->subject].statements.push_back(statement);
        }
    }
    for (auto& [subject, evidence] : about) {
        if (evidence.statements.size() < robust::findings_needed(base.voters.size())) continue;
        evidence.plan = wire::encode(open.plan());
        pending_orders_.add(propose_order(base,
                                          open.plan().members[subject].peer,
                                          robust::OrderKind::probation,
                                          robust::Offence::withheld,
                                          evidence));
    }
}

}  // namespace dedloc::averaging
