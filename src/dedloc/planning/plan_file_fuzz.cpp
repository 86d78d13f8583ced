// Files of users: never crash, and what parses can be planned or says why not.

#include "dedloc/base/bytes.h"
#include "dedloc/base/check.h"
#include "dedloc/planning/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace dedloc;
    const auto file = planning::parse_plan_file(as_text(ByteView(data, size)), "fuzz.toml");
    if (!file) {
        DEDLOC_CHECK(file.error().message().starts_with("fuzz.toml:"));
        return 0;
    }
    constexpr std::size_t enough = 200;  // larger networks only take longer
    if (file->question.peers.size() > enough) return 0;
    const auto plan = planner::make_plan(file->question);
    DEDLOC_CHECK(plan || plan.error().kind() == ErrorKind::bad_input);
    return 0;
}
