#!/usr/bin/env bash
# Makes Debian packages of build/release and tries them in a bare Debian 12: a peer from them trains
# beside a host out here, examples build with what is installed, removal leaves nothing.
#
#   tests/package/run.sh [--json] [PACKAGES]     twenty minutes at most; needs root
#
# PACKAGES: a folder of packages that are there already. --json: the last line is {"passed": …,
# "failed": …}. Exit status: 0, or 1 if one failed; 77 where no bare root can be made.
set -euo pipefail
cd "$(dirname "$0")/../.."
json= packages=
for word in "$@"; do
    case $word in
    --json) json=1 ;;
    -*) sed -n '2,9s/^# \?//p' "$0" >&2; exit 2 ;;
    *) packages=$(realpath "$word") ;;
    esac
done
tools/bare_root.sh --check
share=$(mktemp -d)
host=
end() {
    [[ -z $host ]] || kill "$host" 2>/dev/null || true
    rm -rf "$share"
}
trap end EXIT
if [[ -z $packages ]]; then
    packages=$share/packages
    cmake --build build/release --target dedloc dedloc_shared >"$share/build.log" || {
        tail -n 20 "$share/build.log" >&2
        exit 1
    }
    cpack --config build/release/CPackConfig.cmake -B "$packages" >"$share/cpack.log" || {
        tail -n 20 "$share/cpack.log" >&2
        exit 1
    }
    rm -rf "$packages/_CPack_Packages"
fi
[[ $packages == "$share/packages" ]] || cp -r "$packages" "$share/packages"
cp tests/package/inside.sh packaging/run.toml "$share/"
build/release/bin/dedloc host packaging/run.toml --dir "$share/host" --listen 127.0.0.1:0 --plain \
    --threads 1 >"$share/host.log" 2>&1 &
host=$!
for _ in $(seq 300); do
    [[ -s $share/host/join.txt ]] && break
    sleep 0.1
done
SHARE=$share LIMIT=${LIMIT:-1500} tools/bare_root.sh bash /share/inside.sh >&2 || true
failed=$(grep -c ^failed "$share/results" || true)
passed=$(grep -c ^passed "$share/results" || true)
grep -qx 'passed  the end' "$share/results" || failed=$((failed + 1))
[[ -z $json ]] || echo "{\"passed\": $passed, \"failed\": $failed}"
((failed == 0))
