// Snapshot: what a peer needs to go on from a committed global step, immutable and shared.
//
// Parameters, optimizer state and buffers are named sections of fp32 numbers or codes; everything
// else that must be equal on all peers is in SnapshotInfo. Equal snapshots have equal canonical
// bytes, hence equal state hashes (manifest.h), which is how promise 1 of the design is checked.
//
// Canonical bytes (docs/spec/state.md):
//   "dedloc-state-1\n\0" (16) ‖ u32 LE size of header ‖ header ‖ zeros up to a multiple of 64 ‖
//   sections in order, each element as fp32 little endian or as one byte, no gaps.
//   header = wire::encode of {1 run, 2 branch, 3 step, 4 samples, 5 extra, 6 sections {1 name,
//   2 elements, 3 type: 0 fp32, 1 u8}}. The prefix up to the first element fits in chunk 0. A state
//   of fp32 alone has the bytes that it had before there was a type.
//
// Cost: a snapshot owns its sections; read() copies what was asked for, nothing is materialised.
// Errors: bad_input. Thread: any (immutable after make).

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"

namespace dedloc::state {

inline constexpr std::size_t extra_bytes_max = 64u << 10;
inline constexpr std::size_t sections_max = 4096;
inline constexpr std::size_t section_name_bytes_max = 200;

// Header and its padding; below one chunk, so that chunk 0 says what the rest is.
inline constexpr std::size_t prefix_bytes_max = (1u << 20) - 64;
inline constexpr std::uint64_t state_bytes_max = std::uint64_t{64} << 30;

enum class Dtype : std::uint8_t { fp32 = 0, u8 = 1 };

// Elements of one type. Those of the other type's vector are none.
struct Section {
    std::string name;           // unique in its snapshot, 1 … section_name_bytes_max bytes
    std::vector<float> values;  // fp32: any bits, NaN payloads included, are kept
    Bytes codes{};              // u8: codes of blocks, whose scales are in another section
    Dtype dtype = Dtype::fp32;

    std::size_t elements() const { return dtype == Dtype::u8 ? codes.size() : values.size(); }
    std::size_t bytes_size() const { return bytes().size(); }
    ByteView bytes() const;
    std::span<std::uint8_t> bytes();
};

struct SnapshotInfo {
    Digest run;  // hash of the run file
    Digest branch;
    std::uint64_t step = 0;     // global steps committed
    std::uint64_t samples = 0;  // samples committed so far
    Bytes extra;                // small and opaque: collab's own bookkeeping

    friend bool operator==(const SnapshotInfo&, const SnapshotInfo&) = default;
};

class Snapshot {
  public:
    // Errors: bad_input  extra, a name or a count is beyond its limit, or a name occurs twice.
    static Result<std::shared_ptr<const Snapshot>> make(SnapshotInfo info,
                                                        std::vector<Section> sections);

    const SnapshotInfo& info() const { return info_; }
    std::uint64_t step() const { return info_.step; }
    const std::vector<Section>& sections() const { return sections_; }
    const Section* find(std::string_view name) const;  // nullptr: no such section

    // Size of the canonical bytes.
    std::uint64_t bytes_size() const { return bytes_size_; }
    // Copies canonical bytes [offset, offset + out.size()), which must exist.
    void read(std::uint64_t offset, std::span<std::uint8_t> out) const;
    // The same bytes where they lie, in order, in as many pieces as there are.
    void visit(std::uint64_t offset,
               std::uint64_t count,
               const std::function<void(ByteView)>& piece) const;

  private:
    Snapshot() = default;
    friend class SnapshotBuilder;

    SnapshotInfo info_;
    std::vector<Section> sections_;
    Bytes prefix_;                        // magic, size, header, zeros
    std::vector<std::uint64_t> offsets_;  // where each section begins in the canonical bytes
    std::uint64_t bytes_size_ = 0;
};

// The way back: canonical bytes, in any order of pieces, into a snapshot. Memory is allocated only
// after the prefix proved consistent with the total size.
class SnapshotBuilder {
  public:
    // `first` begins at offset 0 and holds the whole prefix (chunk 0 does).
    // Errors: bad_input  not canonical, a limit broken, or sizes that do not add up.
    static Result<SnapshotBuilder> begin(ByteView first, std::uint64_t bytes_total);

    // Copies a piece into place. What reaches beyond the state is our bug.
    void write(std::uint64_t offset, ByteView piece);
    // As Snapshot::read; what was not written is zeros.
    void read(std::uint64_t offset, std::span<std::uint8_t> out) const {
        snapshot_->read(offset, out);
    }
    std::uint64_t bytes_total() const { return snapshot_->bytes_size_; }
    // After every byte was written once.
    std::shared_ptr<const Snapshot> finish() &&;

  private:
    explicit SnapshotBuilder(std::shared_ptr<Snapshot> snapshot) : snapshot_(std::move(snapshot)) {}

    std::shared_ptr<Snapshot> snapshot_;
};

}  // namespace dedloc::state
