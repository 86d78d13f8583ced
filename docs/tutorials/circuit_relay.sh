#!/usr/bin/env bash
# Nobody in the run can be dialled; a relay, which trains nothing, brings them together.
# circuit-relay.md
set -euo pipefail
cd "$(dirname "$0")/../.."
source docs/tutorials/network.sh

say "an Internet: a relay, and Alice and Bob behind routers that allow no hole"
public relay 203.0.113.10
home alice 203.0.113.2 symmetric
home bob 203.0.113.3 symmetric

say "the relay starts; it needs to know nothing of the run"
background relay "$dedloc" relay --dir "$folder/relay" --json
wait_for 60 grep -q '/ip4/203.0.113.10/tcp/4001/p2p/' "$folder/relay.log"
address=$(grep -o '/ip4/203.0.113.10/tcp/4001/p2p/[0-9A-Za-z]*' "$folder/relay.log" | head -n 1)
relay_pid=${pids[-1]}
echo "$address"

say "Alice hosts the run and names the relay"
background alice "$dedloc" host "$folder/run.toml" --relay "$address" --listen 0.0.0.0:4001 \
    --dir "$folder/alice" --quiet --json
wait_for 60 test -s "$folder/alice/join.txt"
# The string is written anew when Alice has her place at the relay.
wait_for 60 leads_through_a_relay "$folder/alice/join.txt"
string=$(<"$folder/alice/join.txt")
echo "her join string leads through the relay: ${string:0:50}…"

say "Bob joins"
background bob "$dedloc" join "$string" --listen 0.0.0.0:4001 \
    --dir "$folder/bob" --quiet --json
for one in alice bob; do wait_for 120 grep -q '"state_hash"' "$folder/$one.log"; done

say "both hold the same state"
hashes=$(for one in alice bob; do state_of "$one"; done)
echo "$hashes"
[[ $(sort -u <<<"$hashes" | wc -l) -eq 1 ]]

say "what the relay saw: bytes it cannot read"
kill -INT "$relay_pid"
wait_for 20 grep -q '"bytes"' "$folder/relay.log"
tail -n 1 "$folder/relay.log"
tail -n 1 "$folder/relay.log" |
    python3 -c 'import json,sys; sys.exit(json.load(sys.stdin)["bytes"] == 0)'
