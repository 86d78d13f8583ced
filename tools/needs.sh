# Sourced by demo.sh, test.sh and bench.sh: installs missing Debian packages, builds with progress.
#
#   install_missing PACKAGE...   quiet when everything is there
#   build PRESET TARGET... [-- configure options, and functions that print some for the preset]
#   lenient, without_tests       such functions
#   start_in FOLDER PROGRAM ARGUMENT...   becomes the program, as if it had been called there
#   python_with_pytorch          prints a Python that has the PyTorch of the wheel, made if need be
#   build_jobs, cores_left       how much at once, inside the limits of a container
#   DEDLOC_JOBS=2 ./demo.sh      the user's word for that

# A folder that was configured out here fits no other system. Without labels SELinux lets it read.
container='rm -rf build/release && podman run -it --network host --security-opt label=disable'
container+=' -v "$PWD":/d -w /d debian:12 ./demo.sh'
if [[ $(uname -s) != Linux ]]; then
    echo "dedloc runs on Linux only: on Windows in WSL2 with Debian, elsewhere in a virtual" \
        "machine or a container: $container" >&2
    exit 1
fi

if [[ ! ${DEDLOC_JOBS:-1} =~ ^[1-9][0-9]*$ ]]; then
    echo "DEDLOC_JOBS is \"$DEDLOC_JOBS\": it is how many compilers run at once, 1 or more" >&2
    exit 1
fi

# The PyTorch whose libtorch the wheel and the archive are built with, and then run with.
pytorch='torch==2.15.*'

is_debian_12() {
    grep -qx 'ID=debian' /etc/os-release 2>/dev/null &&
        grep -qx 'VERSION_ID="12"' /etc/os-release
}

# Prints this where something is missing or fails.
say_elsewhere() {
    is_debian_12 || echo "tried on Debian 12; elsewhere a container: $container" >&2
}

needs_build=(g++ cmake ninja-build ccache mold python3 libasio-dev libssl-dev libfmt-dev
    libspdlog-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libhwy-dev zlib1g-dev
    libtorch-dev libsentencepiece-dev libsodium-dev libutf8proc-dev libminiupnpc-dev
    libnatpmp-dev libcpp-httplib-dev libjpeg-dev libpng-dev
    libharfbuzz-dev libfreetype-dev)
# Vector AES (docs/decisions/0009), which Debian has for this architecture only.
[[ $(dpkg --print-architecture 2>/dev/null) != amd64 ]] || needs_build+=(libipsec-mb-dev)
needs_data=(dataset-fashion-mnist bible-kjv fonts-noto-color-emoji unicode-cldr-core unicode-data)
needs_test=(libgtest-dev libglpk-dev iproute2 nftables python3-yaml)
# Other distributions have other versions, which format differently; the check is skipped there.
if is_debian_12 || apt-cache show clang-format-14 >/dev/null 2>&1; then
    needs_test+=(clang-format-14)
fi
# Without these some tests skip themselves. The first two conflict with miniupnpd-iptables.
wants_test=(miniupnpd miniupnpd-nftables prometheus)
# Packages and venvs are made with these (tools/release.sh, tests/package).
needs_release=(dpkg-dev file binutils python3-venv)
needs_interop=(python3-torch python3-venv) # hivemind's (docs/interop.md)
needs_bench=(libbenchmark-dev libgloo-dev libhiredis-dev libibverbs-dev sentencepiece iperf3
    python3-torch python3-numpy python3-venv libopenblas0-pthread)

install_missing() {
    local missing=() package
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "no apt-get here: install what corresponds to: $*" >&2
        say_elsewhere
        return
    fi
    for package in "$@"; do
        # A line for each architecture that has it.
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
            grep -x installed >/dev/null || missing+=("$package")
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
    local log apt=("${as_root[@]}" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive apt-get)
    log=$(mktemp)
    update_lists "$log"
    if ! "${apt[@]}" install -q -y -o DPkg::Lock::Timeout=600 --no-remove \
        --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
        tail -n 30 "$log" >&2
        echo "apt-get failed; the whole log is in $log" >&2
        say_elsewhere
        exit 1
    fi
    rm -f "$log"
}

