// dedloc and its helper program dedloc-ask-router say this to each other: command lines one way,
// one line of text back. The helper reads bytes of the local network with libraries that are not
// ours (docs/decisions/0006), so its line is judged as if a stranger had written it.
//
//   mapped nat-pmp 203.0.113.2 4001 1200 -
//   mapped upnp 203.0.113.2 4001 0 http://192.168.1.1:5000/rootDesc.xml
//   unmapped
//   none
//   refused ConflictInMappingEntry
//
// Pure. Errors: not_found ("none"), denied ("refused"), peer_broke_protocol (anything else).

#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/runtime/port_mapper.h"

namespace dedloc::runtime {

// A line with its end; what is longer is no answer.
inline constexpr std::size_t router_answer_bytes_max = 512;
inline constexpr std::size_t router_url_bytes_max = 256;

// Without the program's name.
std::vector<std::string> words_for(const PortWish& wish);
std::vector<std::string> words_for_removal(const PortMapping& mapping);

Result<PortMapping> parse_mapped(std::string_view answer, std::uint16_t internal_port);
Result<void> parse_unmapped(std::string_view answer);

// The helper's side. Whatever a router said becomes printable and short.
std::string answer_line(const PortMapping& mapping);
std::string refused_line(std::string_view why);
// "http://192.168.1.1:5000/x" -> "192.168.1.1"; empty where it is no plain http URL.
std::string host_of_url(std::string_view url);

}  // namespace dedloc::runtime
