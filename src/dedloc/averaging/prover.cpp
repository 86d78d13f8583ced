#include "dedloc/averaging/prover.h"

#include <algorithm>

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr std::size_t proofs_max = 4;     // of the newest plans
constexpr Duration reveal_again = 100ms;  // if the leader did not answer
constexpr int silent_max = 2;             // times in a row, before somebody testifies

}  // namespace

Prover::Prover(RoundParts& parts, CommitAverages& averages)
    : parts_(parts),
      environment_(parts.environment),
      averages_(averages),
      handlers_(environment_.host),
      changed_(environment_.node.executor),
      scope_(environment_.node.executor) {}

void Prover::start() {
    handlers_.on_call(reveal_method, [this](PeerId from, Bytes request) {
        return on_reveal(from, std::move(request));
    });
    handlers_.on_call(draw_method, [this](PeerId from, Bytes request) {
        return on_draw(from, std::move(request));
    });
    handlers_.on_call(table_method, [this](PeerId from, Bytes request) {
        return on_table(from, std::move(request));
    });
    handlers_.on_call(answer_method, [this](PeerId from, Bytes request) {
        return on_answer(from, std::move(request));
    });
    handlers_.on_call(input_method, [this](PeerId from, Bytes request) {
        return on_input(from, std::move(request));
    });
}

Task<void> Prover::stop() {
    co_await handlers_.stop();
    co_await scope_.stop();
}

std::shared_ptr<OpenProof> Prover::find(const Digest& plan) const {
    const auto found = open_.find(plan);
    return found == open_.end() ? nullptr : found->second;
}

void Prover::begin(std::shared_ptr<allreduce::Exchange> exchange) {
    const Digest plan = exchange->digest();
    if (open_.contains(plan)) return;
    auto open = std::make_shared<OpenProof>();
    open->exchange = std::move(exchange);
    open_.emplace(plan, open);
    order_.push_back(plan);
    while (order_.size() > proofs_max) {
        open_.erase(order_.front());
        order_.pop_front();
    }
    if (open->exchange->contributes()) scope_.spawn("reveal the nonce", reveal(std::move(open)));
}

// ---- nonces -------------------------------------------------------------------------------------

std::optional<Reveal> Prover::reveal_own(const OpenProof& open) const {
    allreduce::Exchange& exchange = *open.exchange;
    const bool may = exchange.complete() || environment_.options.bugs.early_draw;
    if (!exchange.committed() || !may) return std::nullopt;
    close_to_latecomers(exchange);
    return Reveal{exchange.digest(),
                  *exchange.own_place(),
                  exchange.committed()->commitment,
                  exchange.committed()->nonce};
}

// Not before every average is here: what is in them cannot be chosen by the draw any more.
Task<void> Prover::reveal(std::shared_ptr<OpenProof> open) {
    const std::shared_ptr<allreduce::Exchange> exchange = open->exchange;
    const TimePoint end = exchange->round_deadline();
    std::optional<Reveal> own = reveal_own(*open);
    while (!own && environment_.now() < end) {
        (void)co_await exchange->changed().wait_until(environment_.node.clock, end);
        own = reveal_own(*open);
    }
    if (!own) co_return;
    const PeerId leader = exchange->plan().leader;
    if (leader == environment_.me()) {
        (void)receive_reveal(leader, *own);
        co_return;
    }
    const Bytes message = wire::encode(*own);
    while (environment_.now() < end) {
        Bytes request = message;
        const TimePoint deadline = environment_.now() + parts_.timeouts.answer();
        const auto taken =
            co_await environment_.host.call(leader, reveal_method, std::move(request), deadline);
        if (taken) co_return;
        co_await environment_.node.clock.sleep_for(reveal_again);
    }
}

Task<Result<Bytes>> Prover::on_reveal(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    const auto reveal = wire::decode<Reveal>(request);
    if (!reveal) co_return consensus::unreadable("nonce");
    const Ok taken = receive_reveal(from, *reveal);
    if (!taken) {
        parts_.complaints.add_if_broken(from, environment_.now(), taken.error());
        co_return taken.error();
    }
    co_return Bytes{};
}

