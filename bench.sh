#!/usr/bin/env bash
# Installs what the benchmarks need, builds them, runs bench/run.py.
#   ./bench.sh                 all
#   ./bench.sh --json solo     one JSON object a measure
set -euo pipefail
cd "$(dirname "$0")"
source tools/needs.sh
install_missing "${needs_build[@]}" "${needs_data[@]}" "${needs_bench[@]}"
# Progress goes to standard error: standard output belongs to the measures.
build bench all >&2
exec python3 bench/run.py --bin build/bench/bin "$@"