# With install_missing's `apt`. A system that has just started updates its lists itself, and apt-get
# waits for no other's. A source that cannot be reached need not be one of those that count.
update_lists() {
    local tries=0
    until "${apt[@]}" update -q >"$1" 2>&1; do
        if ! grep -q 'Could not get lock' "$1" || ((++tries == 60)); then
            echo "apt-get update failed ($(tail -n 1 "$1"));" \
                "trying with the lists that are here" >&2
            return
        fi
        ((tries > 1)) || echo "another apt-get updates the lists; waiting for it"
        sleep 10
    done
}

# Warnings stop those who work on dedloc, and nobody who only wants to run it: other compilers have
# others. A folder keeps what it was begun with, as changing it would compile everything once more.
lenient() {
    [[ -e build/$1/CMakeCache.txt ]] || echo -DDEDLOC_WERROR=OFF
}

# Running dedloc needs no tests. But a folder that has them keeps them: ctest may be at work
# in it.
without_tests() {
    grep -qx 'DEDLOC_TESTS:BOOL=ON' "build/$1/CMakeCache.txt" 2>/dev/null ||
        echo -DDEDLOC_TESTS=OFF
}

# Prints PYTHON, or the Python of build/pytorch, which is made first if need be (3 GB to fetch).
python_with_pytorch() {
    if [[ -n ${PYTHON:-} ]]; then
        echo "$PYTHON"
        return
    fi
    if [[ ! -x build/pytorch/bin/python3 ]]; then
        install_missing python3-venv >&2
        python3 -m venv build/pytorch.part &&
            build/pytorch.part/bin/pip install --quiet --disable-pip-version-check "$pytorch" \
                numpy >&2 &&
            mv build/pytorch.part build/pytorch || return
    fi
    echo build/pytorch/bin/python3
}

# One after the other. What this starts keeps the lock: a ninja that outlives a script that was
# killed still writes there. Whoever runs what was built no longer has it.
build() {
    mkdir -p build
    need_own_folder "$1"
    {
        take_turn
        build_alone "$@"
    } 9>build/.lock
}

# Where nothing can be locked, all goes on as if nobody else were there.
take_turn() {
    command -v flock >/dev/null || return 0
    ! flock -n 9 || return 0
    echo "another script builds in $PWD/build; waiting for it" >&2
    flock 9 || true
}

need_own_folder() {
    local path
    for path in build build/.lock "build/$1.log" "build/$1"{,/CMakeCache.txt,/.ninja_log}; do
        if [[ -e $path && ! -w $path ]]; then
            echo "$path cannot be written: build/ belongs to another user:" \
                "sudo chown -R $(id -un) build" >&2
            exit 1
        fi
    done
}

# Without a place for its cache, as without a home that can be written, ccache compiles nothing.
no_ccache_without_folder() {
    local folder
    folder=$(ccache --get-config cache_dir 2>/dev/null) || return 0
    if ! mkdir -p "$folder/tmp" 2>/dev/null || [[ ! -w $folder || ! -w $folder/tmp ]]; then
        export CCACHE_DISABLE=1
    fi
}

# say_why_it_failed reads English. (Where it is spoken nothing changes: ccache would compile anew.)
speak_english() {
    unset LANGUAGE
    case ${LC_ALL:-${LC_MESSAGES:-${LANG:-C}}} in
    C | C.* | POSIX | en*) ;;
    *) export LC_ALL=C.UTF-8 ;;
    esac
}

