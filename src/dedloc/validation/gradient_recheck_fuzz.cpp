// Findings of validators, as evidence that anybody may show: the first byte says for which order.
// Whatever it says must be safe to read and check, and proves nothing, as no signature holds.

// First: see host_fuzz.cpp.
#include "dedloc/runtime/pch.h"
//
#include <cstdlib>

#include "dedloc/runtime/work_in_place.h"
#include "dedloc/security/constant_verifier_testing.h"
#include "dedloc/security/hash.h"
#include "dedloc/validation/gradient_recheck.h"
#include "dedloc/wire/message.h"

using namespace dedloc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const ByteView said(data + 2, size - 2);
    robust::Order order;
    order.kind = static_cast<robust::OrderKind>(data[0] % 6);
    order.offence = static_cast<robust::Offence>(data[1] % 12);
    order.until_step = robust::for_good;
    order.evidence = security::sha256(said);
    if (const auto evidence = wire::decode<validation::GradientEvidence>(said))
        for (const validation::GradientRecheck& each : evidence->rechecks) {
            const auto read = validation::verify_recheck(each, security::ConstantVerifier(true));
            if (!read) continue;
            std::set<PeerId> voters;
            for (const auto& [finder, rows] : read->findings) voters.insert(finder);
            (void)validation::recheck_outcome(*read, voters, 2e-3);
            order.subject = read->author;
        }
    averaging::EvidenceRules rules;
    validation::add_gradient_rules(rules, {.tolerance = 2e-3, .right_needed = 1});
    runtime::WorkInPlace workers;
    const security::ConstantVerifier doubting(false);
    if (rules.check(order, said, {doubting, {}, {}, workers})) std::abort();
    return 0;
}
