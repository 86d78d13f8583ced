// SHA-256 of several blocks at a time by Intel's multi-buffer library: each in its own lane of
// vectors, or two in turns through the processor's instructions for SHA, whichever is the best it
// has. Elsewhere OpenSSL hashes one after the other.

#include "dedloc/security/hash_list.h"

#ifdef DEDLOC_IPSEC_MB

#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/security/ipsec_mb.h"

namespace dedloc::security {
namespace {

VectorManager make_hasher() {
    IMB_ARCH architecture = IMB_ARCH_NONE;
    return make_vector_manager(architecture);
}

std::size_t count_done(IMB_MGR* jobs, const IMB_JOB* job) {
    std::size_t done = 0;
    for (; job != nullptr; job = IMB_GET_COMPLETED_JOB(jobs), ++done)
        DEDLOC_CHECK(job->status == IMB_STATUS_COMPLETED);
    return done;
}

const IMB_JOB* submit(IMB_MGR* jobs, ByteView block, Digest& digest) {
    IMB_JOB* const job = IMB_GET_NEXT_JOB(jobs);
    *job = IMB_JOB{};
    job->cipher_mode = IMB_CIPHER_NULL;
    job->cipher_direction = IMB_DIR_ENCRYPT;
    job->chain_order = IMB_ORDER_HASH_CIPHER;
    job->hash_alg = IMB_AUTH_SHA_256;
    job->src = block.data();
    job->msg_len_to_hash_in_bytes = block.size();
    job->auth_tag_output = digest.bytes.data();
    job->auth_tag_output_len_in_bytes = digest.bytes.size();
    return IMB_SUBMIT_JOB_NOCHECK(jobs);
}

}  // namespace

bool hash_blocks_by_vectors(ByteView bytes, std::span<Digest> digests) {
    if (digests.empty()) return true;
    thread_local const VectorManager jobs = make_hasher();
    if (!jobs) return false;
    std::size_t done = 0;
    for (Digest& digest : digests) {
        const ByteView block = bytes.first(std::min(hash_block_bytes, bytes.size()));
        done += count_done(jobs.get(), submit(jobs.get(), block, digest));
        bytes = bytes.subspan(block.size());
    }
    while (const IMB_JOB* job = IMB_FLUSH_JOB(jobs.get())) done += count_done(jobs.get(), job);
    DEDLOC_CHECK(done == digests.size() && bytes.empty());
    return true;
}

}  // namespace dedloc::security

#else

namespace dedloc::security {

bool hash_blocks_by_vectors(ByteView, std::span<Digest>) { return false; }

}  // namespace dedloc::security

#endif
