#include "dedloc/averaging/double_votes.h"

#include <algorithm>

#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

constexpr std::size_t remembered_max = 16;
constexpr std::size_t remembered_bytes_max = 256u << 10;
constexpr std::uint64_t numbers_back = 2;  // decisions whose votes may still be on their way

bool is_vote(const security::Verifier& verifier,
             const consensus::Certificate& certificate,
             const Digest& digest,
             const consensus::Vote& vote) {
    return verifier.verify(vote.voter,
                           consensus::vote_domain,
                           consensus::vote_bytes(digest, certificate.ballot),
                           vote.signature);
}

}  // namespace

std::vector<DoubleVote> DoubleVotes::inspect(const security::Verifier& verifier,
                                             std::uint64_t number,
                                             ByteView bytes) {
    std::vector<DoubleVote> found;
    if (bytes.size() > remembered_bytes_max) return found;
    auto certificate = wire::decode<consensus::Certificate>(bytes);
    if (!certificate) return found;
    const auto decision = wire::decode<consensus::Decision>(certificate->decision);
    if (!decision || decision->kind == consensus::DecisionKind::branch ||
        decision->number + numbers_back < number || decision->number > number + 1)
        return found;
    Remembered now{*std::move(certificate), {}, decision->previous, decision->instance};
    now.digest = consensus::decision_digest(now.certificate.decision);
    for (const Remembered& before : remembered_) {
        if (before.previous != now.previous || before.instance != now.instance ||
            before.certificate.ballot != now.certificate.ballot || before.digest == now.digest)
            continue;
        for (const consensus::Vote& vote : now.certificate.votes) {
            const auto other =
                std::ranges::find(before.certificate.votes, vote.voter, &consensus::Vote::voter);
            if (other == before.certificate.votes.end() ||
                !is_vote(verifier, before.certificate, before.digest, *other) ||
                !is_vote(verifier, now.certificate, now.digest, vote))
                continue;
            const std::uint32_t ballot = now.certificate.ballot;
            found.push_back({vote.voter,
                             {before.certificate.decision, ballot, other->signature},
                             {now.certificate.decision, ballot, vote.signature}});
        }
    }
    remembered_.push_back(std::move(now));
    if (remembered_.size() > remembered_max) remembered_.pop_front();
    return found;
}

}  // namespace dedloc::averaging
