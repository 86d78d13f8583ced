#!/usr/bin/env bash
# Unpacks the archive in bare roots of other systems, where nothing but it is installed: a peer from
# it, with PyPI's libtorch, trains a classifier beside a host out here.
#
#   tests/package/archive.sh [--json] [FOLDER]     FOLDER: with the archive (default: build/dist)
#
# The systems: Debian 12 (of those that can be had here, the one with the oldest glibc) and Debian
# 13, whose libraries are all others. PYTHON: one that has the PyTorch that the archive is for; else
# one is installed into build/pytorch. --json: the last line is {"passed": …, "failed": …}. Exit
# status: 0, or 1 if one failed; 77 where no bare root can be made.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/needs.sh
json= dist=build/dist
for word in "$@"; do
    case $word in
    --json) json=1 ;;
    -*) sed -n '2,10s/^# \?//p' "$0" >&2; exit 2 ;;
    *) dist=$word ;;
    esac
done
tools/bare_root.sh --check
install_missing dataset-fashion-mnist >&2
python=$(python_with_pytorch)
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
share=$(mktemp -d "$PWD/build/archive.XXXXXX") # where build/pytorch can be linked to
source tests/package/beside.sh
mkdir "$share/dist"
cp "$dist"/dedloc-*-linux-x86_64.tar.gz "$share/dist/"
cp -r /usr/share/datasets/fashion-mnist "$share/fashion-mnist"
cp -al "$packages" "$share/site-packages" 2>/dev/null || {
    rm -rf "$share/site-packages"
    cp -a "$packages" "$share/site-packages"
}
cp tests/package/classifier.toml "$share/run.toml"
begin_host "$share/run.toml"
for suite in bookworm trixie; do
    SUITE=$suite try_in_root tests/package/archive_inside.sh 240
done
end_with_counts
