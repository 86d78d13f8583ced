# Runs in the bare root (run.sh): /share has the packages and the host's join string.
set -uo pipefail
export DEBIAN_FRONTEND=noninteractive
source tools/needs.sh
source tests/package/tries.sh

packages() { apt-get install -y --no-install-recommends "$@"; }
deb() { ls /share/packages/"$1"_*.deb; }

core_works() {
    dedloc version && dedloc plan --setup A && dedloc init vision_classifier -o /tmp/run.toml &&
        test -s /usr/share/man/man1/dedloc-relay.1.gz &&
        test -s /usr/share/bash-completion/completions/dedloc
}
core_says_what_trains() {
    dedloc host /tmp/run.toml 2>/tmp/said
    [[ $? == 10 ]] && grep -q 'package dedloc' /tmp/said
}
core_is_small() { # what is fetched, with what it brings beyond Debian's base
    local bytes package
    bytes=$(stat -c %s "$(deb dedloc-core)") || return 1
    for package in $(comm -13 /tmp/before /tmp/after | grep -v '^dedloc'); do
        bytes=$((bytes + $(apt-cache show "$package" | sed -n 's/^Size: //p' | head -n 1)))
    done
    echo "$((bytes / 1000)) kB are fetched for dedloc-core" | tee -a "$results"
    ((bytes <= 15000000))
}
examples_build() {
    cp -r "examples/$1" /tmp/example &&
        cmake -S /tmp/example -B /tmp/example/build -DCMAKE_CXX_FLAGS='-Wall -Wextra -Werror' \
            -DCMAKE_C_FLAGS='-Wall -Wextra -Werror' &&
        cmake --build /tmp/example/build && rm -rf /tmp/example
}
python_says_what_it_lacks() {
    ! python3 -c 'import dedloc' 2>/tmp/said && tail -n 1 /tmp/said | grep 'python3-torch'
}
python_trains() (
    cd /tmp && python3 - <<'PY'
import dedloc
import torch

run = dedloc.host(target_batch=8, optimizer={"kind": "sgd", "lr": 0.1}, stop={"steps": 2},
                  listen=["/ip4/127.0.0.1/tcp/0"])
model = torch.nn.Linear(2, 1)
optimizer = dedloc.Optimizer(run, model)
while not run.finished:
    inputs = torch.randn(4, 2)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    loss.backward()
    optimizer.step(loss, samples=4)
run.leave()
assert run.global_step == 2, run.global_step
PY
)
no_errors_of_lintian() { ! lintian --fail-on error /share/packages/*.deb | grep '^E:'; }
units_are_sound() {
    systemd-analyze verify /lib/systemd/system/dedloc-relay.service &&
        XDG_RUNTIME_DIR=/tmp systemd-analyze verify --user /lib/systemd/user/dedloc@.service
}
older_packages() { # the same, with a version that is lower
    local file folder
    mkdir -p /tmp/older
    for file in /share/packages/*.deb; do
        folder=$(mktemp -d)
        dpkg-deb -R "$file" "$folder" &&
            sed -i "s/^Version: .*/Version: 0.0.1/; s/(= [^)]*)/(= 0.0.1)/" \
                "$folder/DEBIAN/control" &&
            echo one that has gone since >"$folder/usr/share/doc/$(deb_name "$file")/dedloc-was" &&
            dpkg-deb -b "$folder" "/tmp/older/$(basename "$file")" || return 1
        rm -rf "$folder"
    done
}
deb_name() { dpkg-deb -f "$1" Package; }
upgrade_works() {
    older_packages && dpkg -i --force-downgrade /tmp/older/*.deb &&
        [[ $(dpkg-query -W -f '${Version}' dedloc) == 0.0.1 ]] &&
        packages /share/packages/*.deb &&
        [[ $(dpkg-query -W -f '${Version}' dedloc) != 0.0.1 ]] &&
        ! find /usr/share/doc -name dedloc-was | grep . && dedloc version && dpkg --audit &&
        [[ -z $(dpkg --audit) ]]
}
# Prints the commands of the container file's instruction $1. They run here, as this root is what
# the image is based on.
of_container_file() {
    sed -n "/^$1 /,/[^\\]\$/p" packaging/Containerfile | sed "1s/^$1 //"
}
container_file_installs() {
    mkdir -p /tmp/packages && cp /share/packages/*.deb /tmp/packages/ &&
        PACKAGES=dedloc-core sh -ec "$(of_container_file RUN)" &&
        su dedloc -s /bin/sh -c 'cd && dedloc --version' && [[ ! -e /tmp/packages ]]
}
container_knows_whether_it_is_well() (
    check=$(of_container_file HEALTHCHECK | sed '1d') && cd /var/lib/dedloc && sh -c "$check" &&
        mkdir peer && touch peer/events.jsonl && sh -c "$check" &&
        touch -d '1 hour ago' peer/events.jsonl && ! sh -c "$check"
)
nothing_is_left() {
    dpkg --purge dedloc python3-dedloc libdedloc-dev dedloc-core &&
        ! find /usr /lib /etc /var/lib -xdev -name '*dedloc*' -not -path '*/apt/*' | grep .
}

apt-get update >/dev/null
dpkg-query -W -f '${Package}\n' | sort >/tmp/before
try 'dedloc-core is installed' packages "$(deb dedloc-core)"
dpkg-query -W -f '${Package}\n' | sort >/tmp/after
try 'the core answers, with pages and completions' core_works
try 'the core says which package trains' core_says_what_trains
try 'the core is small' core_is_small
try 'the trainer is installed' packages "$(deb dedloc)"
try 'a peer trains beside a host outside' peer_trains dedloc
try 'the library is installed' packages "$(deb libdedloc-dev)" g++ cmake make pkg-config
try 'a program in C builds with what is installed' examples_build c_api
try 'pkg-config knows the library' pkg-config --cflags --libs dedloc
try 'what a task of one'"'"'s own needs is installed' packages "${needs_build[@]}"
try 'a task in C++ builds with what is installed' examples_build task
try 'the Python package is installed' packages "$(deb python3-dedloc)"
try 'Python says that it needs torch' python_says_what_it_lacks
try 'torch for Python is installed' packages python3-torch
try 'a loop in Python trains' python_trains
try 'lintian is installed' packages lintian systemd
try 'lintian finds no error' no_errors_of_lintian
try 'systemd takes the units' units_are_sound
try 'an older version is upgraded' upgrade_works
try 'removal leaves nothing' nothing_is_left
try 'the container file installs, for a user of its own' container_file_installs
try 'the container tells whether it is well' container_knows_whether_it_is_well
try 'the end' true
