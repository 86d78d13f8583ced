"""Older and newer peers in one run: equal states, or a sentence that says why not (run.sh)."""

from __future__ import annotations

import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "process"))
import harness  # noqa: E402

NOW = harness.DEDLOC
BEFORE = os.environ.get("DEDLOC_BEFORE", "")  # an older commit's program
OTHER = os.environ.get("DEDLOC_OTHER", "")    # the same with other numerics
STEPS = 50  # with the samples of both


@unittest.skipUnless(BEFORE and OTHER, "run.sh builds the older programs")
class UpgradeTest(harness.ProcessTest):
    seconds_max = 240

    def train_together(self, host_program: str, guest_program: str) -> None:
        run_file = self.write("run.toml", harness.run_text(gradient_ms=10))
        host = self.running_host(run_file, program=host_program)
        guest = self.join(host.join_string(), "guest", program=guest_program)
        self.until_shared_steps(STEPS, host, guest, seconds=180)
        self.end_with_one_state(host, guest)
        self.assertGreaterEqual(self.steps_shared(guest, host), STEPS)

    def refused(self, host_program: str, guest_program: str) -> tuple[str, str]:
        """The numerics of the run, and of the guest, as the guest's one sentence tells them."""
        run_file = self.write("run.toml", harness.run_text())
        host = self.running_host(run_file, program=host_program)
        guest = self.join(host.join_string(), "guest", program=guest_program)
        self.assertEqual(guest.end(120), harness.DIFFERENT_RUN, guest.errors())
        self.expect_last_sentence(guest.errors(), "another version of dedloc")
        said = re.search(r"'numerics' is (\d+) in this file, but this dedloc computes with (\d+)",
                         guest.errors())
        self.assertIsNotNone(said, guest.errors())
        self.alive(host)
        return said[1], said[2]

    def test_an_older_peer_trains_in_a_newer_peers_run(self):
        self.train_together(NOW, BEFORE)

    def test_a_newer_peer_trains_in_an_older_peers_run(self):
        self.train_together(BEFORE, NOW)

    def test_peers_of_other_numerics_are_refused_with_both(self):
        theirs, ours = self.refused(OTHER, NOW)
        self.assertNotEqual(theirs, ours)

    def test_a_run_refuses_peers_of_other_numerics_with_both(self):
        ours, theirs = self.refused(NOW, OTHER)
        self.assertNotEqual(theirs, ours)


if __name__ == "__main__":
    harness.main()
