#include "dedloc/cli/option_words.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "dedloc/runtime/machine.h"
#include "dedloc/web/gate.h"

namespace dedloc::cli {

CLI::Validator threads_check() {
    const auto most = std::max<std::size_t>(threads_always, runtime::processors());
    return CLI::Validator(
        [most](const std::string& text) {
            std::size_t threads = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), threads);
            const bool is_number = error == std::errc() && end == text.data() + text.size();
            if (is_number && threads <= most) return std::string();
            return fmt::format("'{}' threads: give 0 to {}; this machine has {} processors",
                               text,
                               most,
                               runtime::processors());
        },
        fmt::format("0 to {}", most));
}

namespace {

constexpr char max_up_help[] =
    "Mb/s that this process sends at most, and that plans count on; also by the local time of day: "
    "'5,23:00-07:00=50' is 50 from 23:00 to 07:00 and 5 else; off: no limit (default: off)";

}  // namespace

void add_web_option(CLI::App& command, std::string& web) {
    command
        .add_option("--web",
                    web,
                    "show the run in a browser, and /metrics and /api to programs: on this machine "
                    "at port 8470, or the next that is free; with a value there (0: any free one); "
                    "0.0.0.0:8470: to other machines as well, without encryption")
        ->type_name("[[ADDRESS:]PORT]");
}

void add_tensorboard_option(CLI::App& command, std::string& folder) {
    command
        .add_option("--tensorboard",
                    folder,
                    "folder that gets event files of TensorBoard, of this peer alone; each step as "
                    "it is made")
        ->type_name("DIR");
}

std::vector<std::string> with_web_places(int argc, const char* const* argv) {
    std::vector<std::string> words;
    for (int i = 1; i < argc; ++i) {
        words.emplace_back(argv[i]);
        if (words.back() != "--web") continue;
        const std::string next = i + 1 < argc ? argv[i + 1] : "";
        // A port, or an address with one; a folder whose name is a number is written ./8470.
        const bool is_place = web::parse_web_address(next).has_value();
        words.back() += "=" + (is_place ? next : "auto");
        if (is_place) ++i;
    }
    return words;
}

void add_cap_options(CLI::App& command, peer::CapOptions& caps) {
    command.add_option("--max-up", caps.max_up, max_up_help)->type_name("MBIT[,RANGE=MBIT...]");
    command.add_option("--max-down", caps.max_down, "the same for what it receives")
        ->type_name("MBIT[,RANGE=MBIT...]");
}

}  // namespace dedloc::cli
