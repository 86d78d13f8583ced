// Fingerprint: do two peers mean the same model? What a joiner downloads are numbers in a row; that
// they are as many says little. Two hashes, of what must be equal and is not downloaded:
//
//   structure   name, shape and weight decay of each trained parameter, name and shape of each
//               buffer that is averaged or private, in order
//   constants   name, type, shape and values of frozen parameters and of the other buffers
//
// The host's is in SnapshotInfo::extra, which goes on from state to state. A state that
// `dedloc host` began has none: nothing is compared then.
//
// Cost: the constants' values once through SHA-256. Thread: any. Errors: conflict, for people.

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::torch_bridge {

struct Fingerprint {
    Digest structure;
    Digest constants;

    static Fingerprint of(const torch::nn::Module& module,
                          const std::vector<std::string>& private_buffers = {});
    Bytes to_bytes() const;
};

// Whether the model of the peer that made `theirs`, a SnapshotInfo::extra, is ours.
Ok check_same_model(const Fingerprint& ours, ByteView theirs);

}  // namespace dedloc::torch_bridge
