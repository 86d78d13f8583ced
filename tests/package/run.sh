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
source tools/needs.sh
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
source tests/package/beside.sh
if [[ -z $packages ]]; then
    packages=$share/packages
    install_missing "${needs_release[@]}" >&2
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
begin_host packaging/run.toml
try_in_root /share/inside.sh 1500
end_with_counts
