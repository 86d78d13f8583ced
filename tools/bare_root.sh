#!/usr/bin/env bash
# Runs a command on a clean clone inside a bare Debian 12: what a new machine says. A package that
# was installed by hand here hides nothing there. Needs root, some 5 GB of disk and Debian's mirror.
#
#   tools/bare_root.sh ./test.sh             the tests, as on a machine that has nothing yet
#   tools/bare_root.sh bash -c './demo.sh --json && ./test.sh -L unit'
#   tools/bare_root.sh --check               77 and a sentence where this machine cannot do it
#
# Only committed files are seen. The clone lies at this checkout's own path, and ccache's folder is
# shared, so that what was compiled here is not compiled again there. Kept between two runs: the
# bare system as a tar file, packages that were fetched, ccache's objects.
#   DEDLOC_BARE   the folder for all of that (default: /var/tmp/dedloc-bare), one run at a time
#   SHARE         a folder that is /share there
#   SUITE         another Debian than bookworm, such as trixie: for what is to run elsewhere, too
#   LIMIT         seconds after which it ends by itself (default: 5400)
# Exit status: the command's.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/needs.sh
checkout=$PWD
folder=${DEDLOC_BARE:-/var/tmp/dedloc-bare}
suite=${SUITE:-bookworm}
root=$folder/root system=$folder/bare-$suite.tar archives=$folder/archives-$suite
cache=$(ccache --get-config cache_dir 2>/dev/null || echo "$folder/ccache")

cannot() {
    echo "no bare root here: $1" >&2
    exit 77
}

check() {
    [[ $EUID -eq 0 ]] || cannot "it takes root"
    is_debian_12 || cannot "it is made from the package sources of a Debian 12, and this is none"
    unshare --mount --pid --fork true 2>/dev/null || cannot "mount namespaces are not allowed"
}

# The bare system is fetched once: debootstrap takes a minute.
make_system() {
    [[ ! -s $system ]] || return 0
    install_missing debootstrap
    local mirror
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
    rm -rf "$root"
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" \
        >"$folder/debootstrap.log" 2>&1 || {
        tail -n 5 "$folder/debootstrap.log" >&2
        cannot "debootstrap failed"
    }
    rm -rf "$root"/var/cache/apt/archives/*.deb
    tar -C "$root" -cf "$system.part" .
    mv "$system.part" "$system"
}

# The root gets this machine's sources of packages, and nothing else of it.
copy_settings() {
    local path
    for path in etc/apt/sources.list etc/apt/sources.list.d etc/apt/apt.conf.d etc/apt/auth.conf.d \
        etc/resolv.conf etc/hosts etc/ssl/certs etc/pip.conf; do
        [[ -e /$path ]] || continue
        rm -rf "${root:?}/$path"
        mkdir -p "$root/$(dirname "$path")"
        cp -rL "/$path" "$root/$path" 2>/dev/null || true
    done
    find "$root/etc/apt" -name '*.list' -o -name '*.sources' | xargs -r sed -i "s/bookworm/$suite/g"
    # A container's image throws fetched packages away; here they serve the next run.
    rm -f "$root/etc/apt/apt.conf.d/docker-clean"
}

make_root() {
    rm -rf "$root"
    mkdir -p "$root" "$archives/partial" "$cache"
    tar -C "$root" -xf "$system"
    copy_settings
    mkdir -p "$root$checkout" "$root/var/cache/apt/archives" "$root/ccache" "$root/dev/shm"
    mkdir -p "$root/share"
    git clone -q "$checkout" "$root$checkout"
    local device
    for device in null zero random urandom full tty; do
        [[ -e $root/dev/$device ]] || cp -a "/dev/$device" "$root/dev/"
    done
    ln -sfn /proc/self/fd "$root/dev/fd"
}

# Mounts vanish with the namespace. Cleaning up needs no list of them.
enter='
set -e
root=$1 archives=$2 cache=$3 checkout=$4 share=$5
shift 5
mount --bind "$root" "$root"
mount --bind "$archives" "$root/var/cache/apt/archives"
mount --bind "$cache" "$root/ccache"
[ -z "$share" ] || mount --bind "$share" "$root/share"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -sf pts/ptmx "$root/dev/ptmx"
exec chroot "$root" bash -c "cd \"\$0\" && exec \"\$@\"" "$checkout" "$@"
'

# Proxies and the addresses of package registries are part of this machine's network.
run_inside() {
    local network
    network=$(env | grep -iE '^(https?|no)_proxy=|^(PIP|NPM|GOPROXY|CARGO)[A-Z_]*=' || true)
    local environment=()
    [[ -z $network ]] || mapfile -t environment <<<"$network"
    timeout --kill-after=10 "${LIMIT:-5400}" env -i HOME=/root LANG=C.UTF-8 CCACHE_DIR=/ccache \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${DEDLOC_JOBS:+DEDLOC_JOBS="$DEDLOC_JOBS"} "${environment[@]}" \
        unshare --mount --pid --fork --kill-child --propagation private \
        bash -c "$enter" enter "$root" "$archives" "$cache" "$checkout" "${SHARE:-}" "$@" 8>&-
}

check
[[ ${1:-} != --check ]] || exit 0
if (($# == 0)); then
    echo "say what to run there: tools/bare_root.sh ./test.sh" >&2
    exit 2
fi
mkdir -p "$folder"
exec 8>"$folder/lock"
flock -w 600 8 || cannot "another run has $folder"
make_system
make_root
began=$SECONDS status=0
run_inside "$@" || status=$?
((status == 0)) || echo "bare root: '$*' ended with $status after $((SECONDS - began)) s" >&2
rm -rf "${root:?}"
exit "$status"
