// libtorch_error: an exception of libtorch as an error, with what was done meanwhile.
//
// Thread: any.

#pragma once
#include <exception>
#include <string_view>

#include "dedloc/base/result.h"
#include "dedloc/train/first_line.h"

namespace dedloc::torch_bridge {

inline Error libtorch_error(std::string_view during, const std::exception& failure) {
    return make_error(
        ErrorKind::cannot_compute, "{}: libtorch says: {}", during, train::first_line(failure));
}

}  // namespace dedloc::torch_bridge