Ok Prover::receive_reveal(const PeerId& from, const Reveal& reveal) {
    const std::shared_ptr<OpenProof> open = find(reveal.plan);
    if (!open) return make_error(ErrorKind::not_found, "no such plan here");
    DEDLOC_TRY_VOID(check_reveal(environment_.verifier, open->plan(), reveal));
    if (open->plan().leader != environment_.me() ||
        (from != environment_.me() && open->plan().members[reveal.member].peer != from))
        return make_error(ErrorKind::peer_broke_protocol, "a nonce is not for us, or another's");
    open->reveals.try_emplace(reveal.member, reveal);
    close_to_latecomers(*open->exchange);
    changed_.pulse();
    return {};
}

// Once a nonce is known outside of its author, a member that has not committed could choose its
// contribution by the draw.
void Prover::close_to_latecomers(allreduce::Exchange& exchange) const {
    if (!environment_.options.bugs.early_draw) exchange.close_to_latecomers();
}

// ---- answers ------------------------------------------------------------------------------------

SignedBy Prover::testify(const OpenProof& open, const Testimony& testimony) const {
    SignedBy statement;
    statement.member = *open.exchange->own_place();
    statement.payload = wire::encode(testimony);
    statement.signature = environment_.signer.sign(testimony_domain, statement.payload);
    return statement;
}

// Adds what an owner knows of the members that the draw does not say.
void Prover::note_contradictions(const OpenProof& open, const DrawMessage& draw, Objections& into) {
    const allreduce::KeptInputs& kept = open.exchange->kept();
    for (const Reveal& reveal : draw.reveals) {
        const allreduce::Commitment* const other = kept.commitment(reveal.member);
        if (other != nullptr && !other->says(reveal.commitment))
            into.commitments.push_back({reveal.member, *other});
    }
    for (const auto& [member, second] : kept.second_commitments()) {
        const Reveal* const reveal = reveal_of(draw, member);
        if (reveal != nullptr && !second.says(reveal->commitment))
            into.commitments.push_back({member, second});
    }
    for (const std::uint32_t member : kept.contradicting())
        into.testimonies.push_back(
            testify(open, {open.exchange->digest(), Observation::contradicted, member, 0, 0}));
}

Task<std::shared_ptr<const allreduce::ProofRows>> Prover::rows_for(
    std::shared_ptr<const consensus::RoundPlan> plan, DrawMessage draw) {
    std::vector<allreduce::ReducedAverage> averages;
    for (const consensus::FinishedPart& header : draw.parts)
        averages.push_back({header, environment_.parts.find(header.digest)});
    auto work = [plan = std::move(plan),
                 rule = environment_.options.clip_rule,
                 seed = seed_of(draw),
                 averages = std::move(averages),
                 &workers = environment_.node.workers] {
        return std::make_shared<const allreduce::ProofRows>(plan, rule, seed, averages, workers);
    };
    co_return co_await environment_.node.workers.run(std::move(work));
}

