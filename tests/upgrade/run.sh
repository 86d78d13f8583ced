#!/usr/bin/env bash
# Peers of an older commit and of this one train in one run: equal hashes for 50 steps, whoever
# hosts. A peer of other numerics is refused in one sentence that names both.
#
#   tests/upgrade/run.sh [--json] [COMMIT]     COMMIT: the older one (default: the last one before
#                                              versions were made to work together)
#
# The older programs are built, and kept, in DEDLOC_UPGRADE (/var/tmp/dedloc-upgrade): some ten
# minutes of a core, or one where ccache has most of it. This commit's are build/release/bin's.
# --json: the last line is {"passed": …, "failed": …}. Exit status: 0, or 1 if one failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/needs.sh
json=() commit=08717bed
for word in "$@"; do
    case $word in
    --json) json=(--json) ;;
    -*) sed -n '2,10s/^# \?//p' "$0" >&2; exit 2 ;;
    *) commit=$word ;;
    esac
done
checkout=$PWD
folder=${DEDLOC_UPGRADE:-/var/tmp/dedloc-upgrade}
commit=$(git rev-parse --verify "$commit^{commit}")
sources=$folder/$commit

# At this checkout's own path, where that can be had: ccache knows what was compiled there.
in_older() {
    if ((EUID == 0)) && unshare --mount true 2>/dev/null; then
        unshare --mount --propagation private bash -c \
            'mount --bind "$0" "$1" && cd "$1" && shift && exec "$@"' "$sources" "$checkout" "$@"
    else
        (cd "$sources" && "$@")
    fi
}

build_older() { # NAME: what the programs are called here
    # The older commit has its own list of packages: it links what this one does without.
    in_older bash -c 'source tools/needs.sh && install_missing "${needs_build[@]}" &&
        cmake --preset release -DDEDLOC_TESTS=OFF &&
        cmake --build --preset release --target dedloc -j "$0"' "$(build_jobs)" \
        >"$folder/$1.log" 2>&1 || {
        tail -n 30 "$folder/$1.log" >&2
        echo "commit $commit cannot be built here; the whole log is in $folder/$1.log" >&2
        exit 1
    }
    rm -rf "${folder:?}/$commit.$1"
    mkdir -p "$folder/$commit.$1"
    cp "$sources"/build/release/bin/dedloc{,-trainer} "$folder/$commit.$1/" 2>/dev/null ||
        cp "$sources/build/release/bin/dedloc" "$folder/$commit.$1/" # one program was both
}

mkdir -p "$folder"
exec 8>"$folder/lock"
flock -w 900 8 || { echo "another run has $folder" >&2; exit 1; }
if [[ ! -x $folder/$commit.other/dedloc ]]; then
    rm -rf "$sources"
    git clone -q "$checkout" "$sources"
    git -C "$sources" checkout -q --detach "$commit"
    echo "building $(git log -1 --format='%h, %s' "$commit")" >&2
    # Two files of one batch have the same name there, for two things.
    sed -i 's/last_words(/words_at_the_end(/' "$sources/src/dedloc/peer/checkpoint_hook.cpp"
    build_older before
    # The same with other numerics, as far as a peer can see.
    sed -i 's/ numerics = numerics_version;/ numerics = numerics_version + 1;/' \
        "$sources/src/dedloc/run/run_file.cpp"
    build_older other
    rm -rf "$sources"
fi
build release dedloc >&2
export DEDLOC_BEFORE=$folder/$commit.before/dedloc DEDLOC_OTHER=$folder/$commit.other/dedloc
export DEDLOC=$checkout/build/release/bin/dedloc
exec python3 tests/upgrade/test_upgrade.py "${json[@]}" 8>&-
