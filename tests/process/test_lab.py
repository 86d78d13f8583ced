"""The lab's experiments in virtual time, in small: that they run, and what they leave."""

from __future__ import annotations

import json
import xml.etree.ElementTree

import harness
from harness import ProcessTest


class Lab(ProcessTest):
    seconds_max = 190

    def test_the_papers_experiment_ends_with_a_table_a_picture_and_one_state(self) -> None:
        done = self.lab("paper", "--steps", "4", "--only", "balanced", "--to",
                        str(self.folder), "--json", seconds=150)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        words = json.loads(done.stdout.splitlines()[-1])
        self.assertTrue(words["identical"])
        self.assertEqual([setup["name"] for setup in words["setups"]], ["balanced"])
        for setup in words["setups"]:
            self.assertGreater(setup["averaging_seconds"], setup["exchange_seconds_predicted"])
        self.assertEqual(json.loads((self.folder / "paper.json").read_text()), words)
        picture = xml.etree.ElementTree.parse(self.folder / "paper.svg")
        self.assertTrue(picture.getroot().tag.endswith("svg"))

    def test_a_collaboration_computes_what_one_process_would_to_the_last_bit(self) -> None:
        if not self.has_libtorch():
            self.skipTest("this dedloc was built without libtorch")
        done = self.lab("equivalence", "--steps", "4", "--json")
        if done.returncode == harness.DATA_MISSING:
            self.skipTest("wants the Debian package dataset-fashion-mnist")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        words = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((words["steps"], words["peers"]), (4, 4))
        self.assertTrue(words["bit_identical"], done.stderr)
        self.assertGreater(words["moved"], 0)


if __name__ == "__main__":
    harness.main()
