// Messages of hellos and of status gossip carry these; each uses some of the fields.
//
//   /dedloc/hello/1        {2 nonce, 7 8 9 protocols} -> {2 nonce, 3 proof, 7 8 9 protocols}
//   /dedloc/hello/1/prove  {1 run, 2 callee's nonce, 3 proof, 5 own status, 6 only the run file,
//                           7 8 the protocol that both use}
//                          -> {5 signed statuses}, or {1 run, 4 run file} where that was asked for,
//                          or the caller names another run
//   /dedloc/status/1       signed status -> {5 signed statuses: its own, perhaps another's; none
//                          where its own push tells the caller the same}
//   /dedloc/run_file/1     -> canonical TOML
//
// A stranger learns that a peer speaks this, and a proof that is of use to those alone who may take
// part. (A caller may name its run in the first message already, as earlier versions did.)

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/result.h"
#include "dedloc/membership/protocol_range.h"
#include "dedloc/membership/status.h"

namespace dedloc::membership {

inline constexpr const char* hello_method = "/dedloc/hello/1";
inline constexpr const char* prove_method = "/dedloc/hello/1/prove";
inline constexpr const char* status_method = "/dedloc/status/1";
inline constexpr const char* run_file_method = "/dedloc/run_file/1";
inline constexpr std::size_t hello_nonce_bytes = 16;

struct HelloMessage {
    Digest run;
    Bytes nonce;
    Bytes proof;
    std::string run_file;
    std::vector<Bytes> statuses;
    std::uint64_t wants_run_file = 0;  // and nothing else: 1
    std::uint64_t oldest_protocol = 0;
    std::uint64_t newest_protocol = 0;  // 0: of the time before there were two (protocol_range.h)
    std::string release;                // of dedloc, for people
    DEDLOC_FIELDS(run,
                  nonce,
                  proof,
                  run_file,
                  (statuses, peers_max),
                  wants_run_file,
                  oldest_protocol,
                  newest_protocol,
                  release)

    void set_protocols(ProtocolRange range) {
        oldest_protocol = range.oldest;
        newest_protocol = range.newest;
        release = std::move(range.release);
    }
    ProtocolRange protocols() const {
        if (newest_protocol == 0) return {};
        return {oldest_protocol, newest_protocol, release};
    }
};

inline Error not_greeted() {
    return make_error(ErrorKind::denied, "say hello first: this run does not know you");
}

}  // namespace dedloc::membership
