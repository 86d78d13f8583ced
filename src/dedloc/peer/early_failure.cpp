#include "dedloc/peer/early_failure.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "dedloc/monitor/json_line.h"
#include "dedloc/peer/say.h"

namespace dedloc::peer {

int report_early(const Failure& failure, bool json) {
    const int code = report(failure);
    if (!json) return code;
    const nlohmann::ordered_json object{{"ok", false}, {"error", failure.message}};
    say(stdout, "{}\n", monitor::json_line(object));
    return code;
}

}  // namespace dedloc::peer
