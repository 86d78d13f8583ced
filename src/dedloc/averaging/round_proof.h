// RoundProof: the draw of a robust round and the answers to it, checked: that all signatures hold,
// that nonces are those that were committed to, and what seed and rows follow. Whether the rows say
// that the averages are right, allreduce/proof_rows.h tells.
//
// Thread: any; pure. Errors: peer_broke_protocol.

#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "dedloc/averaging/proof_messages.h"
#include "dedloc/robust/rows.h"
#include "dedloc/security/signer.h"

namespace dedloc::averaging {

Digest digest_of(const DrawMessage& draw);
Digest digest_of(const Proof& proof);

// Does this member's nonce, and its signature, fit what it reveals?
Ok check_reveal(const security::Verifier& verifier,
                const consensus::RoundPlan& plan,
                const Reveal& reveal);

// Checks the draw of a plan whose fields have been checked: one average a part that fits it and is
// signed, and of each member whose contribution is in one of them the commitment and the nonce, and
// of nobody else: whoever leads has no choice that would change the draw.
Ok check_draw(const security::Verifier& verifier,
              const consensus::RoundPlan& plan,
              const DrawMessage& draw);

// The seed of a draw that has passed.
Digest seed_of(const DrawMessage& draw);
const Reveal* reveal_of(const DrawMessage& draw, std::uint32_t member);
// Members whose contribution is in an average and counts there: they have to prove it.
bool must_prove(const consensus::RoundPlan& plan, const DrawMessage& draw, std::uint32_t member);
// Owners that say they reduced something else than what the draw's members committed to.
std::vector<std::uint32_t> contradicting_owners(const DrawMessage& draw);
// Members that reduced something, rising.
std::vector<std::uint32_t> owners_in(const DrawMessage& draw);

// By member.
using RowTable = std::map<std::uint32_t, std::vector<robust::Row>>;

// The rows of one answer.
Result<std::vector<robust::Row>> rows_of(const security::Verifier& verifier,
                                         const consensus::RoundPlan& plan,
                                         const DrawMessage& draw,
                                         const SignedBy& answer);
// About one owner, by member of a plan of so many; null: it has none.
std::vector<const robust::Row*> column_of(const RowTable& table,
                                          std::size_t owner_place,
                                          std::size_t members);

// The rows of all; nobody who must prove something is missing.
Result<RowTable> rows_of(const security::Verifier& verifier,
                         const consensus::RoundPlan& plan,
                         const Proof& proof);

// A commit whose averages are proved.
struct ProvedRound {
    std::shared_ptr<const consensus::RoundPlan> plan;
    Digest plan_digest;
    Digest seed;   // of the draw, for what else is to be drawn
    Digest state;  // that contributions were computed at
    std::uint64_t step = 0;
    std::shared_ptr<const Proof> proof;
};

}  // namespace dedloc::averaging
