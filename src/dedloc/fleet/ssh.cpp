// Machines that are reached by ssh: fleet.sh, on the machine of who starts the fleet, and
// machine.sh, which it copies to each of them. `fleet.sh start` starts what does not run, so that
// cron refills a fleet with it; the first machine hosts.

#include <fmt/format.h>

#include "dedloc/fleet/fleet_writer.h"
#include "dedloc/fleet/script_words.h"

namespace dedloc::fleet {
namespace {

std::string ssh_folder_of(const Fleet& fleet) {
    return fleet.folder.empty() ? "dedloc-" + label_of(fleet.name) : fleet.folder;
}

std::string machine_script(const Fleet& fleet) {
    return fmt::format(
        R"sh(#!/bin/sh
# fleet.sh runs this script on each machine: host, join (the join string comes on standard input),
# stop or status. The machine's files lie beside it.
set -eu
umask 077
cd "$(dirname "$0")"

runs() {{
    [ -s peer.pid ] && kill -0 "$(cat peer.pid)" 2>/dev/null
}}

begin() {{
    nohup setsid {program} "$@" --plain </dev/null >>peer.log 2>&1 &
    echo $! >peer.pid
}}

case $1 in
host)
    if runs; then exit 0; fi
    if ls state/checkpoints/*/checkpoint.json >/dev/null 2>&1; then
        begin host --resume state {host_words}
    else
        begin host run.toml --dir state {host_words}
    fi
    ;;
join)
    cat >join.txt
    if runs; then exit 0; fi
    begin join @join.txt --dir state {peer_words}
    ;;
stop)
    if ! runs; then exit 0; fi
    kill -TERM "$(cat peer.pid)"
    left={grace_s}
    while runs && [ "$left" -gt 0 ]; do
        sleep 1
        left=$((left - 1))
    done
    if runs; then echo "it still runs after {grace_s} s" >&2; exit 1; fi
    ;;
status)
    if runs; then echo runs; else echo "does not run"; fi
    ;;
esac
)sh",
        fmt::arg("program", fleet.program),
        fmt::arg("host_words", shell_line(host_words(fleet, "published"))),
        fmt::arg("peer_words", shell_line(peer_words(fleet))),
        fmt::arg("grace_s", fleet.grace_s));
}

std::string start_lines(const Fleet& fleet) {
    if (!fleet.hosts()) return "    join=$(cat join.txt)\n";
    return R"sh(    put "${machines[0]}" run.toml
    on "${machines[0]}" host </dev/null
    join=
    for try in $(seq 1 60); do
        join=$(remote "${machines[0]}" "cat $folder/state/join.txt" </dev/null 2>/dev/null) || true
        [[ -z $join ]] || break
        [[ $try -lt 60 ]] || { echo "the host gave no join string" >&2; exit 1; }
        sleep "${FLEET_WAIT_S:-2}"
    done
)sh";
}

std::string fleet_script(const Fleet& fleet, const std::vector<std::string>& machines) {
    return fmt::format(
        R"sh(#!/usr/bin/env bash
# The fleet by ssh, without passwords: start (what does not run), stop (in order), status.
set -euo pipefail
cd "$(dirname "$0")"
machines=({machines})
folder={folder}

remote() {{
    ssh -o BatchMode=yes -o ConnectTimeout=15 "$1" "$2"
}}
on() {{
    remote "$1" "sh $folder/machine.sh $2"
}}
put() {{
    remote "$1" "umask 077; mkdir -p $folder && cat >$folder/$2" <"$2"
}}
# Runs function $2 for the machines from number $1 on, all at once; fails if one of them does.
each() {{
    local machine failed=0 pids=()
    for machine in "${{machines[@]:$1}}"; do
        "$2" "$machine" & pids+=("$!")
    done
    for machine in "${{pids[@]}}"; do wait "$machine" || failed=1; done
    return "$failed"
}}

copy_script() {{ put "$1" machine.sh; }}
join_one() {{ on "$1" join <<<"$join"; }}
stop_one() {{ on "$1" stop </dev/null; }}
say_status() {{ echo "$1: $(on "$1" status </dev/null)"; }}

case ${{1:-}} in
start)
    each 0 copy_script
{start}    each {first_peer} join_one
    ;;
stop)
    each {first_peer} stop_one
{stop_host}    ;;
status) each 0 say_status ;;
*)
    echo "usage: $0 start | stop | status" >&2
    exit 2
    ;;
esac
)sh",
        fmt::arg("machines", shell_line(machines)),
        fmt::arg("folder", ssh_folder_of(fleet)),
        fmt::arg("start", start_lines(fleet)),
        fmt::arg("first_peer", fleet.hosts() ? 1 : 0),
        fmt::arg("stop_host", fleet.hosts() ? "    stop_one \"${machines[0]}\"\n" : ""));
}

}  // namespace

Result<std::vector<FleetText>> write_ssh(const Fleet& fleet) {
    const std::vector<std::string> machines = machines_of(fleet);
    if (machines.empty())
        return make_error(ErrorKind::bad_input,
                          "name the machines: --machines one.example.org,two.example.org");
    using enum FleetText::Access;
    return std::vector<FleetText>{{"machine.sh", machine_script(fleet), runs},
                                  {"fleet.sh", fleet_script(fleet, machines), runs}};
}

}  // namespace dedloc::fleet
