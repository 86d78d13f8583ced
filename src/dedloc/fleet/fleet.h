// Fleet: many machines that somebody rents or shares and that may be taken away at any moment, and
// what is said about them once: in a file of lines `key = value` (TOML), or as options of the same
// names, which win. `dedloc fleet` writes from it what people start fleets with (fleet_writer.h).
//
//   peers = 16
//   cpus = 4
//   preemption-notice = "aws"
//
// Every text goes into scripts and manifests, so that most may have the letters of paths and names
// alone; the rest is quoted where it is written (script_words.h).
//
// Errors: bad_input, for people, with the key. Thread: any; pure.

#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::fleet {

inline constexpr std::size_t fleet_file_bytes_max = 64 * 1024;
inline constexpr std::uint64_t fleet_peers_max = 10'000;
inline constexpr std::size_t fleet_word_bytes_max = 256;

struct Fleet {
    // Where it hosts a run: the run file's text. Else the string with which its peers join.
    std::string run_file{};
    std::string join_string{};

    std::string name{};  // of the run; empty: as the run file says, or "dedloc"
    std::uint64_t peers = 8;
    std::string folder{};             // of their state; empty: each kind has its own
    std::string program = "dedloc";   // on the machines
    std::uint64_t port = 31337;       // of the host
    std::uint64_t grace_s = 60;       // that a peer may take to leave
    std::string preemption_notice{};  // of the cloud, as for `dedloc join`

    std::string data{};    // folder of the task's data
    std::string device{};  // as for `dedloc join`
    std::uint64_t threads = 0;
    bool agrees = false;  // to data that the run sends

    std::uint64_t cpus = 4;
    std::uint64_t memory_gib = 8;
    std::uint64_t gpus = 0;

    std::string time = "12:00:00";  // Slurm: a peer's limit, after which it queues again
    std::string partition{};
    std::string host_partition{};
    std::string account{};

    std::string image = "dedloc:latest";  // Kubernetes
    std::string name_space{};
    std::string storage_class{};
    std::string spot{};  // whose spot nodes the peers want: gke, eks, aks
    std::uint64_t volume_gib = 20;

    std::string machines{};  // ssh: names, with commas between them

    bool hosts() const { return !run_file.empty(); }
};

struct FleetField {
    std::string_view name;
    std::string_view help;
    Ok (*set)(Fleet& fleet, std::string_view value);
};
std::span<const FleetField> fleet_fields();

// Sets what one line or option says.
Ok set_field(Fleet& fleet, std::string_view name, std::string_view value);
// Sets what a file says, over what is there.
Ok read_fleet_file(Fleet& fleet, std::string_view text, std::string_view file_name);

std::vector<std::string> machines_of(const Fleet& fleet);

}  // namespace dedloc::fleet
