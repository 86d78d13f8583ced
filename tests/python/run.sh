#!/bin/bash
# Builds and tests the Python package, the C interface and a program outside the checkout.
#
#   tests/python/run.sh [--json] [--torch-2] [--in-place BUILD]
#
# In a fresh virtual environment with Debian's torch 1.13, or with PyPI's torch 2.x (--torch-2:
# gigabytes to fetch). --in-place: against a build folder's library, without compiling the package.
# --json: the last line is {"passed": …, "failed": …, …}.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
json= torch2= build=
while (($#)); do
    case $1 in
    --json) json=1 ;;
    --torch-2) torch2=1 ;;
    --in-place) build=$(realpath "$2"); shift ;;
    *) sed -n '2,9s/^# \?//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=/usr/bin/python3
begun=$SECONDS
if [[ $torch2 ]]; then
    $python -m venv "$folder/venv"
    "$folder/venv/bin/pip" install -q torch numpy
    python=$folder/venv/bin/python
elif [[ ! $build ]]; then
    $python -m venv --system-site-packages "$folder/venv"
    python=$folder/venv/bin/python
fi
if [[ $build ]]; then
    export PYTHONPATH=$root/python DEDLOC_LIBRARY=$build/src/dedloc/c_api/libdedloc.so
else
    "$python" -m pip install -q . >&2
    build=$root/build/python
    unset PYTHONPATH
fi
build_s=$((SECONDS - begun))
# With a C++ peer, where the examples have been built.
example=$root/build/release/bin/example_train_together
[[ -x $example ]] && export DEDLOC_EXAMPLE=$example
example=$root/build/release/bin/example_fashion_mnist
[[ -x $example ]] && export DEDLOC_FASHION_MNIST=$example
program=$root/build/release/bin/dedloc
[[ -x $program ]] && export DEDLOC_PROGRAM=$program
export DEDLOC_BUILD=$build
export OMP_NUM_THREADS=1
cd tests/python
log=$folder/log
status=0
"$python" -m unittest -v test_dedloc test_frameworks test_outside \
    test_fashion_mnist test_notebook test_interrupts test_changed_model \
    test_run_from_python test_loop test_web test_curves test_examples 2>&1 |
    tee "$log" >&2 || status=1
ran=$(sed -n 's/^Ran \([0-9]*\) tests\?.*/\1/p' "$log")
failed=$(sed -n 's/^FAILED.*\bfailures=\([0-9]*\).*/\1/p' "$log")
errors=$(sed -n 's/^FAILED.*\berrors=\([0-9]*\).*/\1/p' "$log")
skipped=$(sed -n 's/^\(FAILED\|OK\).*\bskipped=\([0-9]*\).*/\2/p' "$log")
bad=$((${failed:-0} + ${errors:-0}))
if [[ $json ]]; then
    torch=$("$python" -c 'import torch; print(torch.__version__)')
    printf '{"passed": %d, "failed": %d, "skipped": %d, "build_s": %d, "torch": "%s"}\n' \
        $((${ran:-0} - bad - ${skipped:-0})) "$bad" "${skipped:-0}" "$build_s" "$torch"
fi
exit $status
