# Sourced by the tutorials: a small Internet of network namespaces on this machine. Everything is
# removed when the script ends; nothing touches the machine's own network.
#
#   public NAME ADDRESS           a machine with a public address (203.0.113.x)
#   home NAME ADDRESS KIND        a machine behind a router with that address: cone or symmetric
#   on NAME COMMAND...            runs it there
#   background NAME COMMAND...    the same, until the script ends; output in $folder/NAME.log

dedloc=${DEDLOC:-$PWD/build/release/bin/dedloc}
skip() {
    echo "skipped: $*"
    exit 77
}
[[ $EUID -eq 0 ]] || skip "network namespaces need root"
PATH=$PATH:/usr/sbin:/sbin
for program in ip nft; do
    command -v "$program" >/dev/null || skip "$program is missing (Debian: iproute2, nftables)"
done
[[ -x $dedloc ]] || skip "$dedloc is not built; say where it is with DEDLOC=..."
ip netns add "tutorial$$-inet" 2>/dev/null || skip "network namespaces are not permitted here"

stem=tutorial$$-
made=("${stem}inet")
pids=()
homes=0
folder=$(mktemp -d -t dedloc-tutorial-XXXXXX)

clean_up() {
    local one
    for one in "${pids[@]}"; do kill "$one" 2>/dev/null || true; done
    for one in "${pids[@]}"; do wait "$one" 2>/dev/null || true; done
    for one in "${made[@]}"; do ip netns del "$one" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap clean_up EXIT
ip -n "${stem}inet" link add br0 type bridge
ip -n "${stem}inet" link set br0 up

say() { printf '\n== %s\n' "$*"; }

namespace() {
    ip netns add "$stem$1"
    made+=("$stem$1")
    ip -n "$stem$1" link set lo up
}

public() {
    namespace "$1"
    ip link add wan0 netns "$stem$1" type veth peer name "p-$1" netns "${stem}inet"
    ip -n "${stem}inet" link set "p-$1" master br0 up
    ip -n "$stem$1" addr add "$2/24" dev wan0
    ip -n "$stem$1" link set wan0 up
}

home() {
    local box=$1-nat ports=""
    homes=$((homes + 1))
    [[ $3 == symmetric ]] && ports=fully-random
    public "$box" "$2"
    namespace "$1"
    ip link add lan0 netns "$stem$box" type veth peer name eth0 netns "$stem$1"
    ip -n "$stem$box" addr add "192.168.$homes.1/24" dev lan0
    ip -n "$stem$box" link set lan0 up
    ip -n "$stem$1" addr add "192.168.$homes.2/24" dev eth0
    ip -n "$stem$1" link set eth0 up
    ip -n "$stem$1" route add default via "192.168.$homes.1"
    ip netns exec "$stem$box" sysctl -qw net.ipv4.ip_forward=1
    # A home router gives its own address to what leaves, and drops what nobody asked for.
    ip netns exec "$stem$box" nft -f - <<RULES
table ip nat {
  chain post { type nat hook postrouting priority srcnat; oifname "wan0" masquerade $ports
  }
}
table ip filter {
  chain input { type filter hook input priority filter; policy accept;
    iifname "wan0" ct state established,related accept
    iifname "wan0" drop
  }
  chain forward { type filter hook forward priority filter; policy accept;
    ct state established,related accept
    iifname "wan0" drop
  }
}
RULES
}

on() { ip netns exec "$stem$1" "${@:2}"; }

background() {
    ip netns exec "$stem$1" "${@:2}" >"$folder/$1.log" 2>&1 </dev/null &
    pids+=($!)
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local until=$((SECONDS + $1))
    while ! "${@:2}" >/dev/null 2>&1; do
        if ((SECONDS > until)); then
            echo "not within $1 s: ${*:2}" >&2
            tail -n 5 "$folder"/*.log >&2
            exit 1
        fi
        sleep 0.2
    done
}

# The state's hash and the step with which a peer ended.
state_of() {
    tail -n 1 "$folder/$1.log" |
        python3 -c 'import json,sys; d=json.load(sys.stdin); print(d["state_hash"], d["step"])'
}

# Is there an address through a relay in a file with a join string (base64url behind "dedloc1")?
leads_through_a_relay() {
    python3 - "$1" <<'PYTHON'
import base64, sys
text = open(sys.argv[1]).read().strip().removeprefix("dedloc1")
sys.exit(b"p2p-circuit" not in base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
PYTHON
}

# A small run: gradients that take 40 ms each, 100 global steps.
cat >"$folder/run.toml" <<'RUN'
name = "tutorial"
[task]
kind = "synthetic"
model = "bowl"
data = "noise-40ms"
[batch]
target = 32
micro = 2
[schedule]
peak = 0.01
[stop]
steps = 100
RUN
