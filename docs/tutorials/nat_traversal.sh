#!/usr/bin/env bash
# Two people behind two home routers train together; nobody opens a port. nat-traversal.md
set -euo pipefail
cd "$(dirname "$0")/../.."
source docs/tutorials/network.sh

say "an Internet: one public machine, and Alice and Bob behind routers of their own"
public host 203.0.113.10
home alice 203.0.113.2 cone
home bob 203.0.113.3 cone

say "Bob's machine cannot be reached from outside"
on host timeout 2 bash -c 'exec 3<>/dev/tcp/203.0.113.3/4001' 2>/dev/null && exit 1
echo "a connection to his router's port 4001 is not answered"

say "the public machine starts a run and prints its join string"
background host "$dedloc" host "$folder/run.toml" --listen 0.0.0.0:4001 \
    --dir "$folder/host" --quiet --json
wait_for 60 test -s "$folder/host/join.txt"
string=$(<"$folder/host/join.txt")
echo "${string:0:60}…"

say "how is Alice's machine reachable?"
on alice "$dedloc" check --network "$string"

say "Alice and Bob join with nothing but that string"
for one in alice bob; do
    background "$one" "$dedloc" join "$string" --listen 0.0.0.0:4001 \
        --dir "$folder/$one" --quiet --json
done
for one in alice bob host; do wait_for 120 grep -q '"state_hash"' "$folder/$one.log"; done

say "they hold the same state"
hashes=$(for one in host alice bob; do state_of "$one"; done)
echo "$hashes"
[[ $(sort -u <<<"$hashes" | wc -l) -eq 1 ]]
members=$(grep -h '"members"' "$folder/host/events.jsonl" | python3 -c '
import json, sys
print(max(json.loads(line)["fields"].get("members", 0) for line in sys.stdin))')
echo "steps were made by up to $members peers"
[[ $members -eq 3 ]]
