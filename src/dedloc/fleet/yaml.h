// A JSON value as YAML, for manifests that people read: blocks, two spaces a level, every text in
// double quotes as JSON writes it, so that no text is ever taken for something else. Texts of
// several lines become literal blocks where they can.
//
// Thread: any; pure. Cost: linear.

#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dedloc::fleet {

std::string to_yaml(const nlohmann::ordered_json& value);
// Several documents.
std::string to_yaml(const std::vector<nlohmann::ordered_json>& documents);

}  // namespace dedloc::fleet
