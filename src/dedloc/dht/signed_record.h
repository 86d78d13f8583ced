// Signed records: a subkey that names a peer belongs to that peer, and only its key can write it.
//
// On the wire they are ordinary hivemind dictionary entries, so both kinds of nodes carry them:
//   subkey = MessagePack str "/p2p/<PeerId as text>"
//   value  = MessagePack list [bin payload, bin signature]
//   signature = sign("dedloc/dht-record/1", protobuf {1 key, 2 subkey, 3 payload, 4 expiration})
// The expiration is signed too: nobody can keep an old record alive, or end it early.
// Records under other subkeys, and regular values, pass unsigned (hivemind's own).
//
// Errors: denied (not signed by whom the subkey names), bad_input. Thread: any. Pure.
// Cost: one signature or verification (110 µs) a record.

#pragma once
#include <optional>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/dht/dht_id.h"
#include "dedloc/dht/storage.h"
#include "dedloc/security/signer.h"

namespace dedloc::dht {

inline constexpr char record_domain[] = "dedloc/dht-record/1";

// The wire form of the subkey that belongs to `peer`.
Bytes subkey_of(const PeerId& peer);

// Whether a subkey names a peer, and whom. bad_input: "/p2p/…" with something that is no PeerId.
Result<std::optional<PeerId>> owner_of(ByteView subkey);

// The value to store under subkey_of(signer.id()).
Bytes sign_record(const security::Signer& signer,
                  const DhtId& key,
                  ByteView payload,
                  WallSeconds expiration);

struct CheckedRecord {
    std::optional<PeerId> signer;  // empty: an unsigned record
    Bytes payload;                 // the value as it is, if unsigned
};

// Verifies one record as it came from the wire.
Result<CheckedRecord> check_record(const security::Verifier& verifier,
                                   const DhtId& key,
                                   ByteView subkey,
                                   ByteView value,
                                   WallSeconds expiration);

struct SignedEntry {
    PeerId signer;
    Bytes payload;
    WallSeconds expiration = 0;
};

// The signed records of a dictionary that a DhtNode returned (which verified them), by signer.
std::vector<SignedEntry> signed_entries(const Stored& stored);

}  // namespace dedloc::dht