# One line of progress on a terminal, a line now and then elsewhere; the errors when it fails.
build_alone() {
    local preset=$1 log
    shift
    local targets=() options=() option
    while (($# > 0)) && [[ $1 != -- ]]; do
        targets+=(--target "$1")
        shift
    done
    (($# > 0)) && shift
    for option in "$@"; do
        # Asked only now: the script that was waited for may have configured the folder.
        [[ $option == -* ]] || option=$("$option" "$preset")
        [[ -z $option ]] || options+=("$option")
    done
    log=build/$preset.log
    no_ccache_without_folder
    if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        say_elsewhere
        exit 1
    fi
    export NINJA_STATUS='[%f/%t, %es] '
    local status line shown=-1 percent
    set +e
    (speak_english && exec cmake --build --preset "$preset" "${targets[@]}" -j "$(build_jobs)") \
        2>&1 | tee -a "$log" |
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
    local killed='Killed signal terminated program|terminated with signal 9|plus: out of memory'
    if grep -Eq "$killed" "$2"; then
        echo "the system ended a compiler because memory did not suffice: once more, with" \
            "DEDLOC_JOBS=1 before the command, compiles one file at a time; else add swap, or" \
            "build on another machine of the same system and copy build/$1/bin" >&2
    elif grep -q '\[-Werror' "$2"; then
        echo "a warning stopped it; cmake --preset $1 -DDEDLOC_WERROR=OFF, and once more, builds" \
            "all the same" >&2
    else
        say_elsewhere
    fi
}

# As the user had called it there: relative paths and @FILE are the user's.
start_in() {
    local folder=$1 program=$2
    shift 2
    [[ $folder == "$PWD" ]] || program=$PWD/$program
    cd "$folder"
    exec "$program" "$@"
}

# Where the kernel tells what there is, and a container's or service's limits; tests have their own.
control_groups=/sys/fs/cgroup
own_groups=/proc/self/cgroup
machine_memory=/proc/meminfo

# The folders of this process's control groups, from its own outwards: all their limits hold.
# Version 2's, and version 1's for memory. (A container may see its own only as the outermost.)
limiting_folders() {
    local line folder path
    [[ -r $own_groups ]] || return 0
    while IFS= read -r line; do
        case $line in
        0::*) folder=$control_groups path=${line#0::} ;;
        *:memory:*) folder=$control_groups/memory path=${line#*:memory:} ;;
        *) continue ;;
        esac
        while [[ -n ${path%/} ]]; do
            echo "$folder$path"
            path=${path%/*}
        done
        echo "$folder"
    done <"$own_groups"
}

# MiB. Files that are in memory because there is room for them are in nobody's way.
memory_left() {
    local left folder limit used kept
    left=$(awk '/MemAvailable/ {print int($2 / 1024)}' "$machine_memory")
    while IFS= read -r folder; do
        if [[ -r $folder/memory.max ]]; then
            limit=memory.max used=memory.current kept='^(in)?active_file$'
        elif [[ -r $folder/memory.limit_in_bytes ]]; then
            limit=memory.limit_in_bytes used=memory.usage_in_bytes kept='^total_(in)?active_file$'
        else
            continue
        fi
        left=$({ cat "$folder/$limit" "$folder/$used" "$folder/memory.stat" || true; } 2>/dev/null |
            awk -v left="$left" -v kept="$kept" '
                NR == 1 { limit = $1 }
                NR == 2 { used = $1 }
                $1 ~ kept { files += $2 }
                END {
                    room = int((limit - used + (files < used ? files : used)) / 1048576)
                    if (limit != "max" && room < left) left = room > 0 ? room : 0
                    print left
                }')
    done < <(limiting_folders)
    echo "$left"
}

# Processors that this process may run on, or fewer, where its share of time is less.
cores_left() {
    local cores folder quota period
    cores=$(nproc)
    while IFS= read -r folder; do
        [[ -r $folder/cpu.max ]] && read -r quota period <"$folder/cpu.max" || continue
        [[ $quota == max ]] && continue
        quota=$(((quota + period - 1) / period))
        ((quota < cores)) && cores=$quota
    done < <(limiting_folders)
    echo "$cores"
}

# libtorch's headers need 1.5 GiB a compiler.
build_jobs() {
    local cores jobs
    if [[ -n ${DEDLOC_JOBS:-} ]]; then
        echo "$DEDLOC_JOBS"
        return
    fi
    cores=$(cores_left)
    jobs=$(($(memory_left) / 1536))
    ((jobs < 1)) && jobs=1
    ((jobs > cores)) && jobs=$cores
    echo "$jobs"
}
