// The hash list of many bytes: SHA-256 of the SHA-256 digests, in a row, of their blocks of 4 KiB,
// the last of which may be shorter. As hard to forge as SHA-256 itself; a processor can hash
// several blocks at a time, and the digest does not tell how it was made.
//
// Source: FIPS 180-4; docs/spec/round.md, 3. Cost: hash_bench.cpp. Thread: any. Errors: none.

#pragma once
#include <span>

#include "dedloc/base/bytes.h"

namespace dedloc::security {

inline constexpr std::size_t hash_block_bytes = 4096;

Digest hash_list(ByteView bytes);

// How blocks are hashed; `digests` has one place for each. Behind hash_list().
void hash_blocks_by_openssl(ByteView bytes, std::span<Digest> digests);
// False, and nothing done: this processor or build has no better way than OpenSSL's.
bool hash_blocks_by_vectors(ByteView bytes, std::span<Digest> digests);

}  // namespace dedloc::security