Task<Result<Objections>> Prover::answer(std::shared_ptr<OpenProof> open, DrawMessage draw) {
    const consensus::RoundPlan& plan = open->plan();
    DEDLOC_CO_TRY_VOID(check_draw(environment_.verifier, plan, draw));
    const std::shared_ptr<const consensus::RoundPlan> shared(open->exchange, &plan);
    const std::uint32_t me = *open->exchange->own_place();
    if (!plan.members[me].aggregator) {
        const Result<void> held = co_await averages_.hold(shared, draw.parts, plan.leader);
        if (!held) co_return held.error();
    }
    const std::shared_ptr<const allreduce::OwnCommitment> own = open->exchange->committed();
    const Reveal* const revealed = reveal_of(draw, me);
    if (revealed != nullptr && (!own || !own->commitment.says(revealed->commitment)))
        co_return make_error(ErrorKind::conflict, "that is not what we committed to");
    open->rows = co_await rows_for(shared, draw);
    const std::size_t owners = open->rows->owners().size();
    auto work = [rows = open->rows, own, me, owners] {
        std::vector<robust::Row> mine(owners);
        for (std::size_t o = 0; own && o < owners; ++o) {
            const auto row = rows->row(
                rows->owners()[o], me, [&own](std::uint32_t part) { return own->encoded[part]; });
            if (row) mine[o] = *row;
        }
        return robust::encode_rows(mine);
    };
    Answer answered;
    answered.draw = digest_of(draw);
    answered.rows = co_await environment_.node.workers.run(std::move(work));
    SignedBy statement;
    statement.member = me;
    statement.payload = wire::encode(answered);
    statement.signature = environment_.signer.sign(answer_domain, statement.payload);
    open->draw_digest = answered.draw;
    open->draw = std::move(draw);
    open->answer = statement;
    Objections objections;
    objections.answer.push_back(std::move(statement));
    note_contradictions(*open, *open->draw, objections);
    co_return objections;
}

Task<Result<Bytes>> Prover::objections_to_draw(std::shared_ptr<OpenProof> open, DrawMessage draw) {
    Result<Objections> objections = co_await answer(std::move(open), std::move(draw));
    if (!objections) co_return std::move(objections).error();
    co_return wire::encode(*objections);
}

Task<Result<Bytes>> Prover::on_draw(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    auto draw = wire::decode<DrawMessage>(request);
    if (!draw) co_return consensus::unreadable("draw");
    const std::shared_ptr<OpenProof> open = find(draw->plan);
    if (!open || !open->exchange->own_place())
        co_return make_error(ErrorKind::not_found, "no such plan here");
    if (open->plan().leader != from)
        co_return make_error(ErrorKind::peer_broke_protocol, "a draw is not its leader's");
    open->exchange->leader_spoke();
    Result<Bytes> answered = co_await objections_to_draw(open, *std::move(draw));
    if (!answered) parts_.complaints.add_if_broken(from, environment_.now(), answered.error());
    co_return answered;
}

// For who is told that we gave nothing.
Task<Result<Bytes>> Prover::on_answer(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    auto ask = wire::decode<AskAnswer>(request);
    if (!ask) co_return consensus::unreadable("question for an answer");
    const std::shared_ptr<OpenProof> open = find(ask->plan);
    if (!open || !open->exchange->own_place())
        co_return make_error(ErrorKind::not_found, "no such plan here");
    Objections given;
    if (std::optional<Reveal> own = reveal_own(*open)) given.reveals.push_back(*std::move(own));
    if (!ask->draw.empty()) {
        DrawMessage draw = std::move(ask->draw.front());
        if (open->answer && open->draw_digest == digest_of(draw)) {
            given.answer.push_back(*open->answer);
        } else {
            auto answered = co_await answer(open, std::move(draw));
            if (answered) given.answer = std::move(answered->answer);
        }
    }
    co_return wire::encode(given);
}

// ---- objections ---------------------------------------------------------------------------------

Task<Result<Bytes>> Prover::on_table(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    auto table = wire::decode<Table>(request);
    if (!table) co_return consensus::unreadable("table of rows");
    const std::shared_ptr<OpenProof> open = find(table->plan);
    if (!open || !open->exchange->own_place())
        co_return make_error(ErrorKind::not_found, "no such plan here");
    if (open->plan().leader != from)
        co_return make_error(ErrorKind::peer_broke_protocol, "a table is not its leader's");
    open->exchange->leader_spoke();
    const Objections objections = co_await object(open, *std::move(table));
    co_return wire::encode(objections);
}

