"""Runs train_together twice on this machine, as two people would, and checks what they got; a third
one joins and is ended by Ctrl-C.

usage: run_together.py PROGRAM RUN_FILE

The run has no last step here: on a quiet machine the first would have made it before the second
has come.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 10  # that the second takes part in
SECONDS = 270


def start(*command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def join_string(process):
    for line in process.stdout:
        if line.startswith("join: "):
            return line[6:].strip()
    raise AssertionError("it printed no join string")


def state_hashes(folder):
    log = Path(folder, "events.jsonl")
    written = log.read_text() if log.exists() else ""  # it comes with the first event
    lines = written[:written.rfind("\n") + 1].splitlines()  # the last one may be half written
    events = [json.loads(line) for line in lines]
    steps = [event["fields"] for event in events if event["kind"] == "step"]
    return {step["step"]: step["state_hash"] for step in steps}


def too_long(*_):
    raise AssertionError(f"it took more than {SECONDS} s")


def main(program, run_file):
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        endless = re.sub(r"(?m)^steps = .*$", "steps = 0", Path(run_file).read_text())
        Path(folder, "run.toml").write_text(endless)
        host = start(program, folder + "/run.toml", folder + "/a")
        join = join_string(host)
        guest = start(program, join, folder + "/b")
        visitor = start(program, join, folder + "/c")
        join_string(visitor)
        visitor.send_signal(signal.SIGINT)
        output = visitor.communicate(timeout=60)[0]
        assert visitor.returncode == 0, f"Ctrl-C: exit code {visitor.returncode}"
        assert "state " in output, f"it did not leave in order: {output}"
        while len(state_hashes(folder + "/b")) < STEPS:
            assert guest.poll() is None, f"the guest ended with {guest.returncode}"
            time.sleep(0.05)
        for name, process in (("guest", guest), ("host", host)):
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=60)[0]
            print(f"--- {name}\n{output}")
            assert process.returncode == 0, f"{name}: exit code {process.returncode}"
            assert len(output.split("state ")[-1].strip()) == 64, f"{name} has no state"
        hashes = [state_hashes(f"{folder}/{peer}") for peer in "abc"]
        shared = hashes[0].keys() & hashes[1].keys()
        assert len(shared) >= STEPS, f"they shared {len(shared)} steps"
        for step in set.union(*map(set, hashes)):
            states = {of[step] for of in hashes if step in of}
            assert len(states) == 1, f"states differ at step {step}: {states}"
        print(f"one state at each of {len(shared)} steps that they shared")


if __name__ == "__main__":
    main(*sys.argv[1:])
