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
host=
end() {
    [[ -z $host ]] || kill "$host" 2>/dev/null || true
    rm -rf "$share"
}
trap end EXIT
mkdir "$share/dist"
cp "$dist"/dedloc-*-linux-x86_64.tar.gz "$share/dist/"
cp -r /usr/share/datasets/fashion-mnist "$share/fashion-mnist"
cp -al "$packages" "$share/site-packages" 2>/dev/null || {
    rm -rf "$share/site-packages"
    cp -a "$packages" "$share/site-packages"
}
cat >"$share/run.toml" <<'RUN'
name = "archive-test"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 512
micro = 16
[schedule]
peak = 0.01
[evaluate]
every = 0
[checkpoint]
every = 0
RUN
build/release/bin/dedloc host "$share/run.toml" --dir "$share/host" --listen 127.0.0.1:0 --plain \
    --threads 1 >"$share/host.log" 2>&1 &
host=$!
for _ in $(seq 300); do
    [[ -s $share/host/join.txt ]] && break
    sleep 0.1
done
passed=0 failed=0
for suite in bookworm trixie; do
    SUITE=$suite SHARE=$share LIMIT=${LIMIT:-240} tools/bare_root.sh bash \
        tests/package/archive_inside.sh >&2 || true
    failed=$((failed + $(grep -c ^failed "$share/results" || true)))
    passed=$((passed + $(grep -c ^passed "$share/results" || true)))
    grep -qx 'passed  the end' "$share/results" || failed=$((failed + 1))
    rm -f "$share/results"
done
[[ -z $json ]] || echo "{\"passed\": $passed, \"failed\": $failed}"
((failed == 0))