Task<Objections> Prover::object(std::shared_ptr<OpenProof> open, Table table) {
    const auto objections = std::make_shared<Objections>();
    if (!table.missing.empty()) co_await ask_missing(open, table, objections);
    if (open->draw && table.draw == open->draw_digest && !table.answers.empty()) {
        Proof proof{*open->draw, std::move(table.answers)};
        auto rows = rows_of(environment_.verifier, open->plan(), proof);
        if (rows) {
            co_await check_rows(open, *std::move(rows), objections);
            open->proof_digest = digest_of(proof);
            open->proof = std::move(proof);
        }
    }
    if (table.unshown.size() == 1) {
        const Testimony question = table.unshown.front();
        const bool sound = question.plan == open->exchange->digest() &&
                           question.part < open->plan().parts.size() &&
                           question.subject < open->plan().members.size();
        std::optional<allreduce::CommittedInput> shown;
        if (sound) shown = co_await input_of(open, question.part, question.subject);
        if (sound && !shown) objections->testimonies.push_back(testify(*open, question));
    }
    co_return *objections;
}

// As an owner: are the others' rows those of what they sent us?
Task<void> Prover::check_rows(std::shared_ptr<OpenProof> open,
                              RowTable table,
                              std::shared_ptr<Objections> into) {
    const std::uint32_t me = *open->exchange->own_place();
    const std::vector<std::uint32_t>& owners = open->rows->owners();
    const auto place = std::ranges::find(owners, me);
    if (place == owners.end() || environment_.options.bugs.rows_unchecked) co_return;
    const auto index = static_cast<std::size_t>(place - owners.begin());
    std::map<std::pair<std::uint32_t, std::uint32_t>, SharedBytes> inputs;
    for (const auto& [member, rows] : table)
        for (const std::uint32_t part : open->rows->parts_of(me, member))
            if (reveal_of(*open->draw, member) == nullptr)
                continue;  // it only has to show what it computed
            else if (auto input = open->exchange->input_of(part, member))
                inputs[{part, member}] = std::move(input->encoded);
    auto work = [rows = open->rows, table, inputs = std::move(inputs), me, index] {
        std::vector<std::uint32_t> wrong;
        for (const auto& [member, told] : table) {
            const auto input = [&](std::uint32_t part) {
                const auto found = inputs.find({part, member});
                return found == inputs.end() ? SharedBytes() : found->second;
            };
            const auto row = rows->row(me, member, input);
            if (row && member != me && *row != told[index]) wrong.push_back(member);
        }
        return wrong;
    };
    const std::vector<std::uint32_t> wrong =
        co_await environment_.node.workers.run(std::move(work));
    for (const std::uint32_t member : wrong) {
        SignedBy statement;
        statement.member = me;
        statement.payload = wire::encode(Accusation{open->draw_digest, member});
        statement.signature = environment_.signer.sign(accusation_domain, statement.payload);
        into->accusations.push_back(std::move(statement));
    }
}

// Did it give us what it did not give the leader?
Task<bool> Prover::gives(std::shared_ptr<OpenProof> open,
                         std::uint32_t member,
                         bool drawn,
                         std::shared_ptr<Objections> into) {
    AskAnswer ask;
    ask.plan = open->exchange->digest();
    if (drawn && open->draw) ask.draw.push_back(*open->draw);
    Bytes request = wire::encode(ask);
    const PeerId peer = open->plan().members[member].peer;
    const TimePoint deadline = environment_.now() + parts_.timeouts.answer();
    const auto reply =
        co_await environment_.host.call(peer, answer_method, std::move(request), deadline);
    if (!reply) co_return false;
    const auto given = wire::decode<Objections>(*reply);
    if (!given) co_return false;
    if (!drawn) {
        for (const Reveal& reveal : given->reveals)
            if (reveal.member == member && reveal.plan == ask.plan &&
                check_reveal(environment_.verifier, open->plan(), reveal)) {
                into->reveals.push_back(reveal);
                co_return true;
            }
        co_return false;
    }
    for (const SignedBy& answered : given->answer)
        if (open->draw && answered.member == member &&
            rows_of(environment_.verifier, open->plan(), *open->draw, answered)) {
            into->answer.push_back(answered);
            co_return true;
        }
    co_return false;
}

