#!/usr/bin/env bash
# A whole collaboration on this machine: installs what it needs, builds only what it needs, runs
# `dedloc demo` (arguments are passed on: --json, --plain, --keep, …).
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")"
source tools/needs.sh
install_missing "${needs_build[@]}" "${needs_data[@]}"
build release dedloc -- without_tests lenient
start_in "$caller" build/release/bin/dedloc demo "$@"
