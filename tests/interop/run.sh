#!/usr/bin/env bash
# dedloc beside other people's programs: js-libp2p, go-libp2p, hivemind. docs/interop.md
#   tests/interop/run.sh                      everything; a partner that cannot be had is skipped
#   tests/interop/run.sh --partner go         only that one
#   tests/interop/run.sh --only streams       only cases with that in their name
#   tests/interop/run.sh --json               the last line is one object: passed, failed, skipped
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ -z ${DEDLOC_PEER:-} ]]; then
    source tools/needs.sh
    install_missing "${needs_build[@]}" "${needs_test[@]}" "${needs_interop[@]}"
    build release dedloc_interop_peer -- -DDEDLOC_TESTS=ON
    export DEDLOC_PEER=$PWD/build/release/bin/dedloc_interop_peer
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 tests/interop/run.py "$@"
