#!/usr/bin/env python3
"""People behind home routers train together, and nobody opens a port: real `dedloc` processes."""

from __future__ import annotations

import base64
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

sys.path.insert(0, str(Path(__file__).resolve().parent))
import network  # noqa: E402

DEDLOC = os.environ.get("DEDLOC", "dedloc")
SKIPPED = 77
STEPS = 12
# Micro-batches take a while, so that no peer is done before the others have joined; a step needs
# more samples than two peers make while the third computes one.
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
[stop]
steps = {steps}
[checkpoint]
every = 0
[evaluate]
every = 0
"""


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
        path = self.directory / "events.jsonl"
        if not path.exists():
            return []
        text = path.read_text(errors="replace")
        lines = text[:text.rfind("\n") + 1].splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def join_string(self) -> str:
        path = self.directory / "join.txt"
        return path.read_text().strip() if path.exists() else ""


class NatTest(unittest.TestCase):
    def setUp(self) -> None:
        why = network.why_not()
        if why:
            self.skipTest(why)
        self.folder = Path(tempfile.mkdtemp(prefix="dedloc-netns-"))
        self.processes: list[Process] = []
        self.net = network.Network().__enter__()
        self.addCleanup(self._clean_up)

    def _clean_up(self) -> None:
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

    def run_file(self, steps: int) -> str:
        path = self.folder / "run.toml"
        path.write_text(RUN.format(steps=steps))
        return str(path)

    def host(self, machine: str, *more: str, steps: int = STEPS) -> Process:
        words = ["host", self.run_file(steps), "--listen", "0.0.0.0:4001", "--quiet", *more]
        return Process(self, machine, words)

    def join(self, machine: str, join_string: str) -> Process:
        return Process(self, machine, ["join", join_string, "--listen", "0.0.0.0:4001", "--quiet"])

    def train_to_the_end(self, peers: list[Process]) -> None:
        """All end at the last step with one state; some step was made of everybody's samples."""
        for peer in peers:
            self.until(f"{peer.machine} ends", lambda p=peer: p.process.poll() is not None, 100)
        words = [peer.last_words() for peer in peers]
        self.assertEqual([w["step"] for w in words], [STEPS] * len(peers), words)
        self.assertEqual(len({w["state_hash"] for w in words}), 1, words)
        members = [event["fields"]["members"] for event in peers[0].events("step")]
        self.assertEqual(max(members, default=0), len(peers),
                         f"members of each step: {members}")


class Training(NatTest):
    def three(self, kind_a: str, kind_b: str) -> None:
        self.net.public("host", "203.0.113.10")
        self.net.home("a", "203.0.113.2", kind_a)
        self.net.home("b", "203.0.113.3", kind_b)
        host = self.host("host")
        string = self.until("a join string", host.join_string)
        peers = [host, self.join("a", string), self.join("b", string)]
        self.train_to_the_end(peers)

    def test_two_behind_cones_train_with_a_public_host(self) -> None:
        self.three("port-restricted", "port-restricted")

    def test_two_behind_symmetric_nats_train_over_the_host_as_relay(self) -> None:
        self.three("symmetric", "symmetric")

    def test_nobody_is_public_but_a_relay(self) -> None:
        self.net.public("relay", "203.0.113.10")
        self.net.home("a", "203.0.113.2", "port-restricted")
        self.net.home("b", "203.0.113.3", "symmetric")
        relay = Process(self, "relay", ["relay"])
        address = self.until("the relay's address", lambda: next(
            (line.strip() for line in relay.said().splitlines() if "/ip4/203.0.113.10/" in line),
            ""))
        host = self.host("a", "--relay", address)

        def string_with_relay() -> str:
            # The string is refreshed every few seconds; in the end it has the relay's address.
            string = host.join_string()
            packed = string.removeprefix("dedloc1")
            plain = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
            return string if b"/p2p-circuit" in plain else ""
        string = self.until("the relay in the join string", string_with_relay)
        other = self.join("b", string)
        self.train_to_the_end([host, other])
        relay.process.send_signal(signal.SIGINT)
        relay.process.wait(10)
        self.assertGreater(relay.last_words()["bytes"], 0)

    def test_the_network_check_says_it_in_plain_words(self) -> None:
        self.net.public("host", "203.0.113.10")
        self.net.home("a", "203.0.113.2", "port-restricted")
        host = self.host("host", steps=0)
        string = self.until("a join string", host.join_string)
        done = subprocess.run(
            self.net.command("a", [DEDLOC, "check", "--network", string]), capture_output=True,
            text=True, timeout=90, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("behind a router or firewall", done.stdout)
        self.assertIn("others see us at /ip4/203.0.113.2/tcp/", done.stdout)
        self.assertIn("is our relay", done.stdout)


def main() -> None:
    """Exit status: 0 passed, 77 everything was skipped, 1 else."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    skipped = len(result.skipped) > 0 and len(result.skipped) == result.testsRun
    sys.exit(SKIPPED if skipped else 0)


if __name__ == "__main__":
    main()
