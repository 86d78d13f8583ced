#include "dedloc/fleet/fleet.h"

#include <algorithm>
#include <charconv>

#include "dedloc/base/edit_distance.h"
#include "dedloc/base/printable.h"
#include "dedloc/fleet/notice_source.h"
#include "dedloc/fleet/script_words.h"

namespace dedloc::fleet {
namespace {

constexpr std::size_t shown_bytes_max = 80;

template <auto Member, std::uint64_t Least, std::uint64_t Most>
Ok set_number(Fleet& fleet, std::string_view value) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < Least ||
        number > Most)
        return make_error(ErrorKind::bad_input, "must be a whole number, {} to {}", Least, Most);
    fleet.*Member = number;
    return {};
}

template <auto Member>
Ok set_word(Fleet& fleet, std::string_view value) {
    if (!is_plain_word(value) || value.size() > fleet_word_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "must be 1 to {} of the letters of names and paths: A-Z a-z 0-9 and "
                          "_ . / : = , @ % + -, and not begin with a '-'",
                          fleet_word_bytes_max);
    fleet.*Member = std::string(value);
    return {};
}

template <auto Member>
Ok set_text(Fleet& fleet, std::string_view value) {
    if (value.empty() || value.size() > fleet_word_bytes_max || !base::is_printable(value))
        return make_error(
            ErrorKind::bad_input, "must be 1 to {} printable letters", fleet_word_bytes_max);
    fleet.*Member = std::string(value);
    return {};
}

Ok set_notice(Fleet& fleet, std::string_view value) {
    DEDLOC_TRY_VOID(parse_notice_place(value));
    return set_text<&Fleet::preemption_notice>(fleet, value);
}

Ok set_agrees(Fleet& fleet, std::string_view value) {
    if (value != "true" && value != "false")
        return make_error(ErrorKind::bad_input, "must be true or false");
    fleet.agrees = value == "true";
    return {};
}

Ok set_spot(Fleet& fleet, std::string_view value) {
    if (value != "gke" && value != "eks" && value != "aks")
        return make_error(ErrorKind::bad_input, "must be gke, eks or aks");
    return set_word<&Fleet::spot>(fleet, value);
}

bool is_time(std::string_view value) {
    return !value.empty() && value.find_first_not_of("0123456789-:") == std::string_view::npos &&
           value.front() != '-';
}

Ok set_time(Fleet& fleet, std::string_view value) {
    if (!is_time(value))
        return make_error(ErrorKind::bad_input, "must be a time as Slurm takes it: 12:00:00");
    return set_word<&Fleet::time>(fleet, value);
}

constexpr FleetField field_table[] = {
    {"name", "of the run (default: as the run file says)", set_text<&Fleet::name>},
    {"peers", "machines that train (8)", set_number<&Fleet::peers, 1, fleet_peers_max>},
    {"folder", "where peers keep their state, on the machines", set_word<&Fleet::folder>},
    {"program", "the dedloc of the machines (dedloc)", set_word<&Fleet::program>},
    {"port", "of the host (31337)", set_number<&Fleet::port, 1, 65535>},
    {"grace", "seconds that a peer gets to leave (60)", set_number<&Fleet::grace_s, 1, 3600>},
    {"preemption-notice",
     "where the cloud says that it takes the machine: aws, gcp, azure, … (as for join)",
     set_notice},
    {"data", "folder of the task's data, on the machines", set_word<&Fleet::data>},
    {"device", "as for join", set_word<&Fleet::device>},
    {"threads", "as for join", set_number<&Fleet::threads, 0, 1024>},
    {"yes", "agree to data that the run sends: true, false", set_agrees},
    {"cpus", "of each machine (4)", set_number<&Fleet::cpus, 1, 1024>},
    {"memory", "of each machine, GiB (8)", set_number<&Fleet::memory_gib, 1, 65536>},
    {"gpus", "of each machine (0)", set_number<&Fleet::gpus, 0, 64>},
    {"time", "slurm: limit of a peer, which then queues again (12:00:00)", set_time},
    {"partition", "slurm: of the peers", set_word<&Fleet::partition>},
    {"host-partition",
     "slurm: of the host, where nothing is preempted",
     set_word<&Fleet::host_partition>},
    {"account", "slurm: who pays", set_word<&Fleet::account>},
    {"image", "kubernetes: of packaging/Containerfile (dedloc:latest)", set_word<&Fleet::image>},
    {"namespace", "kubernetes", set_word<&Fleet::name_space>},
    {"storage-class", "kubernetes: of the volumes", set_word<&Fleet::storage_class>},
    {"spot", "kubernetes: peers want the spot nodes of gke, eks, aks", set_spot},
    {"volume", "kubernetes: of each peer, GiB (20)", set_number<&Fleet::volume_gib, 1, 65536>},
    {"machines", "ssh: their names, with commas between them", set_word<&Fleet::machines>},
};

}  // namespace

std::span<const FleetField> fleet_fields() { return field_table; }

Ok set_field(Fleet& fleet, std::string_view name, std::string_view value) {
    const auto field = std::ranges::find(field_table, name, &FleetField::name);
    if (field == std::end(field_table)) {
        std::vector<std::string> known;
        for (const FleetField& one : field_table) known.emplace_back(one.name);
        const std::string shown = base::printable(name, shown_bytes_max);
        return make_error(ErrorKind::bad_input,
                          "there is nothing called '{}' in a fleet{}",
                          shown,
                          base::did_you_mean(shown, known));
    }
    const Ok set = field->set(fleet, value);
    if (set) return {};
    return make_error(ErrorKind::bad_input, "'{}' {}", name, set.error().message());
}

std::vector<std::string> machines_of(const Fleet& fleet) {
    std::vector<std::string> machines;
    std::string_view rest = fleet.machines;
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        if (comma > 0) machines.emplace_back(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return machines;
}

}  // namespace dedloc::fleet
