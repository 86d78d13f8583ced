"""The tests of this folder share this: `dedloc` processes on the machines of a Network."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import network

DEDLOC = os.environ.get("DEDLOC", "dedloc")
SKIPPED = 77
SECONDS_MAX = 135  # of one test; ctest's own limit would leave no time to clean up
STEPS = 10  # of everybody's samples; the run itself has no last one
# A step needs more samples than two peers make while the third computes one.
RUN = """name = "nat-test"
[task]
kind = "synthetic"
model = "bowl"
data = "noise-40ms"
[batch]
target = 32
micro = 2
[schedule]
peak = 0.01
[averaging]
quorum_timeout = "10s"
[checkpoint]
every = 0
[evaluate]
every = 0
"""


def whole_lines(path: Path) -> list[str]:
    """Lines of a file that still grows: its last line may be half written, and is left out."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return text[:text.rfind("\n") + 1].splitlines()


class Process:
    def __init__(self, test: "NatTest", machine: str, words: list[str]) -> None:
        self.machine = machine
        self.directory = test.folder / machine
        self.out = test.folder / f"{machine}.out"
        self.err = test.folder / f"{machine}.err"
        command = test.net.command(machine, [DEDLOC, "--log", "info", *words, "--dir",
                                             str(self.directory), "--json"])
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, start_new_session=True)
        test.processes.append(self)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def said(self) -> str:
        return self.err.read_text(errors="replace")[-4000:]

    def last_words(self) -> dict:
        lines = self.out.read_text(errors="replace").strip().splitlines()
        return json.loads(lines[-1]) if lines else {}

    def events(self, kind: str) -> list[dict]:
        lines = whole_lines(self.directory / "events.jsonl")
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def join_string(self) -> str:
        path = self.directory / "join.txt"
        return path.read_text().strip() if path.exists() else ""


class NatTest(unittest.TestCase):
    def setUp(self) -> None:
        # First, as making the network may hang, too.
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(SECONDS_MAX)
        self.addCleanup(signal.alarm, 0)
        why = network.why_not()
        if why:
            self.skipTest(why)
        self.folder = Path(tempfile.mkdtemp(prefix="dedloc-netns-"))
        self.processes: list[Process] = []
        self.net = network.Network()
        self.addCleanup(self._clean_up)
        self.net.__enter__()

    def _clean_up(self) -> None:
        signal.alarm(0)
        for process in self.processes:
            process.stop()
        self.net.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def until(self, what: str, condition, seconds: float = 60):
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            for process in self.processes:
                code = process.process.poll()
                if code not in (None, 0):
                    self.fail(f"{process.machine} ended with {code}: {process.said()}")
            if time.monotonic() > deadline:
                said = "\n".join(f"--- {p.machine}:\n{p.said()}" for p in self.processes)
                self.fail(f"not within {seconds} s: {what}\n{said}")
            time.sleep(0.1)

    def run_file(self) -> str:
        path = self.folder / "run.toml"
        path.write_text(RUN)
        return str(path)

    def host(self, machine: str, *more: str) -> Process:
        words = ["host", self.run_file(), "--listen", "0.0.0.0:4001", "--quiet", *more]
        return Process(self, machine, words)

    def join(self, machine: str, join_string: str) -> Process:
        return Process(self, machine, ["join", join_string, "--listen", "0.0.0.0:4001", "--quiet"])

    def train_together(self, peers: list[Process]) -> None:
        """Steps are made of everybody's samples, and everybody holds one state after each."""
        def shared() -> int:
            return sum(event["fields"]["members"] == len(peers)
                       for event in peers[0].events("step"))

        self.until(f"{STEPS} steps of all", lambda: shared() >= STEPS, 100)
        for peer in reversed(peers):
            peer.process.send_signal(signal.SIGINT)
            self.assertEqual(peer.process.wait(30), 0, peer.said())
        states: dict[int, list[str]] = {}
        for peer in peers:
            for event in peer.events("step"):
                fields = event["fields"]
                states.setdefault(fields["step"], []).append(fields["state_hash"])
        for step, hashes in states.items():
            self.assertEqual(len(set(hashes)), 1, f"they differ at step {step}")
        self.assertTrue(any(len(hashes) == len(peers) for hashes in states.values()))


def _too_long(*_: object) -> None:
    raise AssertionError(f"the test took more than {SECONDS_MAX} s")


def main() -> None:
    """Exit status: 0 passed, 77 everything was skipped, 1 else."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    skipped = len(result.skipped) > 0 and len(result.skipped) == result.testsRun
    sys.exit(SKIPPED if skipped else 0)
