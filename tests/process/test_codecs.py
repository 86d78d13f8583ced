"""Codecs chosen by tensor, with real processes and an aggregator that knows no tensor."""

from __future__ import annotations

import json

import harness
from harness import ProcessTest

# 105,866 parameters: one tensor of 100,352, and small ones before and behind it.
RUN = """name = "process-codecs"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 128
micro = 32
[averaging]
codec = "adaptive"
quorum_timeout = "3s"
[stop]
steps = 12
[checkpoint]
every = 0
[evaluate]
every = 0
"""
# What plans count on: so slow that an aggregator is worth it.
SLOW = ("--plan-up", "1", "--plan-down", "20")
FAST = ("--plan-up", "1000", "--plan-down", "1000")


class Codecs(ProcessTest):
    def test_tensors_in_codecs_of_their_own_keep_replicas_identical(self) -> None:
        if not self.has_libtorch():
            self.skipTest("this dedloc was built without libtorch")
        run = self.write("run.toml", RUN)
        checked = self.dedloc("check", run)
        if checked.returncode == harness.DATA_MISSING:
            self.skipTest("the Debian package dataset-fashion-mnist is missing")
        self.assertIn("adaptive: 0.1 M elements in blockwise8, 0.00551 M in fp16", checked.stdout)
        element_bytes = json.loads(self.dedloc("check", run, "--json").stdout)["element_bytes"]
        self.assertAlmostEqual(element_bytes, 1.056, places=3)
        host = self.running_host(run, more=SLOW)
        join = host.join_string()
        assistant = self.assist(join, "assist", more=FAST)
        trainers = [host, *(self.join(join, f"peer-{i}", more=SLOW) for i in range(2))]
        for trainer in trainers:
            self.assertEqual(trainer.end(50), harness.OK, trainer.errors())
        words = [trainer.last_words() for trainer in trainers]
        self.assertEqual({word["step"] for word in words}, {12})
        self.assertEqual(len({word["state_hash"] for word in words}), 1)
        self.assertTrue(assistant.events("reduced"))
        for peer in (*trainers, assistant):
            for kind in ("refused_message", "refused_input", "round_failed"):
                self.assertEqual(peer.events(kind), [])
        audit = self.dedloc("lab", "audit", *(str(trainer.directory) for trainer in trainers),
                            "--json")
        self.assertEqual(audit.returncode, harness.OK, audit.stdout + audit.stderr)


if __name__ == "__main__":
    harness.main()
