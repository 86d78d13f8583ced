// Reads what members of a robust run say when averages are proved, and evidence that anybody may
// show: by the first byte. What decodes encodes to something that decodes alike; what the checks
// let through is computed with, and must be safe; and nothing here proves anybody guilty, as no
// signature holds.

// First: see host_fuzz.cpp.
#include "dedloc/runtime/pch.h"
//
#include <cstdlib>

#include "dedloc/averaging/double_votes.h"
#include "dedloc/averaging/pending_orders.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/runtime/work_in_place.h"
#include "dedloc/security/constant_verifier_testing.h"
#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

using namespace dedloc;
using namespace dedloc::averaging;

namespace {

template <typename Message>
std::optional<Message> read(ByteView bytes) {
    auto message = wire::decode<Message>(bytes);
    if (!message) return std::nullopt;
    const Bytes again = wire::encode(*message);
    const auto twice = wire::decode<Message>(again);
    if (!twice || wire::encode(*twice) != again) std::abort();
    return *std::move(message);
}

// A plan and a draw of it, as evidence has them, with all signatures taken for true.
void check_evidence(ByteView bytes) {
    const auto evidence = read<Evidence>(bytes);
    if (!evidence) return;
    const security::ConstantVerifier trusting(true);
    const auto plan = wire::decode<consensus::RoundPlan>(evidence->plan);
    if (!plan || evidence->proof.size() != 1) return;
    const Proof& proof = evidence->proof.front();
    if (!check_draw(trusting, *plan, proof.draw)) return;
    (void)contradicting_owners(proof.draw);
    (void)seed_of(proof.draw);
    (void)rows_of(trusting, *plan, proof);
}

void check_all(ByteView bytes) {
    if (bytes.size() < 2) return;
    robust::Order order;
    order.offence = static_cast<robust::Offence>(bytes[0] % 12);
    order.kind = static_cast<robust::OrderKind>(bytes[1] % 6);
    order.until_step = robust::for_good;
    const ByteView evidence = bytes.subspan(2);
    order.evidence = security::sha256(evidence);
    if (const auto read = wire::decode<Evidence>(evidence))
        if (const auto plan = wire::decode<consensus::RoundPlan>(read->plan);
            plan && !plan->members.empty())
            order.subject = plan->members.front().peer;
    runtime::WorkInPlace workers;
    const security::ConstantVerifier doubting(false);
    const EvidenceRules rules;
    if (rules.check(order, evidence, {doubting, {}, {}, workers})) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ByteView said(data + 1, size - 1);
    switch (data[0] % 10) {
        case 0:
            (void)read<Reveal>(said);
            break;
        case 1:
            (void)read<DrawMessage>(said);
            break;
        case 2:
            (void)read<Objections>(said);
            break;
        case 3:
            (void)read<Proof>(said);
            break;
        case 4:
            (void)read<Table>(said);
            break;
        case 5:
            (void)read<AskAnswer>(said);
            break;
        case 6:
            (void)read<ShownInput>(said);
            break;
        case 7:
            check_evidence(said);
            break;
        case 8: {
            DoubleVotes votes;
            const security::ConstantVerifier trusting(true);
            (void)votes.inspect(trusting, 1, said);
            (void)votes.inspect(trusting, 1, said);
            break;
        }
        default:
            check_all(said);
    }
    return 0;
}
