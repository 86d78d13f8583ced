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

void FingerprintMaker::grouped(std::string_view name,
                               double rate_factor,
                               std::optional<double> weight_decay,
                               std::size_t columns) {
    has_groups_ = true;
    groups_.update(fmt::format("{} {} {}", name, rate_factor, columns));
    groups_.update(weight_decay ? fmt::format(" {}\n", *weight_decay) : "\n");
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
    Fingerprint made{.structure = structure_.finish(), .constants = constants_.finish()};
    if (has_groups_) made.groups = groups_.finish();
    return made;
}

Bytes Fingerprint::to_bytes() const {
    Bytes bytes(mark.begin(), mark.end());
    base::append(bytes, structure.view());
    base::append(bytes, constants.view());
    if (groups) base::append(bytes, groups->view());
    return bytes;
}

namespace {

constexpr std::size_t bytes_without_groups = mark.size() + 2 * sizeof(Digest);

// Else a state that `dedloc host` began.
bool is_fingerprint(ByteView extra) {
    return extra.size() >= bytes_without_groups &&
           std::equal(mark.begin(), mark.end(), extra.begin());
}

}  // namespace

Ok check_same_tensors(const Fingerprint& ours, ByteView theirs) {
    if (!is_fingerprint(theirs)) return {};
    const Bytes own = ours.to_bytes();
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

Ok check_same_model(const Fingerprint& ours, ByteView theirs) {
    DEDLOC_TRY_VOID(check_same_tensors(ours, theirs));
    if (!is_fingerprint(theirs)) return {};
    const Bytes own = ours.to_bytes();
    if (std::ranges::equal(theirs.subspan(bytes_without_groups),
                           ByteView(own).subspan(bytes_without_groups)))
        return {};
    return make_error(ErrorKind::conflict,
                      "your parameter groups (factors of the learning rate, weight decay) are not "
                      "the host's, so that you would make other steps; give the same groups on all "
                      "peers");
}

}  // namespace dedloc::train
