#include "dedloc/averaging/round_proof.h"

#include <algorithm>
#include <optional>
#include <set>

#include "dedloc/robust/draw.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

Error unproved(std::string_view why) {
    return make_error(ErrorKind::peer_broke_protocol, "a proof of averages is refused: {}", why);
}

}  // namespace

Digest digest_of(const DrawMessage& draw) { return security::sha256(wire::encode(draw)); }
Digest digest_of(const Proof& proof) { return security::sha256(wire::encode(proof)); }

Ok check_reveal(const security::Verifier& verifier,
                const consensus::RoundPlan& plan,
                const Reveal& reveal) {
    if (reveal.member >= plan.members.size() || plan.members[reveal.member].input.is_empty())
        return unproved("somebody reveals a nonce who brings nothing");
    if (robust::nonce_hash(&security::sha256, reveal.plan, reveal.member, reveal.nonce) !=
        reveal.commitment.nonce_hash)
        return unproved("a nonce is none that was committed to");
    if (!allreduce::is_signed(
            verifier, plan.members[reveal.member].peer, reveal.plan, reveal.commitment))
        return unproved("a commitment's signature does not hold");
    return {};
}

Ok check_draw(const security::Verifier& verifier,
              const consensus::RoundPlan& plan,
              const DrawMessage& draw) {
    if (draw.parts.size() != plan.parts.size()) return unproved("an average is missing");
    for (std::uint32_t part = 0; part < draw.parts.size(); ++part) {
        const consensus::FinishedPart& header = draw.parts[part];
        if (header.part != part || !consensus::fits_plan(header, plan, draw.plan))
            return unproved("an average does not fit the plan");
        if (!verifier.verify(plan.members[header.owner].peer,
                             consensus::part_domain,
                             header.signed_bytes(),
                             header.signature))
            return unproved("an average's signature does not hold");
    }
    std::optional<std::uint32_t> before;
    for (const Reveal& reveal : draw.reveals) {
        if (before && reveal.member <= *before) return unproved("its nonces are not in order");
        before = reveal.member;
        Reveal whole = reveal;
        whole.plan = draw.plan;
        DEDLOC_TRY_VOID(check_reveal(verifier, plan, whole));
    }
    for (std::uint32_t member = 0; member < plan.members.size(); ++member)
        if (must_prove(plan, draw, member) != (reveal_of(draw, member) != nullptr))
            return unproved("its nonces are not those of the members who are in an average");
    return {};
}

std::vector<std::uint32_t> contradicting_owners(const DrawMessage& draw) {
    std::set<std::uint32_t> owners;
    for (const consensus::FinishedPart& part : draw.parts) {
        std::map<std::uint32_t, Digest> roots;
        for (const Reveal& reveal : draw.reveals)
            if (part.includes(reveal.member)) roots[reveal.member] = reveal.commitment.root;
        if (allreduce::digest_of_roots(roots) != part.commitments) owners.insert(part.owner);
    }
    return {owners.begin(), owners.end()};
}

Digest seed_of(const DrawMessage& draw) {
    robust::Draw joint(&security::sha256, draw.plan);
    for (const Reveal& reveal : draw.reveals)
        (void)joint.commit(reveal.member, reveal.commitment.nonce_hash);
    for (const Reveal& reveal : draw.reveals) (void)joint.reveal(reveal.member, reveal.nonce);
    return joint.seed();
}

const Reveal* reveal_of(const DrawMessage& draw, std::uint32_t member) {
    const auto found = std::ranges::lower_bound(draw.reveals, member, {}, &Reveal::member);
    return found == draw.reveals.end() || found->member != member ? nullptr : &*found;
}

bool must_prove(const consensus::RoundPlan& plan, const DrawMessage& draw, std::uint32_t member) {
    const consensus::PlanMember& author = plan.members[member];
    if (author.input.is_empty() || author.aggregator || author.weightless) return false;
    return std::ranges::any_of(draw.parts, [member](const consensus::FinishedPart& part) {
        return part.includes(member);
    });
}

std::vector<std::uint32_t> owners_in(const DrawMessage& draw) {
    std::set<std::uint32_t> owners;
    for (const consensus::FinishedPart& part : draw.parts) owners.insert(part.owner);
    return {owners.begin(), owners.end()};
}

Result<std::vector<robust::Row>> rows_of(const security::Verifier& verifier,
                                         const consensus::RoundPlan& plan,
                                         const DrawMessage& draw,
                                         const SignedBy& answer) {
    if (answer.member >= plan.members.size()) return unproved("a stranger answers");
    if (!verifier.verify(
            plan.members[answer.member].peer, answer_domain, answer.payload, answer.signature))
        return unproved("an answer's signature does not hold");
    auto read = wire::decode<Answer>(answer.payload);
    if (!read || read->draw != digest_of(draw)) return unproved("an answer to another draw");
    return robust::decode_rows(read->rows, owners_in(draw).size());
}

std::vector<const robust::Row*> column_of(const RowTable& table,
                                          std::size_t owner_place,
                                          std::size_t members) {
    std::vector<const robust::Row*> column(members, nullptr);
    for (const auto& [member, rows] : table) column[member] = &rows[owner_place];
    return column;
}

Result<RowTable> rows_of(const security::Verifier& verifier,
                         const consensus::RoundPlan& plan,
                         const Proof& proof) {
    RowTable table;
    for (const SignedBy& answer : proof.answers) {
        DEDLOC_TRY(std::vector<robust::Row> rows, rows_of(verifier, plan, proof.draw, answer));
        table[answer.member] = std::move(rows);
    }
    for (std::uint32_t member = 0; member < plan.members.size(); ++member)
        if (must_prove(plan, proof.draw, member) && !table.contains(member))
            return unproved("rows of somebody who is in an average are missing");
    return table;
}

}  // namespace dedloc::averaging
