#include "dedloc/state/snapshot.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::state {

namespace {

// Sections are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

constexpr std::string_view magic("dedloc-state-1\n\0", 16);
constexpr std::size_t alignment = 64;

struct SectionHeader {
    std::string name;
    std::uint64_t elements = 0;
    std::uint32_t dtype = 0;

    std::uint64_t element_bytes() const { return dtype == 0 ? sizeof(float) : 1; }

    DEDLOC_FIELDS(name, elements, dtype)
};

struct Header {
    Digest run;
    Digest branch;
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
    Bytes extra;
    std::vector<SectionHeader> sections;
    DEDLOC_FIELDS(run, branch, step, samples, extra, (sections, sections_max))
};

std::size_t padded(std::size_t count) { return (count + alignment - 1) / alignment * alignment; }

Bytes encode_prefix(const Header& header) {
    Bytes out = to_bytes(magic);
    const Bytes encoded = wire::encode(header);
    base::put_u32_le(out, static_cast<std::uint32_t>(encoded.size()));
    base::append(out, encoded);
    out.resize(padded(out.size()), 0);
    return out;
}

// Checks the limits and returns the size of the canonical bytes.
Result<std::uint64_t> check_header(const Header& header, std::size_t prefix_size) {
    if (header.extra.size() > extra_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the state's extra has {} bytes, at most {} are allowed",
                          header.extra.size(),
                          extra_bytes_max);
    if (header.sections.size() > sections_max)
        return make_error(ErrorKind::bad_input,
                          "the state has {} sections, at most {} are allowed",
                          header.sections.size(),
                          sections_max);
    if (prefix_size > prefix_bytes_max)
        return make_error(ErrorKind::bad_input, "the state's header is too long");
    std::unordered_set<std::string_view> names;
    std::uint64_t total = prefix_size;
    for (const SectionHeader& section : header.sections) {
        if (section.name.empty() || section.name.size() > section_name_bytes_max)
            return make_error(ErrorKind::bad_input,
                              "a section's name must have 1 to {} bytes, this one has {}",
                              section_name_bytes_max,
                              section.name.size());
        if (!names.insert(section.name).second)
            return make_error(ErrorKind::bad_input, "two sections of the state have one name");
        if (section.dtype > static_cast<std::uint32_t>(Dtype::u8))
            return make_error(ErrorKind::bad_input,
                              "a section's elements have type {}, which this program does not know",
                              section.dtype);
        if (section.elements > (state_bytes_max - total) / section.element_bytes())
            return make_error(
                ErrorKind::bad_input, "the state is larger than {} bytes", state_bytes_max);
        total += section.elements * section.element_bytes();
    }
    return total;
}

}  // namespace

ByteView Section::bytes() const {
    if (dtype == Dtype::u8) return codes;
    return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)};
}

std::span<std::uint8_t> Section::bytes() {
    if (dtype == Dtype::u8) return codes;
    return {reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float)};
}

Result<std::shared_ptr<const Snapshot>> Snapshot::make(SnapshotInfo info,
                                                       std::vector<Section> sections) {
    Header header{.run = info.run,
                  .branch = info.branch,
                  .step = info.step,
                  .samples = info.samples,
                  .extra = info.extra,
                  .sections = {}};
    for (const Section& section : sections) {
        DEDLOC_CHECK(section.dtype == Dtype::u8 ? section.values.empty() : section.codes.empty());
        header.sections.push_back({.name = section.name,
                                   .elements = section.elements(),
                                   .dtype = static_cast<std::uint32_t>(section.dtype)});
    }
    Bytes prefix = encode_prefix(header);
    DEDLOC_TRY(const std::uint64_t total, check_header(header, prefix.size()));

    auto snapshot = std::shared_ptr<Snapshot>(new Snapshot());
    std::uint64_t offset = prefix.size();
    for (const Section& section : sections) {
        snapshot->offsets_.push_back(offset);
        offset += section.bytes_size();
    }
    snapshot->info_ = std::move(info);
    snapshot->sections_ = std::move(sections);
    snapshot->prefix_ = std::move(prefix);
    snapshot->bytes_size_ = total;
    return std::shared_ptr<const Snapshot>(std::move(snapshot));
}

const Section* Snapshot::find(std::string_view name) const {
    const auto found = std::find_if(sections_.begin(),
                                    sections_.end(),
                                    [&](const Section& section) { return section.name == name; });
    return found == sections_.end() ? nullptr : &*found;
}

