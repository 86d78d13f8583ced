"""Runs train_together twice on this machine, as two people would, and checks what they got; a third
one joins and is ended by Ctrl-C.

usage: run_together.py PROGRAM RUN_FILE
"""

import os
import signal
import subprocess
import sys
import tempfile


def start(*command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def join_string(process):
    for line in process.stdout:
        if line.startswith("join: "):
            return line[6:].strip()
    raise AssertionError("it printed no join string")


def main(program, run_file):
    with tempfile.TemporaryDirectory() as folder:
        host = start(program, run_file, folder + "/a")
        join = join_string(host)
        guest = start(program, join, folder + "/b")
        visitor = start(program, join, folder + "/c")
        join_string(visitor)
        visitor.send_signal(signal.SIGINT)
        output = visitor.communicate(timeout=60)[0]
        assert visitor.returncode == 0, f"Ctrl-C: exit code {visitor.returncode}"
        assert "state " in output, f"it did not leave in order: {output}"
        outputs = [process.communicate(timeout=270)[0] for process in (host, guest)]
        codes = [host.returncode, guest.returncode]
        for name, output in zip(("host", "guest"), outputs):
            print(f"--- {name}\n{output}")
        assert codes == [0, 0], f"exit codes {codes}"
        hashes = [output.split("state ")[-1].strip() for output in outputs]
        assert hashes[0] == hashes[1] and len(hashes[0]) == 64, f"states differ: {hashes}"
        for peer in "abc":
            log = f"{folder}/{peer}/events.jsonl"
            assert os.path.getsize(log) > 0, f"nothing in {log}"
        both = [output.count("step ") for output in outputs]
        assert both[1] > 0, "the guest took part in no step"
        print(f"one state, {both[0]} and {both[1]} steps")


if __name__ == "__main__":
    main(*sys.argv[1:])
