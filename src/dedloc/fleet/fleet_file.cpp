// The file of a fleet: flat TOML, whose keys are those of fleet_fields().

#include <algorithm>

#include "dedloc/base/printable.h"
#include "dedloc/fleet/fleet.h"
#include "dedloc/run/ascii_toml.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace dedloc::fleet {
namespace {

Error error_at(std::string_view file, const toml::source_position& at, std::string_view sentence) {
    return make_error(ErrorKind::bad_input,
                      "{}:{}:{}: {}",
                      file,
                      std::max<std::uint32_t>(at.line, 1),
                      std::max<std::uint32_t>(at.column, 1),
                      sentence);
}

Result<std::string> text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
    if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
    return make_error(
        ErrorKind::bad_input,
        "must be a number, true, false, or a text in quotes; a fleet has no sections");
}

}  // namespace

Ok read_fleet_file(Fleet& fleet, std::string_view text, std::string_view file_name) {
    DEDLOC_TRY(const std::string ascii, run::ascii_toml(text, file_name));
    const toml::parse_result parsed = toml::parse(ascii, file_name);
    if (!parsed)
        return error_at(file_name,
                        parsed.error().source().begin,
                        base::printable(parsed.error().description()));
    for (const auto& [key, node] : parsed.table()) {
        const auto value = text_of(node);
        if (!value)
            return error_at(file_name,
                            key.source().begin,
                            fmt::format("'{}' {}",
                                        base::printable(key.str(), fleet_word_bytes_max),
                                        value.error().message()));
        const Ok set = set_field(fleet, key.str(), *value);
        if (!set) return error_at(file_name, key.source().begin, set.error().message());
    }
    return {};
}

}  // namespace dedloc::fleet
