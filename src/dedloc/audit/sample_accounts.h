// SampleAccounts: whose samples entered the model how often, from a chain of commits alone.
//
// A commit says per contributor and range what is in: counters [begin, end) of the peer, on ranges
// of the vector. One sample's mass is 1 when it is in on the whole vector; in on a quarter of it,
// 1/4.
//
// Logs keep their newest part: what the first commit carries was handed in for one before it, which
// may be gone. What is missing of that is not known, and not lost.
//
// Thread: any; pure. Cost: O(n log n) in the entries of one peer.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/consensus/messages.h"

namespace dedloc::audit {

struct PeerAccount {
    std::uint64_t contributions = 0;  // commits that name it with samples
    double in = 0;                    // samples in the model, each counted once
    double twice = 0;                 // samples that are in once more than they may
    double left_out = 0;              // handed in before its last contribution, and not (wholly) in
    double skipped = 0;               // counters between contributions that no commit names
    double unfinished = 0;  // of its last contribution, not (yet) in: the next step could carry it
    std::uint64_t last_counter = 0;  // end of its last contribution
};

class SampleAccounts {
  public:
    explicit SampleAccounts(std::uint64_t vector_count) : vector_count_(vector_count) {}

    // In the chain's order.
    void add_commit(const consensus::Decision& decision, const consensus::RoundPlan& plan);
    std::map<PeerId, PeerAccount> accounts() const;
    // Sentences about samples that are in twice, at most `count_max`.
    std::vector<std::string> twice_in_words(std::size_t count_max) const;
    // Mass of samples [begin, end) of `peer` that is in, or in on a range of the vector.
    double mass(const PeerId& peer,
                consensus::CounterRange samples,
                std::optional<consensus::ElementRange> within = std::nullopt) const;

  private:
    struct Entry {
        consensus::CounterRange samples;
        std::vector<consensus::ElementRange> ranges;  // where they are in
        std::uint64_t step = 0;
        bool fresh = true;
        bool first = false;  // in the first commit of the chain
    };
    struct Piece {  // counters with the same entries
        consensus::CounterRange samples;
        double in = 0;  // fraction of the vector
        double twice = 0;
        bool named = false;
        bool from_before = false;  // carried by the first commit
        std::vector<const Entry*> entries{};
    };
    std::vector<Piece> pieces(const std::vector<Entry>& entries) const;

    std::uint64_t vector_count_;
    bool begun_ = false;
    std::map<PeerId, std::vector<Entry>> entries_;
    std::map<PeerId, std::uint64_t> contributions_;
};

}  // namespace dedloc::audit
