// Recheck: what validators found about one contribution, and what follows from it. A validator that
// is drawn recomputes a contribution; where its rows and the author's do not agree, everybody else
// who can recomputes it, too, and the recheck ends when enough of them agree with each other:
//
//   enough agree with each other and not with the author  ban of the author
//   enough agree with the author, an accuser does not     ban of that accuser
//   all have answered and no side is enough               nobody is banned: unlike hardware, or
//                                                         software; people are told
//
// Enough is two, and in runs of more than six voters so many (a third of them and one) that one of
// them is honest while fewer than a third lie.
//
// Thread: any; a socket-free state machine. Errors: values.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"
#include "dedloc/robust/rows.h"

namespace dedloc::robust {

// A voter that is the only one decides alone anyway.
std::size_t findings_needed(std::size_t voters);

enum class RecheckResult {
    open,      // the one that was drawn has not answered
    right,     // and agrees with the author
    disputed,  // others are to recompute
    author_guilty,
    accuser_guilty,  // guilty(): one or more
    undecided,       // all have answered
};

class Recheck {
  public:
    // `eligible`: who may answer; `validator`, the one that was drawn, is one of them, the author
    // none.
    Recheck(std::vector<Row> rows, PeerId validator, std::set<PeerId> eligible, double tolerance);

    // A further validator may answer.
    void ask(const PeerId& validator) { eligible_.insert(validator); }
    bool is_asked(const PeerId& validator) const { return eligible_.contains(validator); }
    // Errors: denied: not eligible; conflict: it said something else before;
    // peer_broke_protocol: not as many rows as the author's.
    Ok add(const PeerId& validator, std::vector<Row> recomputed);

    RecheckResult result(std::size_t needed) const;
    // Peers at fault, but for the author: the accusers.
    std::vector<PeerId> guilty() const;
    // The peers whose findings decide, sorted: the evidence.
    std::vector<PeerId> witnesses(std::size_t needed) const;
    bool has_answered(const PeerId& validator) const { return findings_.contains(validator); }
    bool is_disputed() const;

  private:
    bool agrees_with_author(const PeerId& validator) const;
    // The largest set of those who disagree with the author, around one of them.
    std::vector<PeerId> largest_dissent() const;
    std::vector<PeerId> supporters() const;

    std::vector<Row> rows_;
    PeerId validator_;
    std::set<PeerId> eligible_;
    double tolerance_;
    std::map<PeerId, std::vector<Row>> findings_;
};

}  // namespace dedloc::robust
