# Sourced by run.sh and archive.sh, which set $share: the folder that is /share in a bare root, gone
# at the end like the host.
#
#   begin_host RUN_FILE       starts a host out here; its join string is in $share/host/join.txt
#   try_in_root SCRIPT LIMIT  runs it in a bare root; adds what it tried to $passed and $failed
#   end_with_counts           the exit status, and where $json is set the last line

host= passed=0 failed=0
end() {
    [[ -z $host ]] || kill "$host" 2>/dev/null || true
    rm -rf "$share"
}
trap end EXIT

begin_host() {
    build/release/bin/dedloc host "$1" --dir "$share/host" --listen 127.0.0.1:0 --plain \
        --threads 1 >"$share/host.log" 2>&1 &
    host=$!
    local i
    for i in $(seq 300); do
        [[ -s $share/host/join.txt ]] && break
        sleep 0.1
    done
}

# A root that could not be made noted nothing, and failed.
try_in_root() {
    : >"$share/results"
    SHARE=$share LIMIT=${LIMIT:-$2} tools/bare_root.sh bash "$1" >&2 || true
    failed=$((failed + $(grep -c ^failed "$share/results" || true)))
    passed=$((passed + $(grep -c ^passed "$share/results" || true)))
    grep -qx 'passed  the end' "$share/results" || failed=$((failed + 1))
}

end_with_counts() {
    [[ -z $json ]] || echo "{\"passed\": $passed, \"failed\": $failed}"
    ((failed == 0))
}
