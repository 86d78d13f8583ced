// A joint random draw by commit and reveal: nobody knows the seed before everybody has committed,
// and it is random if one of those who reveal is honest. Who commits and does not reveal is left
// out and named; the bias that buys is one bit, and it costs an identity's standing each time.
//
// Thread: any. Socket-free; hashes come in as a function, since keys and hashes live further up.

#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::robust {

using HashFunction = Digest (*)(ByteView);

// A member of this place in this round publishes this before it sends anything else: a nonce of
// another round, or another member's, does not fit.
Digest nonce_hash(HashFunction hash,
                  const Digest& round,
                  std::uint32_t member,
                  const Digest& nonce);

class Draw {
  public:
    // `round`: what the draw is for, as the plan's digest.
    Draw(HashFunction hash, const Digest& round) : hash_(hash), round_(round) {}

    // Errors: peer_broke_protocol: it has committed to another nonce before; invalid_state: a nonce
    // has been revealed, so commitments are closed.
    Ok commit(std::uint32_t member, const Digest& nonce_hash);
    // Errors: peer_broke_protocol: it has not committed, or to another nonce.
    Ok reveal(std::uint32_t member, const Digest& nonce);

    bool complete() const { return revealed_.size() == committed_.size(); }
    std::size_t revealed_count() const { return revealed_.size(); }
    std::vector<std::uint32_t> withheld() const;
    // Hash of the round and all revealed nonces, in the order of members.
    Digest seed() const;

  private:
    HashFunction hash_;
    Digest round_;
    std::map<std::uint32_t, Digest> committed_;
    std::map<std::uint32_t, Digest> revealed_;
};

}  // namespace dedloc::robust
