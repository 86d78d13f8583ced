// A dedloc peer does this with records of hivemind's table when it is told to: sign them, and say
// which ones it would take (tests/interop/README.md).

#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::interop {

// nullopt: no request of this kind.
std::optional<Result<nlohmann::json>> serve_records(const nlohmann::json& request);

}  // namespace dedloc::interop
