#!/usr/bin/env bash
# A fuzzing campaign: every target under the address and undefined sanitizers, from its corpus on.
#   tests/fuzz/run.sh                      a minute each
#   tests/fuzz/run.sh --minutes 30         so long each, of processor time (fractions too)
#   tests/fuzz/run.sh --minutes 30 --executions 10000000      whichever comes first
#   tests/fuzz/run.sh --only yamux         only targets with that in their name
#   tests/fuzz/run.sh --jobs 4             so many side by side (default: one a core)
#   tests/fuzz/run.sh --json               the last line is one object: targets, findings, …
#
# A run's findings lie in build/fuzz/findings/TARGET. Once it is mended, the input that showed it
# goes to tests/corpus, which every build replays as a test. New inputs that reach new code are kept
# in build/fuzz/corpus, so that campaigns go on where the last one ended.
# (Each source is compiled alone here, so that a target holds only what it needs: libFuzzer looks at
# every place of the program after each input.)
# Needs Debian's clang-14 and libclang-rt-14-dev, which it installs; where there is no apt-get
# and they are missing: exit status 77, and it says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ -z ${DEDLOC_FUZZ_BIN:-} ]]; then
    source tools/needs.sh
    install_missing "${needs_build[@]}" clang-14 libclang-rt-14-dev >&2
    # Without the file, clang answers with its bare name.
    runtime=$(clang++-14 -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a 2>/dev/null || true)
    if [[ ! -e $runtime ]]; then
        echo "no fuzzing here: clang-14 with libclang-rt-14-dev cannot be had" >&2
        exit 77
    fi
    build fuzz all >&2
    export DEDLOC_FUZZ_BIN=$PWD/build/fuzz/bin
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 tests/fuzz/run.py "$@"
