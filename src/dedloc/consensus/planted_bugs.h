// Bugs for the tests of the tests.
#pragma once
#include <cstdint>

namespace dedloc::consensus {

// Bugs planted on purpose, for the tests that show that the checkers find them (--plant NAME).
struct PlantedBugs {
    bool forget_votes = false;         // votes are not written to disk
    bool ignore_promises = false;      // an acceptor accepts below what it promised
    bool skip_prepare = false;         // a successor proposes without asking what was accepted
    bool minority_commits = false;     // one vote less than a majority certifies
    bool count_twice = false;          // what a certificate includes is carried all the same
    bool sum_by_arrival = false;       // owners add contributions as they come
    bool lose_unsent = false;          // what a sparse codec did not send is forgotten
    bool lose_left_out = false;        // what an owner leaves out of a sparse sum is forgotten
    bool stale_overlap = false;        // what was computed beside a step stays after another state
    bool vote_without_memory = false;  // a peer that lost its disk votes at once
    bool early_draw = false;           // nonces are revealed before everybody has committed
    bool rows_unchecked = false;       // nobody looks at whether rows prove the averages
    bool orders_unproved = false;      // orders need no evidence
    bool loose_tolerance = false;      // recomputed gradients may differ a hundred times as much
    bool minimum_unchecked = false;    // a robust step may be made of anybody
    bool step_unbounded = false;       // however long an average is, it is applied
    bool plans_alone = false;          // of a liar: it leads, and leaves all others out
    bool orders_falsely = false;       // of a liar: it leads, and bans somebody without evidence
    bool hides_evidence = false;       // of a liar: it tells of no evidence, of its own lies least
    // Computes the state of this step with another bit than the others do; 0: never.
    std::uint64_t differs_at_step = 0;
};

}  // namespace dedloc::consensus
