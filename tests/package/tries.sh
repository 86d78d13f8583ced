# Sourced inside a bare root, where /share is what the host outside laid there.
#
#   try WHAT COMMAND...               notes in /share/results whether it works
#   peer_trains PROGRAM [OPTION...]   until a step has samples of the host and of this peer

results=/share/results
: >"$results"

try() {
    local what=$1
    shift
    if "$@" >/tmp/log 2>&1; then
        echo "passed  $what" | tee -a "$results"
    else
        echo "failed  $what" | tee -a "$results"
        tail -n 15 /tmp/log
    fi
}

peer_trains() {
    local program=$1
    shift
    "$program" join @/share/host/join.txt --dir /tmp/peer --threads 1 --plain "$@" \
        >/tmp/peer.log 2>&1 &
    local peer=$! i
    for i in $(seq 600); do
        grep -q '"contributors":2' /tmp/peer/events.jsonl 2>/dev/null && break
        kill -0 "$peer" 2>/dev/null || break
        sleep 0.1
    done
    kill -INT "$peer"
    wait "$peer"
    local code=$?
    cat /tmp/peer.log
    ((code == 0)) && grep -q '"contributors":2' /tmp/peer/events.jsonl
}