// Once it may have been a broken connection; twice in a row it keeps back what the round needs.
Task<void> Prover::ask_missing(std::shared_ptr<OpenProof> open,
                               Table table,
                               std::shared_ptr<Objections> into) {
    const bool drawn = !table.draw.is_zero();
    for (const std::uint32_t member : table.missing) {
        if (member >= open->plan().members.size() || member == *open->exchange->own_place())
            continue;
        const PeerId peer = open->plan().members[member].peer;
        const bool given = co_await gives(open, member, drawn, into);
        if (given) {
            silent_.erase(peer);
            continue;
        }
        if (!open->counted_silent) ++silent_[peer];
        if (silent_[peer] >= silent_max)
            into->testimonies.push_back(
                testify(*open, {open->exchange->digest(), Observation::kept_back, member, 0, 0}));
    }
    open->counted_silent = true;
    while (silent_.size() > consensus::members_max) silent_.erase(silent_.begin());
}

// ---- inputs -------------------------------------------------------------------------------------

Task<Result<Bytes>> Prover::on_input(PeerId from, Bytes request) {
    DEDLOC_CO_TRY_VOID(environment_.gate(from));
    const auto ask = wire::decode<AskInput>(request);
    if (!ask) co_return consensus::unreadable("question for an input");
    const std::shared_ptr<OpenProof> open = find(ask->plan);
    const auto input = open ? open->exchange->input_of(ask->part, ask->member) : std::nullopt;
    if (!input) co_return make_error(ErrorKind::not_found, "no such input here");
    ShownInput shown{ask->part, ask->member, input->path, to_bytes(*input->encoded)};
    co_return wire::encode(shown);
}

Task<std::optional<allreduce::CommittedInput>> Prover::ask_input(std::shared_ptr<OpenProof> open,
                                                                 PeerId peer,
                                                                 AskInput ask) {
    Bytes request = wire::encode(ask);
    const TimePoint deadline = environment_.now() + parts_.timeouts.two_answers();
    const auto reply =
        co_await environment_.host.call(peer, input_method, std::move(request), deadline);
    if (!reply) co_return std::nullopt;
    auto shown = wire::decode<ShownInput>(*reply);
    const Reveal* const reveal = open->draw ? reveal_of(*open->draw, ask.member) : nullptr;
    if (!shown || reveal == nullptr) co_return std::nullopt;
    allreduce::CommittedInput input{SharedBytes(std::move(shown->encoded)), std::move(shown->path)};
    auto work = [input, root = reveal->commitment.root, ask, count = open->plan().parts.size()] {
        return allreduce::is_committed(input, root, ask.part, count);
    };
    const bool committed = co_await environment_.node.workers.run(std::move(work));
    if (!committed) co_return std::nullopt;
    co_return input;
}

Task<std::optional<allreduce::CommittedInput>> Prover::input_of(std::shared_ptr<OpenProof> open,
                                                                std::uint32_t part,
                                                                std::uint32_t member) {
    if (!open->draw) co_return std::nullopt;
    const Reveal* const reveal = reveal_of(*open->draw, member);
    auto here = open->exchange->input_of(part, member);
    if (here && reveal != nullptr &&
        allreduce::is_committed(*here, reveal->commitment.root, part, open->plan().parts.size()))
        co_return here;
    const AskInput ask{open->exchange->digest(), part, member};
    const PeerId owner = open->plan().members[open->draw->parts[part].owner].peer;
    const PeerId author = open->plan().members[member].peer;
    std::vector<PeerId> holders{owner};
    if (author != owner) holders.push_back(author);
    for (const PeerId& holder : holders) {
        if (holder == environment_.me()) continue;
        auto shown = co_await ask_input(open, holder, ask);
        if (shown) co_return shown;
    }
    co_return std::nullopt;
}

}  // namespace dedloc::averaging
