// Scalars in the form that TensorBoard reads: a file of records "events.out.tfevents.*".
//
//   record = u64 LE length ‖ masked CRC-32C of it ‖ an Event message ‖ masked CRC-32C of that
//
// Source: tensorflow/core/lib/io/record_writer.cc and core/util/event.proto. Thread: any; pure.

#pragma once
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/monitor/run_history.h"

namespace dedloc::monitor {

// The whole file.
Bytes to_tensorboard(const std::vector<Scalar>& scalars);

// The same file in pieces. Its first record:
Bytes tensorboard_begin(WallSeconds now);
// Records of these scalars; neighbours of one step and time share a record.
Bytes tensorboard_records(const std::vector<Scalar>& scalars);
// A record that has TensorBoard forget what it knows of `step` and later ones.
Bytes tensorboard_restart(WallSeconds now, std::uint64_t step);

std::uint32_t crc32c(ByteView bytes);  // Castagnoli, as RFC 3720

}  // namespace dedloc::monitor
