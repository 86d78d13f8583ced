#!/usr/bin/env python3
"""`dedloc-lab paper --in-namespaces`, in small: real peers on shaped lines, some come and go."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nat_test import DEDLOC, NatTest, main  # noqa: E402

SMALL = [f"{DEDLOC}-lab", "paper", "--in-namespaces", "--trainers", "4", "--scale", "64"]


def namespaces_of(process: int) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]
    return [name for name in names if name.startswith(f"dl{process}-")]


class Paper(NatTest):
    def test_the_papers_experiment_with_real_peers_leaves_one_state(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [*SMALL, "--only", "part-time", "--steps", "4", "--json", "--to", folder],
                capture_output=True, text=True, timeout=140, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        words = json.loads(done.stdout.splitlines()[-1])
        self.assertTrue(words["identical"])
        self.assertEqual((words["where"], words["trainers"]), ("namespaces", 4))
        (setup,) = words["setups"]
        self.assertGreater(setup["members"], 4.2, "part-timers took part")
        self.assertGreater(setup["averaging_seconds"], setup["exchange_seconds_predicted"])

    def test_a_killed_experiment_leaves_no_namespaces(self) -> None:
        # A group of its own, all of which is killed, as a terminal that closes does.
        lab = subprocess.Popen([*SMALL, "--only", "balanced"], cwd=self.folder,
                               start_new_session=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 30
            while len(namespaces_of(lab.pid)) < 5 and time.monotonic() < until:
                self.assertIsNone(lab.poll(), "the experiment ended by itself")
                time.sleep(0.05)
            self.assertEqual(len(namespaces_of(lab.pid)), 5)  # four and the switch
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(lab.pid, signal.SIGKILL)
            self.assertEqual(lab.wait(10), -signal.SIGKILL)
        until = time.monotonic() + 20
        while namespaces_of(lab.pid) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(namespaces_of(lab.pid), [])


if __name__ == "__main__":
    main()
