#!/usr/bin/env bash
# Installs the wheel into a fresh venv with PyPI's PyTorch, and unpacks the archive: peers from both
# train beside a host of build/release.
#
#   tests/package/wheel.sh [--json] [FOLDER]     FOLDER: with both (default: build/dist)
#
# PYTHON: one that has the PyTorch that the wheel is for; else one is installed into build/pytorch
# (3 GB to fetch). Exit status: 0, or 1 if one failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/needs.sh
json=() folder=build/dist
for word in "$@"; do
    case $word in
    --json) json=(--json) ;;
    -*) sed -n '2,8s/^# \?//p' "$0" >&2; exit 2 ;;
    *) folder=$word ;;
    esac
done
install_missing dataset-fashion-mnist python3-venv >&2
python=$(python_with_pytorch)
DEDLOC=$PWD/build/release/bin/dedloc DEDLOC_DIST=$(realpath "$folder") \
    DEDLOC_TEST_TORCH=$(realpath -s "$python") exec python3 tests/package/test_wheel.py "${json[@]}"
