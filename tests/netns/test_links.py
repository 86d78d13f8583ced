#!/usr/bin/env python3
"""`dedloc-lab links`, in small: real peers on shaped lines of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nat_test import DEDLOC, NatTest, main  # noqa: E402

LINKS = [f"{DEDLOC}-lab", "links", "--json"]


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


class Links(NatTest):
    def test_a_round_of_eight_peers_takes_about_as_long_as_was_planned(self) -> None:
        # 8 lines of 31 Mbit/s, a megabyte: a round of less than a second, so that what every
        # round costs besides shows; the ratio of half a minute is the command's own business.
        done = run([*LINKS, "--setup", "A", "--slower", "32", "--elements", "500000",
                    "--rounds", "2", "--warm-up", "1", "--ratio-max", "3", "--rates-told",
                    "--no-equal"])
        self.assertEqual(done.returncode, 0, done.stderr)
        words = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((words["peers"], words["rounds"]), (8, 2))
        self.assertGreater(words["included"], 0.999)
        self.assertLess(words["rmse"], 0.001, "fp16")
        self.assertGreater(words["ratio_to_plan"], 0.95, "the lines carry no more than they should")

    def test_a_bound_that_is_missed_is_exit_code_nine_and_named(self) -> None:
        done = run([*LINKS, "--setup", "A", "--slower", "32", "--elements", "50000",
                    "--rounds", "1", "--warm-up", "1", "--no-equal", "--ratio-max", "0.5"])
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertIn("ratio_to_plan is", done.stderr)

    def test_without_the_right_to_make_namespaces_it_is_skipped_and_says_why(self) -> None:
        done = run(["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--", *LINKS,
                    "--setup", "A"])
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("skipped", json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
