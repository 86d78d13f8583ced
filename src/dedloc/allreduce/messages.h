// Peers say these to each other to move the parts of a round (docs/spec/round.md): field lists in
// protobuf's wire format. Methods are calls unless "stream" is said.
//
// Bytes that are signed or hashed travel as opaque `payload` fields, so that nobody re-encodes
// them.

#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dedloc/allreduce/commitment.h"
#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/consensus/plan.h"
#include "dedloc/wire/message.h"

namespace dedloc::allreduce {

// Bytes of one part as it travels. A part costs a signature, and a check of it by everybody, so
// short ones are dear where links are fast; 2^20 elements of 8 bit with their scales fit.
inline constexpr std::size_t part_bytes_max = (1u << 20) + (16u << 10);
inline constexpr std::string_view repair_domain = "dedloc-repair";

inline constexpr const char* repair_method = "/dedloc/round/1/repair";
inline constexpr const char* parts_method = "/dedloc/round/1/parts";  // stream
inline constexpr const char* fetch_method = "/dedloc/round/1/fetch";

// A payload with its author's signature (domain: which message it is).
struct Signed {
    Bytes payload;
    Bytes signature;

    DEDLOC_FIELDS(payload, signature)
};

// Parts whose owner failed get new owners; contributors send again.
struct Repair {
    Digest plan;
    std::uint32_t number = 0;  // 1, 2, …
    std::vector<std::uint32_t> parts;
    std::vector<std::uint32_t> owners;  // same length

    DEDLOC_FIELDS(plan, number, (parts, consensus::parts_max), (owners, consensus::parts_max))
};

// First message of a parts stream, from a member to an owner or to the collector of its group;
// PartData messages follow, and FinishedPart messages come back as they are ready.
struct PartsHeader {
    Digest plan;
    std::uint32_t repair = 0;
    std::optional<Commitment> commitment{};  // in a robust round, from who brings something

    DEDLOC_FIELDS(plan, repair, commitment)
};

// A message's large field is a view of the message's bytes, and its last field.
inline constexpr std::uint32_t body_field = 2;
// A message may be so much larger than its body; a kept body keeps its whole message in memory.
inline constexpr std::size_t around_body_bytes_max = 4096;

// A message with a body, which stays a view of `whole`. Errors: peer_broke_protocol.
template <typename T>
Result<T> decode_with_body(const SharedBytes& whole) {
    auto message = wire::decode<T>(*whole);
    if (!message || whole->size() > message->encoded.size() + around_body_bytes_max)
        return make_error(ErrorKind::peer_broke_protocol, "a part that cannot be read");
    return message;
}

struct PartData {
    std::uint32_t part = 0;
    // In a grid, from the collector of another group: bit i: member i's contribution is in this
    // sum, which is fp32 and not scaled. None: nobody of its group brought one.
    Bytes included;
    std::vector<Digest> path{};  // to the root of the sender's commitment, if it has one
    ByteView encoded;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.part);
        visit(3, self.included);
        visit(4, self.path, path_max);
        visit(body_field, self.encoded);
    }
};

struct FinishedPartData {
    consensus::FinishedPart header;
    // From an owner: what it had got from the receiver of this message when it wrote it, and how
    // long after that one's header. 0 from anybody else.
    std::uint64_t received_bytes = 0;
    std::uint64_t received_us = 0;
    ByteView encoded;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.header);
        visit(3, self.received_bytes);
        visit(4, self.received_us);
        visit(body_field, self.encoded);
    }
};

// By digest, or (plan, part) when only those are known.
struct Fetch {
    Digest digest;
    Digest plan;
    std::uint32_t part = 0;

    DEDLOC_FIELDS(digest, plan, part)
};

}  // namespace dedloc::allreduce
