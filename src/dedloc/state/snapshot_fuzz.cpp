// Providers say these of a state. The first byte chooses: a manifest, made to have its own root, as
// whoever signed that could; or the beginning of a state and how much more there is of it. What is
// taken has the same canonical bytes again.
#include "dedloc/base/check.h"
#include "dedloc/state/manifest.h"
#include "dedloc/wire/message.h"

using namespace dedloc;
using namespace dedloc::state;

namespace {

void inspect_manifest(ByteView bytes) {
    auto manifest = wire::decode<Manifest>(bytes);
    if (!manifest) return;
    if (!manifest->chunks.empty()) manifest->root = root_hash(manifest->bytes, manifest->chunks);
    const bool sound = manifest->verify(manifest->root).has_value();
    if (!sound) return;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < manifest->chunks_count(); ++i) {
        const std::size_t size = manifest->chunk_size(i);
        DEDLOC_CHECK(size > 0 && size <= chunk_bytes && manifest->chunk_offset(i) == total);
        total += size;
    }
    DEDLOC_CHECK(total == manifest->bytes);
    DEDLOC_CHECK(*wire::decode<Manifest>(wire::encode(*manifest)) == *manifest);
}

void inspect_state(ByteView bytes) {
    base::ByteReader reader(bytes);
    const auto more = reader.u32_le();
    if (!more) return;
    const ByteView first = bytes.subspan(sizeof *more);
    // A header's claim is believed up to this only with as many bytes.
    constexpr std::uint32_t enough = 1u << 16;
    auto builder = SnapshotBuilder::begin(first, first.size() + *more % enough);
    if (!builder) return;
    builder->write(0, first);
    const auto snapshot = std::move(*builder).finish();
    DEDLOC_CHECK(snapshot->bytes_size() == first.size() + *more % enough);
    Bytes again(first.size());
    snapshot->read(0, again);
    DEDLOC_CHECK(base::equal(again, first));
    const Manifest manifest = make_manifest(*snapshot);
    DEDLOC_CHECK(manifest.verify(manifest.root).has_value());
    DEDLOC_CHECK(manifest.holds(0, chunk(*snapshot, 0)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ByteView said(data + 1, size - 1);
    if (data[0] % 2 == 0)
        inspect_manifest(said);
    else
        inspect_state(said);
    return 0;
}
