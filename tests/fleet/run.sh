#!/usr/bin/env bash
# Checks what `dedloc fleet` writes: manifests by Kubernetes' published schemas, which PyPI's
# kubernetes-validate brings, and every script by Debian's shellcheck.
#
#   tests/fleet/run.sh [--json]
#
# --json: the last line is {"passed": …, "failed": …}. Exit status: 0, 1; 77 where PyPI cannot be
# reached.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/needs.sh
install_missing shellcheck python3-yaml python3-venv >&2
if [[ -z ${DEDLOC:-} ]]; then
    build release dedloc >&2
    export DEDLOC=$PWD/build/release/bin/dedloc
fi
venv=build/fleet-venv
if ! "$venv/bin/python" -c 'import kubernetes_validate' 2>/dev/null; then
    /usr/bin/python3 -m venv "$venv"
    if ! "$venv/bin/pip" install -q --disable-pip-version-check --timeout 10 --retries 1 \
        kubernetes-validate==1.37.0 >&2; then
        echo "kubernetes-validate cannot be had from PyPI" >&2
        exit 77
    fi
fi
PYTHONDONTWRITEBYTECODE=1 exec "$venv/bin/python" tests/fleet/check_written.py "$@"
