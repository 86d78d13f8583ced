#!/usr/bin/env bash
# dedloc for a machine that does not train: installs what it needs, builds build/core/bin/dedloc
# without libtorch, and runs it.
#
#   ./core.sh assist STRING    lends a run this machine's line
#   ./core.sh watch STRING     the live view of a run
#   ./core.sh relay            a public machine for peers that nobody can dial
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")"
source tools/needs.sh
needs=()
for package in "${needs_build[@]}"; do
    [[ $package == libtorch-dev ]] || needs+=("$package")
done
install_missing "${needs[@]}"
build core dedloc -- without_tests lenient
if (($# == 0)); then
    echo "build/core/bin/dedloc is ready: ./core.sh assist STRING"
else
    start_in "$caller" build/core/bin/dedloc "$@"
fi
