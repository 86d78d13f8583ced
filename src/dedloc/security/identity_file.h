// A peer's identity on disk: one file, one process.
//
// `directory`/identity.key holds the libp2p PrivateKey protobuf (64-byte Ed25519 form), readable
// by its owner only. While a LockedIdentity lives, an advisory lock (flock) on
// `directory`/identity.lock keeps a second process from being the same peer, which would make
// both unreachable in turns.
//
// Cost: one fsync when the key is made. Thread: any. Blocks: for a few file operations.
// Errors: conflict (another process has it; the message names the file and what to do),
// local_fault (no permission, disk full), bad_input (the file is not a key).

#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"
#include "dedloc/security/identity.h"

namespace dedloc::security {

inline constexpr std::string_view identity_file = "identity.key";

class LockedIdentity {
  public:
    LockedIdentity(Identity identity, int lock_descriptor);
    ~LockedIdentity();  // unlocks
    LockedIdentity(LockedIdentity&& other) noexcept;
    LockedIdentity& operator=(LockedIdentity&&) = delete;

    const Identity& identity() const { return identity_; }

  private:
    Identity identity_;
    int lock_descriptor_;
};

Result<LockedIdentity> load_or_create_identity(const std::string& directory);

}  // namespace dedloc::security
