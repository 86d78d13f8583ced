#include "dedloc/fleet/fleet_writer.h"

#include <utility>

#include "dedloc/run/join_string.h"
#include "dedloc/run/run_file.h"

namespace dedloc::fleet {
namespace {

constexpr std::string_view run_file_name = "run.toml";
constexpr std::string_view join_file_name = "join.txt";

constexpr FleetKind kind_table[] = {
    {"slurm",
     "an array of jobs that queue again when they are preempted",
     "./start.sh",
     write_slurm},
    {"kubernetes",
     "stateful sets, each peer with a volume of its own",
     "./start.sh",
     write_kubernetes},
    {"ssh", "machines that are reached by ssh", "./fleet.sh start", write_ssh},
};

std::vector<std::string> words_of_peer(const Fleet& fleet, const std::string& preemption_notice) {
    std::vector<std::string> words;
    const auto add = [&](const char* option, const std::string& value) {
        if (value.empty()) return;
        words.emplace_back(option);
        words.push_back(value);
    };
    add("--data", fleet.data);
    add("--device", fleet.device);
    if (fleet.threads > 0) add("--threads", fmt::format("{}", fleet.threads));
    add("--preemption-notice", preemption_notice);
    if (fleet.agrees) words.emplace_back("--yes");
    words.emplace_back("--no-port-mapping");  // there is no router of somebody's own
    return words;
}

}  // namespace

std::span<const FleetKind> fleet_kinds() { return kind_table; }

Result<std::vector<FleetText>> write_fleet(const FleetKind& kind, Fleet fleet) {
    if (fleet.hosts() == !fleet.join_string.empty())
        return make_error(
            ErrorKind::bad_input,
            "a fleet begins a run, by its run file, or joins one, by its join string");
    if (fleet.hosts()) {
        DEDLOC_TRY(const run::RunFile run, run::parse_run_file(fleet.run_file, run_file_name));
        if (fleet.name.empty()) fleet.name = run.name;
    } else {
        DEDLOC_TRY(const auto join, run::parse_join_string(fleet.join_string));
        fleet.join_string = run::to_text(join);  // without what copying did to it
        if (fleet.name.empty()) fleet.name = "dedloc";
    }
    DEDLOC_TRY(std::vector<FleetText> texts, kind.write(fleet));
    if (fleet.hosts())
        texts.push_back({std::string(run_file_name), fleet.run_file});
    else
        texts.push_back(
            {std::string(join_file_name), fleet.join_string + "\n", FleetText::Access::owner});
    return texts;
}

std::vector<std::string> peer_words(const Fleet& fleet) {
    return words_of_peer(fleet, fleet.preemption_notice);
}

std::vector<std::string> host_words(const Fleet& fleet, std::string_view published) {
    std::vector<std::string> words{
        "--listen", fmt::format("0.0.0.0:{}", fleet.port), "--publish", std::string(published)};
    // The host's machine is not taken away, and hears no notice.
    for (std::string& word : words_of_peer(fleet, "")) words.push_back(std::move(word));
    return words;
}

}  // namespace dedloc::fleet
