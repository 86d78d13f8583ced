# Runs in a bare root (archive.sh) that has nothing of dedloc's, no compiler and no Python: /share
# has the archive, the host's join string, its data, and what pip installed with PyTorch.
set -uo pipefail
source tests/package/tries.sh

unpacked() {
    tar -C /opt -xf /share/dist/dedloc-*-linux-x86_64.tar.gz && mv /opt/dedloc-* /opt/dedloc
}
nothing_is_missing() { ! ldd /opt/dedloc/lib/dedloc/bin/dedloc | grep 'not found'; }
says_where_torch_is_to_come_from() {
    /opt/dedloc/bin/dedloc join @/share/host/join.txt --dir /tmp/none 2>/tmp/said
    [[ $? == 10 ]] && grep -q "pip install 'torch==" /tmp/said
}
peer_from_the_archive_trains() {
    DEDLOC_TORCH=/share/site-packages/torch peer_trains /opt/dedloc/bin/dedloc \
        --data /share/fashion-mnist
}

system=$(. /etc/os-release && echo "$PRETTY_NAME, glibc $(ldd --version | sed -n '1s/.* //p')")
try "the archive is unpacked, on $system" unpacked
try 'it needs no library that is not here' nothing_is_missing
try 'the program answers' /opt/dedloc/bin/dedloc version
try 'it prepares a run' /opt/dedloc/bin/dedloc init vision_classifier -o /tmp/run.toml
try 'without a PyTorch it says which to install' says_where_torch_is_to_come_from
try 'a peer trains beside a host outside' peer_from_the_archive_trains
try 'the end' true
