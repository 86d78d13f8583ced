#!/usr/bin/env bash
# Builds all of a release once more, in a clone that lies at this checkout's path, without ccache:
# the files have the bytes of build/dist's, which tools/release.sh made.
#
#   tests/package/same_bytes.sh [--json]     an hour or two of a core; needs root (to mount)
#
# --json: the last line is {"passed": …, "failed": …}, of files. Exit status: 0, or 1 if one
# differs.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/needs.sh
json=
case ${1:-} in
--json) json=1 ;;
'') ;;
*) sed -n '2,8s/^# \?//p' "$0" >&2; exit 2 ;;
esac
[[ -s build/dist/SHA256SUMS ]] || { echo "tools/release.sh --trial first" >&2; exit 1; }
git diff-index --quiet HEAD -- || { echo "commit your changes first" >&2; exit 1; }
python=$(python_with_pytorch)
folder=$(mktemp -d /var/tmp/dedloc-again.XXXXXX)
trap 'rm -rf "$folder"' EXIT
git clone -q . "$folder"
git -C "$folder" checkout -q --detach "$(git rev-parse HEAD)"
# The clone gets the tools and the PyTorch of this checkout's build/.
CCACHE_DISABLE=1 PYTHON=$python unshare --mount --propagation private bash -ec '
    for kept in pytorch release-tools; do
        [ -d "build/$kept" ] || continue
        mkdir -p "$0/build/$kept"
        mount --bind "build/$kept" "$0/build/$kept"
    done
    checkout=$PWD
    mount --rbind "$0" "$checkout"
    cd "$checkout"
    tools/release.sh --trial >build/release.out' "$folder" >&2
passed=0 failed=0
while read -r sum name; do
    if grep -qx "$sum  $name" "$folder/build/dist/SHA256SUMS"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "differs: $name" >&2
    fi
done <build/dist/SHA256SUMS
[[ -z $json ]] || echo "{\"passed\": $passed, \"failed\": $failed}"
((failed == 0 && passed > 0))
