"""Data that dedloc makes from Debian's packages."""

from __future__ import annotations

import json

import harness
from harness import ProcessTest


class DataTest(ProcessTest):
    def test_emoji_are_drawn_with_their_names(self) -> None:
        folder = self.folder / "emoji"
        done = self.dedloc("data", "emoji", str(folder), "--side", "16", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout.splitlines()[-1])
        self.assertGreater(told["pictures"], 3000)
        lines = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
        self.assertEqual(len(lines), told["pictures"])
        held_out = [line for line in lines if line["held_out"]]
        self.assertEqual(len(held_out), told["held_out"])
        trained = [line for line in lines if not line["held_out"]]
        for key, shared in (("figure", True), ("caption", False)):
            known = {line[key] for line in trained}
            self.assertEqual(any(line[key] in known for line in held_out), shared, key)
        again = self.dedloc("data", "emoji", str(folder))
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("--force", again.stderr)


if __name__ == "__main__":
    harness.main()
