# Sourced by demo.sh, test.sh and bench.sh: installs missing Debian packages, builds with progress.
#
#   install_missing PACKAGE...   quiet when everything is there
#   build PRESET TARGET... [-- configure options]
#   lenient PRESET               the configure option with which warnings stop no build

# A folder that was configured out here fits no other system. Without labels SELinux lets it read.
container='rm -rf build/release && podman run -it --network host --security-opt label=disable'
container+=' -v "$PWD":/d -w /d debian:12 ./demo.sh'
if [[ $(uname -s) != Linux ]]; then
    echo "dedloc runs on Linux only: on Windows in WSL2 with Debian, elsewhere in a virtual" \
        "machine or a container: $container" >&2
    exit 1
fi

is_debian_12() {
    grep -qx 'ID=debian' /etc/os-release 2>/dev/null &&
        grep -qx 'VERSION_ID="12"' /etc/os-release
}

# What is said where something is missing or fails.
say_elsewhere() {
    is_debian_12 || echo "tried on Debian 12; elsewhere a container: $container" >&2
}

needs_build=(g++ cmake ninja-build ccache mold python3 libasio-dev libssl-dev libfmt-dev
    libspdlog-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libhwy-dev zlib1g-dev
    libglpk-dev libtorch-dev libsentencepiece-dev libsodium-dev libminiupnpc-dev
    libnatpmp-dev)
# Vector AES (docs/decisions/0009), which Debian has for this architecture only.
[[ $(dpkg --print-architecture 2>/dev/null) != amd64 ]] || needs_build+=(libipsec-mb-dev)
needs_data=(dataset-fashion-mnist bible-kjv)
needs_test=(libgtest-dev iproute2 nftables)
# Other distributions have other versions, which format differently; the check is skipped there.
if is_debian_12 || apt-cache show clang-format-14 >/dev/null 2>&1; then
    needs_test+=(clang-format-14)
fi
# Without these some tests skip themselves. They conflict with miniupnpd-iptables.
wants_test=(miniupnpd miniupnpd-nftables)
needs_interop=(python3-torch python3-venv) # hivemind's (docs/interop.md)
needs_bench=(libbenchmark-dev libgloo-dev libhiredis-dev libibverbs-dev sentencepiece iperf3)

install_missing() {
    local missing=() package
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "no apt-get here: install what corresponds to: $*" >&2
        say_elsewhere
        return
    fi
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    ((${#missing[@]} == 0)) && return
    local as_root=()
    if [[ $EUID -ne 0 ]]; then
        if ! command -v sudo >/dev/null; then
            echo "these packages are missing, and there is no sudo: as root, run" >&2
            echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "installing ${#missing[@]} packages: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
            --no-remove --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        echo "apt-get failed; the whole log is in $log" >&2
        say_elsewhere
        exit 1
    fi
    rm -f "$log"
}

# Warnings stop those who work on dedloc, and nobody who only wants to run it: other compilers have
# others. A folder keeps what it was begun with, as changing it would compile everything once more.
lenient() {
    [[ -e build/$1/CMakeCache.txt ]] || echo -DDEDLOC_WERROR=OFF
}

# One line of progress on a terminal, a line now and then elsewhere; the errors when it fails.
build() {
    local preset=$1 log
    shift
    local targets=()
    while (($# > 0)) && [[ $1 != -- ]]; do
        targets+=(--target "$1")
        shift
    done
    (($# > 0)) && shift
    mkdir -p build
    log=build/$preset.log
    if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        say_elsewhere
        exit 1
    fi
    export NINJA_STATUS='[%f/%t, %es] '
    local status line shown=-1 percent
    set +e
    cmake --build --preset "$preset" "${targets[@]}" -j "$(build_jobs)" 2>&1 | tee -a "$log" |
        while IFS= read -r line; do
            [[ $line =~ ^\[([0-9]+)/([0-9]+),\ ([0-9]+) ]] || continue
            percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
            if [[ -t 1 ]]; then
                printf '\rbuilding: %d of %d files, %d s ' "${BASH_REMATCH[@]:1:3}"
            elif ((percent / 10 > shown)); then
                shown=$((percent / 10))
                echo "building: $percent %, ${BASH_REMATCH[3]} s"
            fi
        done
    status=${PIPESTATUS[0]}
    set -e
    [[ -t 1 ]] && printf '\r\033[K'
    if ((status != 0)); then
        # sed reads to the end, where head would end grep, and with it the script.
        { grep -E 'error|FAILED|fatal' -A 5 "$log" || true; } | sed -n 1,60p >&2
        echo "the build failed; the whole log is in $log" >&2
        say_why_it_failed "$preset" "$log"
        exit 1
    fi
}

say_why_it_failed() {
    if grep -q 'Killed signal' "$2"; then
        echo "the system ended a compiler because memory did not suffice: add swap, or build on" \
            "another machine of the same system and copy build/$1/bin" >&2
    elif grep -q '\[-Werror' "$2"; then
        echo "a warning stopped it; cmake --preset $1 -DDEDLOC_WERROR=OFF, and once more, builds" \
            "all the same" >&2
    else
        say_elsewhere
    fi
}

# libtorch's headers need 1.5 GiB a compiler.
build_jobs() {
    local cores memory_gib jobs
    cores=$(nproc)
    memory_gib=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
    jobs=$((memory_gib * 2 / 3))
    ((jobs < 1)) && jobs=1
    ((jobs > cores)) && jobs=$cores
    echo "$jobs"
}
