// A line of JSON for scripts. Names and sentences that peers chose need not be UTF-8, and a library
// that throws at those must not be what ends a program: they are written with U+FFFD instead.
//
// Thread: any. Cost: one pass.

#pragma once
#include <string>

namespace dedloc::monitor {

// `Json`: nlohmann::json or nlohmann::ordered_json.
template <typename Json>
std::string json_line(const Json& json) {
    return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace dedloc::monitor
