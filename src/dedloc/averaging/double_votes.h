// DoubleVotes: finds voters who signed two decisions of one question under one ballot. An honest
// voter never does (consensus/paxos.h), whatever is proposed to it.
//
// Bounds: the newest remembered_max certificates of the last few decisions, whoever sent them, each
// of at most remembered_bytes_max. Thread: the network thread.

#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "dedloc/averaging/evidence.h"

namespace dedloc::averaging {

struct DoubleVote {
    PeerId voter;
    ShownVote first;
    ShownVote second;
};

class DoubleVotes {
  public:
    // Between this certificate and those before it. `number`: of the newest decision here.
    std::vector<DoubleVote> inspect(const security::Verifier& verifier,
                                    std::uint64_t number,
                                    ByteView certificate);

  private:
    struct Remembered {
        consensus::Certificate certificate;
        Digest digest;
        Digest previous;
        consensus::Instance instance;
    };
    std::deque<Remembered> remembered_;
};

}  // namespace dedloc::averaging
