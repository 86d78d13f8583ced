#!/usr/bin/env bash
# Installs what the tests need, builds everything, runs the tests. Arguments go to ctest:
#   ./test.sh -L unit        only the modules' unit tests
#   ./test.sh -R round       only tests whose name has "round"
#   ./test.sh -L interop     beside js-libp2p, go-libp2p and hivemind, from their registries; only
#                            when asked for (.ci/run asks by itself)
set -euo pipefail
cd "$(dirname "$0")"
source tools/needs.sh
install_missing "${needs_build[@]}" "${needs_data[@]}" "${needs_test[@]}"
# In a shell of its own, as it exits where it cannot.
(install_missing "${wants_test[@]}") || echo "without ${wants_test[*]} some tests are skipped"
build release all -- -DDEDLOC_TESTS=ON
[[ $# -gt 0 ]] || set -- -LE interop
results=$PWD/build/release/test-results.xml
rm -f "$results"
status=0
# No test that is called so is no success.
ctest --test-dir build/release -j "${DEDLOC_JOBS:-$(cores_left)}" --output-on-failure \
    --timeout 900 --no-tests=error --output-junit "$results" "$@" || status=$?
python3 tools/skipped_tests.py "$results" || true
exit "$status"