void Snapshot::visit(std::uint64_t offset,
                     std::uint64_t count,
                     const std::function<void(ByteView)>& piece) const {
    DEDLOC_CHECK(offset <= bytes_size_ && count <= bytes_size_ - offset);
    const std::uint64_t end = offset + count;
    if (offset < prefix_.size())
        piece(ByteView(prefix_).subspan(offset,
                                        std::min<std::uint64_t>(prefix_.size(), end) - offset));
    // The first section that begins after `offset`; the one before it holds `offset`.
    auto next = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
    std::size_t index = static_cast<std::size_t>(next - offsets_.begin());
    for (index = index == 0 ? 0 : index - 1; index < sections_.size(); ++index) {
        const std::uint64_t begin = offsets_[index];
        if (begin >= end) break;
        const ByteView bytes = sections_[index].bytes();
        const std::uint64_t from = std::max(begin, offset);
        const std::uint64_t to = std::min(begin + bytes.size(), end);
        if (from >= to) continue;
        piece(bytes.subspan(from - begin, to - from));
    }
}

void Snapshot::read(std::uint64_t offset, std::span<std::uint8_t> out) const {
    std::uint8_t* to = out.data();
    visit(offset, out.size(), [&to](ByteView piece) { to = std::ranges::copy(piece, to).out; });
}

Result<SnapshotBuilder> SnapshotBuilder::begin(ByteView first, std::uint64_t bytes_total) {
    base::ByteReader reader(first);
    DEDLOC_TRY(const ByteView read_magic, reader.take(magic.size()));
    if (as_text(read_magic) != magic)
        return make_error(ErrorKind::bad_input, "these bytes are not a dedloc state of version 1");
    DEDLOC_TRY(const std::uint32_t header_size, reader.u32_le());
    DEDLOC_TRY(const ByteView encoded, reader.take(header_size));
    DEDLOC_TRY(Header header, wire::decode<Header>(encoded));
    Bytes prefix = encode_prefix(header);
    // One state has one byte string: whatever does not encode back to itself is refused.
    if (prefix.size() > first.size() || !base::equal(prefix, first.first(prefix.size())))
        return make_error(ErrorKind::bad_input, "the state's header is not canonical");
    DEDLOC_TRY(const std::uint64_t total, check_header(header, prefix.size()));
    if (total != bytes_total)
        return make_error(ErrorKind::bad_input,
                          "the state's sections add up to {} bytes, {} were announced",
                          total,
                          bytes_total);

    auto snapshot = std::shared_ptr<Snapshot>(new Snapshot());
    snapshot->info_ = {.run = header.run,
                       .branch = header.branch,
                       .step = header.step,
                       .samples = header.samples,
                       .extra = std::move(header.extra)};
    std::uint64_t offset = prefix.size();
    for (SectionHeader& section : header.sections) {
        snapshot->offsets_.push_back(offset);
        Section place{.name = std::move(section.name),
                      .values = {},
                      .dtype = static_cast<Dtype>(section.dtype)};
        if (place.dtype == Dtype::u8) {
            place.codes.resize(section.elements);
        } else {
            place.values.resize(section.elements);
        }
        offset += place.bytes_size();
        snapshot->sections_.push_back(std::move(place));
    }
    snapshot->prefix_ = std::move(prefix);
    snapshot->bytes_size_ = total;
    return SnapshotBuilder(std::move(snapshot));
}

void SnapshotBuilder::write(std::uint64_t offset, ByteView piece) {
    Snapshot& snapshot = *snapshot_;
    DEDLOC_CHECK(offset <= snapshot.bytes_size_ && piece.size() <= snapshot.bytes_size_ - offset);
    const std::uint64_t end = offset + piece.size();
    for (std::size_t index = 0; index < snapshot.sections_.size(); ++index) {
        const std::uint64_t begin = snapshot.offsets_[index];
        const std::span<std::uint8_t> bytes = snapshot.sections_[index].bytes();
        const std::uint64_t from = std::max(begin, offset);
        const std::uint64_t to = std::min(begin + bytes.size(), end);
        if (from >= to) continue;
        std::memcpy(bytes.data() + (from - begin), piece.data() + (from - offset), to - from);
    }
}

std::shared_ptr<const Snapshot> SnapshotBuilder::finish() && { return std::move(snapshot_); }

}  // namespace dedloc::state
