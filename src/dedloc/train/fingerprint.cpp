#include "dedloc/train/fingerprint.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

namespace dedloc::train {
namespace {

constexpr std::string_view mark = "dedloc-model-1";

std::string line_of(std::string_view name, std::span<const std::int64_t> shape) {
    return fmt::format("{} [{}]\n", name, fmt::join(shape.begin(), shape.end(), ","));
}

}  // namespace

void FingerprintMaker::trained(std::string_view name, std::span<const std::int64_t> shape) {
    structure_.update(line_of(name, shape));
}

void FingerprintMaker::constant(std::string_view name,
                                std::span<const std::int64_t> shape,
                                std::string_view type,
                                ByteView values) {
    constants_.update(line_of(name, shape));
    constants_.update(type);
    constants_.update(values);
}

void FingerprintMaker::begin_buffers() {
    structure_.update("buffers\n");
    constants_.update("buffers\n");
}

void FingerprintMaker::averaged_buffer(std::string_view name, std::span<const std::int64_t> shape) {
    structure_.update(line_of(name, shape));
}

void FingerprintMaker::private_buffer(std::string_view name) {
    structure_.update(fmt::format("private {}\n", name));
}

Fingerprint FingerprintMaker::finish() {
    return {.structure = structure_.finish(), .constants = constants_.finish()};
}

Bytes Fingerprint::to_bytes() const {
    Bytes bytes(mark.begin(), mark.end());
    base::append(bytes, structure.view());
    base::append(bytes, constants.view());
    return bytes;
}

Ok check_same_model(const Fingerprint& ours, ByteView theirs) {
    const Bytes own = ours.to_bytes();
    if (theirs.size() != own.size() || !std::equal(mark.begin(), mark.end(), theirs.begin()))
        return {};
    const auto is_equal = [&](std::size_t offset) {
        return std::ranges::equal(theirs.subspan(offset, sizeof(Digest)),
                                  ByteView(own).subspan(offset, sizeof(Digest)));
    };
    if (!is_equal(mark.size()))
        return make_error(ErrorKind::conflict,
                          "your model is built differently from the host's: it has as many "
                          "numbers, but their names, shapes or order differ; build it with the "
                          "same program on all peers");
    if (!is_equal(mark.size() + sizeof(Digest)))
        return make_error(
            ErrorKind::conflict,
            "frozen parameters or constant buffers of your model have other values than the "
            "host's; they are not downloaded: take them from the same file on all peers, or build "
            "the model after the same manual_seed() (and draw samples after another one: the "
            "run's seed)");
    return {};
}

}  // namespace dedloc::train
