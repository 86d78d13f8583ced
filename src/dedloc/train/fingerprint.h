// Fingerprint: do two peers mean the same model? What a joiner downloads are numbers in a row; that
// they are as many says little. Hashes, of what must be equal and is not downloaded:
//
//   structure   name and shape of each trained parameter and of each buffer that is averaged or
//               private, in order
//   constants   name, type, shape and values of frozen parameters and of the other buffers
//   groups      only where there are such: parameters with a learning rate or weight decay of their
//               own
//
// The host's is in SnapshotInfo::extra, which goes on from state to state. A state that
// `dedloc host` began has none: nothing is compared then.
//
// Cost: the constants' values once through SHA-256. Thread: any. Errors: conflict, for people.

#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/security/hash.h"

namespace dedloc::train {

struct Fingerprint {
    Digest structure;
    Digest constants;
    std::optional<Digest> groups{};

    Bytes to_bytes() const;
};

// Makes one: first the parameters in the model's order, then the buffers in theirs.
class FingerprintMaker {
  public:
    void trained(std::string_view name, std::span<const std::int64_t> shape);
    // `type` as libtorch spells it ("Float", "Long"); `values` in memory order, row by row.
    void constant(std::string_view name,
                  std::span<const std::int64_t> shape,
                  std::string_view type,
                  ByteView values);
    // After trained().
    void grouped(std::string_view name,
                 double rate_factor,
                 std::optional<double> weight_decay,
                 std::size_t columns);
    void begin_buffers();
    void averaged_buffer(std::string_view name, std::span<const std::int64_t> shape);
    void private_buffer(std::string_view name);
    Fingerprint finish();

  private:
    security::Sha256 structure_;
    security::Sha256 constants_;
    security::Sha256 groups_;
    bool has_groups_ = false;
};

// Whether the model of the peer that made `theirs`, a SnapshotInfo::extra, is ours.
Ok check_same_model(const Fingerprint& ours, ByteView theirs);
// Groups may differ: for a model that makes no steps.
Ok check_same_tensors(const Fingerprint& ours, ByteView theirs);

}  // namespace dedloc::train
