"""Runs train_together twice on this machine, as two people would, and checks what they got.

usage: run_together.py PROGRAM RUN_FILE
"""

import subprocess
import sys
import tempfile


def start(*command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main(program, run_file):
    with tempfile.TemporaryDirectory() as folder:
        host = start(program, run_file, folder + "/a")
        join = None
        for line in host.stdout:
            if line.startswith("join: "):
                join = line[6:].strip()
                break
        assert join, "the host printed no join string"
        guest = start(program, join, folder + "/b")
        outputs = [process.communicate(timeout=270)[0] for process in (host, guest)]
        codes = [host.returncode, guest.returncode]
        for name, output in zip(("host", "guest"), outputs):
            print(f"--- {name}\n{output}")
        assert codes == [0, 0], f"exit codes {codes}"
        hashes = [output.split("state ")[-1].strip() for output in outputs]
        assert hashes[0] == hashes[1] and len(hashes[0]) == 64, f"states differ: {hashes}"
        both = [output.count("step ") for output in outputs]
        assert both[1] > 0, "the guest took part in no step"
        print(f"one state, {both[0]} and {both[1]} steps")


if __name__ == "__main__":
    main(*sys.argv[1:])
