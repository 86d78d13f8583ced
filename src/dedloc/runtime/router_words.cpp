#include "dedloc/runtime/router_words.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace dedloc::runtime {

namespace {

constexpr std::string_view nobody =
    "no router answered UPnP or NAT-PMP";  // docs/nat.md and a test quote it
constexpr std::size_t reason_bytes_max = 120;
constexpr std::size_t words_max = 8;
constexpr std::uint32_t lease_seconds_max = 7 * 24 * 3600;

constexpr std::string_view word_of(MappingProtocol protocol) {
    return protocol == MappingProtocol::upnp ? "upnp" : "nat-pmp";
}

bool is_printable(char c) { return c > ' ' && c <= '~'; }

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    while (!line.empty() && words.size() <= words_max) {
        const std::size_t space = line.find(' ');
        words.push_back(line.substr(0, space));
        line = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    }
    return words;
}

template <typename Number>
std::optional<Number> number_of(std::string_view word) {
    Number number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return number;
}

bool is_ip4(std::string_view word) {
    in_addr ignored{};
    return ::inet_pton(AF_INET, std::string(word).c_str(), &ignored) == 1;
}

// The answer without the end of its line; nothing where it is none.
std::optional<std::string_view> line_of(std::string_view answer) {
    if (answer.size() > router_answer_bytes_max || !answer.ends_with('\n')) return std::nullopt;
    answer.remove_suffix(1);
    const bool is_plain = std::ranges::all_of(answer, [](char c) { return c >= ' ' && c <= '~'; });
    return is_plain ? std::optional(answer) : std::nullopt;
}

// The error for an answer that is not the one hoped for.
Error why_not(std::string_view answer) {
    const auto line = line_of(answer);
    if (line == "none") return Error(ErrorKind::not_found, std::string(nobody));
    if (line && line->starts_with("refused "))
        return make_error(ErrorKind::denied, "the router refused: {}", line->substr(8));
    return Error(ErrorKind::peer_broke_protocol, "the router's answer made no sense");
}

}  // namespace

std::vector<std::string> words_for(const PortWish& wish) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wish.lease).count();
    return {"map",
            std::to_string(wish.internal_port),
            std::to_string(wish.external_port),
            std::to_string(seconds)};
}

std::vector<std::string> words_for_removal(const PortMapping& mapping) {
    return {"unmap",
            std::string(word_of(mapping.protocol)),
            std::to_string(mapping.internal_port),
            std::to_string(mapping.external.port),
            mapping.control.empty() ? "-" : mapping.control};
}

Result<PortMapping> parse_mapped(std::string_view answer, std::uint16_t internal_port) {
    const auto line = line_of(answer);
    const auto words = line ? words_of(*line) : std::vector<std::string_view>();
    if (words.size() != 6 || words[0] != "mapped") return why_not(answer);
    PortMapping mapping;
    mapping.internal_port = internal_port;
    mapping.protocol = words[1] == "upnp" ? MappingProtocol::upnp : MappingProtocol::nat_pmp;
    const auto port = number_of<std::uint16_t>(words[3]);
    const auto seconds = number_of<std::uint32_t>(words[4]);
    const bool is_known = words[1] == word_of(mapping.protocol);
    const bool is_url = words[5] == "-" || !host_of_url(words[5]).empty();
    if (!is_known || !is_ip4(words[2]) || !port || *port == 0 || !seconds || !is_url)
        return why_not("");
    mapping.external = {.host = std::string(words[2]), .port = *port};
    mapping.lease = std::chrono::seconds(std::min(*seconds, lease_seconds_max));
    if (words[5] != "-") mapping.control = std::string(words[5]);
    return mapping;
}

Result<void> parse_unmapped(std::string_view answer) {
    if (line_of(answer) == "unmapped") return {};
    return why_not(answer);
}

std::string answer_line(const PortMapping& mapping) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(mapping.lease).count();
    return fmt::format("mapped {} {} {} {} {}\n",
                       word_of(mapping.protocol),
                       mapping.external.host,
                       mapping.external.port,
                       seconds,
                       mapping.control.empty() ? "-" : mapping.control);
}

std::string refused_line(std::string_view why) {
    std::string plain(why.substr(0, reason_bytes_max));
    std::ranges::replace_if(
        plain, [](char c) { return !is_printable(c); }, ' ');
    return fmt::format("refused {}\n", plain);
}

std::string host_of_url(std::string_view url) {
    constexpr std::string_view scheme = "http://";
    if (url.size() > router_url_bytes_max || !url.starts_with(scheme) ||
        !std::ranges::all_of(url, is_printable))
        return {};
    url.remove_prefix(scheme.size());
    const std::string_view host = url.substr(0, url.find_first_of(":/"));
    return is_ip4(host) ? std::string(host) : std::string();
}

}  // namespace dedloc::runtime
