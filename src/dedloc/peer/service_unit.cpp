#include "dedloc/peer/service_unit.h"

#include <fmt/format.h>

namespace dedloc::peer {
namespace {

// As systemd.syntax(7) and systemd.service(5) want it: in quotes, % and $ doubled.
std::string quoted_word(const std::string& word) {
    std::string text = "\"";
    for (const char letter : word) {
        if (letter == '"' || letter == '\\') text += '\\';
        if (letter == '%' || letter == '$') text += letter;
        text += letter;
    }
    return text + "\"";
}

}  // namespace

std::string unit_text(const ServiceUnit& unit) {
    std::string command = quoted_word(unit.program);
    for (const std::string& word : unit.words) command += " " + quoted_word(word);
    const std::string cap =
        unit.processor_percent > 0 ? fmt::format("CPUQuota={}%\n", unit.processor_percent) : "";
    return fmt::format(
        "# Written by `dedloc service install`; `dedloc service remove` takes it away.\n"
        "[Unit]\n"
        "Description=dedloc: trains {} together with others\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "\n"
        "[Service]\n"
        "ExecStart={}\n"
        "Restart=on-failure\n"
        "RestartSec=60\n"
        "# It leaves in order, and saves its state.\n"
        "KillSignal=SIGINT\n"
        "TimeoutStopSec=60\n"
        "Nice=19\n"
        "IOSchedulingClass=idle\n"
        "CPUWeight=20\n"
        "{}"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n",
        unit.run,
        command,
        cap);
}

}  // namespace dedloc::peer
