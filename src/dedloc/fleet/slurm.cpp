// Slurm: one job that hosts, and an array of peers on partitions whose jobs are preempted.
//
// Slurm sends SIGTERM to the steps of a job that it preempts (GraceTime), and `--signal` does the
// same before the time limit: the peer leaves in order, and its task of the array queues again.
// State lies beside the scripts, which have to be on a disk that all nodes share.

#include <fmt/format.h>

#include "dedloc/fleet/fleet_writer.h"
#include "dedloc/fleet/script_words.h"

namespace dedloc::fleet {
namespace {

constexpr std::string_view slurm_folder = "state";
constexpr std::uint64_t signal_extra_s = 30;  // Slurm may be that late with a signal

std::string slurm_folder_of(const Fleet& fleet) {
    return fleet.folder.empty() ? std::string(slurm_folder) : fleet.folder;
}

// Lines that both kinds of jobs have.
std::string slurm_resources(const Fleet& fleet, const std::string& partition) {
    std::string lines = fmt::format(
        "#SBATCH --ntasks=1\n#SBATCH --cpus-per-task={}\n#SBATCH --mem={}G\n"
        "#SBATCH --open-mode=append\n#SBATCH --requeue\n",
        fleet.cpus,
        fleet.memory_gib);
    if (fleet.gpus > 0) lines += fmt::format("#SBATCH --gres=gpu:{}\n", fleet.gpus);
    if (!partition.empty()) lines += fmt::format("#SBATCH --partition={}\n", partition);
    if (!fleet.account.empty()) lines += fmt::format("#SBATCH --account={}\n", fleet.account);
    return lines;
}

std::string slurm_host(const Fleet& fleet) {
    const std::string folder = slurm_folder_of(fleet);
    return fmt::format(
        R"sh(#!/usr/bin/env bash
# The host of the run: it keeps checkpoints, publishes them below {folder}/published, and goes on
# from the newest when it starts again.
#SBATCH --job-name={label}-host
#SBATCH --output={folder}/host.log
{resources}
set -euo pipefail
umask 077
state={folder}/host
if compgen -G "$state/checkpoints/*/checkpoint.json" >/dev/null; then
    begin=(--resume "$state")
else
    begin=(run.toml --dir "$state")
fi
exec srun --ntasks=1 {program} host "${{begin[@]}}" {words} --quiet
)sh",
        fmt::arg("folder", folder),
        fmt::arg("label", label_of(fleet.name)),
        fmt::arg("resources", slurm_resources(fleet, fleet.host_partition)),
        fmt::arg("program", fleet.program),
        fmt::arg("words", shell_line(host_words(fleet, folder + "/published"))));
}

std::string slurm_peers(const Fleet& fleet) {
    const std::string folder = slurm_folder_of(fleet);
    return fmt::format(
        R"sh(#!/usr/bin/env bash
# The peers of the run, one a task of the array. Each has a folder, and so an identity, that
# outlives its machine.
#SBATCH --job-name={label}-peers
#SBATCH --array=0-{last}
#SBATCH --time={time}
#SBATCH --signal=TERM@{signal_s}
#SBATCH --output={folder}/peer-%a.log
{resources}
set -euo pipefail
umask 077
state={folder}/peer-$SLURM_ARRAY_TASK_ID
join={join}
mkdir -p "$state"
for try in 1 2 3 4 5 6 7 8 9 10; do
    status=3  # as when nobody of the run answers
    if [[ -s $join ]]; then
        status=0
        srun --ntasks=1 {program} join "@$join" --dir "$state" \
            --name "{label}-$SLURM_ARRAY_TASK_ID" {words} --quiet --json >"$state/end.json" ||
            status=$?
    fi
    [[ $status -eq 3 ]] || break
    echo "nobody of the run answers (try $try of 10)" >&2
    sleep "${{FLEET_WAIT_S:-60}}"
done
# The job was asked to leave before the run was over: its place waits for the next machine.
if [[ $status -eq 0 ]] && grep -Eq '"left": ?true' "$state/end.json"; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit "$status"
)sh",
        fmt::arg("label", label_of(fleet.name)),
        fmt::arg("last", fleet.peers - 1),
        fmt::arg("time", fleet.time),
        fmt::arg("signal_s", fleet.grace_s + signal_extra_s),
        fmt::arg("folder", folder),
        fmt::arg("resources", slurm_resources(fleet, fleet.partition)),
        fmt::arg("join", fleet.hosts() ? folder + "/host/join.txt" : "join.txt"),
        fmt::arg("program", fleet.program),
        fmt::arg("words", shell_line(peer_words(fleet))));
}

std::string slurm_start(const Fleet& fleet) {
    return fmt::format(R"sh(#!/usr/bin/env bash
# Queues the fleet; `scancel --name NAME` ends it: peers leave in order.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p {}
{}sbatch peers.sbatch
)sh",
                       slurm_folder_of(fleet),
                       fleet.hosts() ? "sbatch host.sbatch\n" : "");
}

}  // namespace

Result<std::vector<FleetText>> write_slurm(const Fleet& fleet) {
    using enum FleetText::Access;
    std::vector<FleetText> texts{{"peers.sbatch", slurm_peers(fleet), anybody},
                                 {"start.sh", slurm_start(fleet), runs}};
    if (fleet.hosts()) texts.push_back({"host.sbatch", slurm_host(fleet), anybody});
    return texts;
}

}  // namespace dedloc::fleet
