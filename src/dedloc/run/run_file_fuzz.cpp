// Run files come from peers, too: never crash, and what parses has one canonical form.

#include "dedloc/base/check.h"
#include "dedloc/run/run_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const auto run = run::parse_run_file(as_text(ByteView(data, size)), "fuzz.toml");
    if (!run) {
        DEDLOC_CHECK(run.error().message().starts_with("fuzz.toml:"));
        return 0;
    }
    const std::string canonical = run::to_toml(*run);
    const auto again = run::parse_run_file(canonical, "canonical.toml");
    DEDLOC_CHECK(again.has_value(), "{}", to_string(again.error()));
    DEDLOC_CHECK(run::to_toml(*again) == canonical);
    return 0;
}
