// ChainBook: all certificates that anybody has seen, put together to chains, and checked against
// each other: at most one decision an instance, signatures of a majority, links that hold.
//
// A run that is resumed from an older checkpoint begins a new history, in which the same instances
// are decided once more. Two decisions of one history that exclude each other come from two that
// follow the same certificate, and these are looked for.
//
// Used twice: by the audit of logs on disk, and by the simulator's checkers. It does not use the
// ledger's code, so that a mistake there is not repeated here.
//
// Thread: one. Cost: one signature check a vote, once a certificate. Errors: what is wrong becomes
// a sentence in problems(); nothing is thrown away silently.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/security/signer.h"

namespace dedloc::audit {

inline constexpr std::size_t problems_max = 1000;  // kept; more are only counted

struct Link {
    Digest digest;
    consensus::Decision decision;
    std::optional<consensus::RoundPlan> plan;  // of a commit
    std::string first_seen_in;
};

class ChainBook {
  public:
    explicit ChainBook(const security::Verifier& verifier) : verifier_(verifier) {}

    // Returns the link if the certificate is new; nullptr if it was known or cannot be read.
    const Link* add(const std::string& source, ByteView certificate);
    // After everything was added: what needs the whole picture (votes, links, equal states).
    void check_chains();

    const std::map<Digest, Link>& links() const { return links_; }
    // Decisions that nobody follows, best first (most committed samples, then lower branch).
    std::vector<Digest> tips() const;
    // From the first known decision to `tip`, oldest first.
    std::vector<const Link*> chain(const Digest& tip) const;

    std::uint64_t commits() const { return commits_; }
    std::uint64_t aborts() const { return aborts_; }
    std::uint64_t branches() const { return branches_; }
    // Pairs of certified decisions that exclude each other.
    std::uint64_t disagreements() const { return disagreements_; }
    const std::vector<std::string>& problems() const { return problems_; }

  private:
    struct Question {  // as AcceptorRecord knows it
        Digest previous;
        Digest branch;
        std::uint64_t step;
        std::uint32_t attempt;
        auto operator<=>(const Question&) const = default;
    };

    void problem(std::string text);
    void count(const Link& link);
    void check_votes(const Link& link,
                     const consensus::Certificate& certificate,
                     const Link* previous);
    void check_link(const Link& link, const Link& previous);
    void check_commit(const Link& link);

    const security::Verifier& verifier_;
    std::map<Digest, Link> links_;
    std::map<Digest, std::vector<consensus::Certificate>> certificates_;  // without `decision`
    std::set<std::pair<Digest, Digest>> seen_;  // (decision, hash of the whole certificate)
    std::map<Question, Digest> decided_;
    std::map<Digest, Digest> state_after_;  // by the decision that led to it
    std::set<Digest> checked_;
    std::uint64_t commits_ = 0;
    std::uint64_t aborts_ = 0;
    std::uint64_t branches_ = 0;
    std::uint64_t disagreements_ = 0;
    std::vector<std::string> problems_;
};

std::string describe(const consensus::Decision& decision);

}  // namespace dedloc::audit
