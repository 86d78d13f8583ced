"""Local updates with real processes: peers make steps of their own between rounds."""

from __future__ import annotations

import harness
from harness import ProcessTest, run_text

LOCAL = """[local]
batch = {batch}
[local.optimizer]
kind = "{kind}"
[local.schedule]
peak = {peak}
"""

# A round every 8 inner steps of each of three peers: 768 samples instead of 96.
FASHION = """name = "process-local"
[task]
kind = "vision_classifier"
model = "small_cnn"
data = "fashion-mnist"
[batch]
target = 768
micro = 32
[optimizer]
kind = "sgd"
momentum = 0.9
nesterov = true
[schedule]
peak = 0.7
[averaging]
quorum_timeout = "3s"
[stop]
steps = {steps}
[checkpoint]
every = 0
[evaluate]
every = 1000
"""


class Local(ProcessTest):
    def train_three(self, run: str) -> list[dict]:
        """The last words of the host and two guests at the end of the run."""
        host = self.running_host(self.write("run.toml", run))
        join = host.join_string()
        peers = [host, *(self.join(join, f"peer-{i}") for i in range(2))]
        for peer in peers:
            self.assertEqual(peer.end(50), harness.OK, peer.errors())
        self.they_shared_a_step(*peers)
        return [peer.last_words() for peer in peers]

    def test_peers_with_steps_of_their_own_stay_identical_and_lose_nothing(self) -> None:
        run = run_text(gradient_ms=40, target=64, peak=0.7, steps=15)  # 19 s alone
        words = self.train_three(run + LOCAL.format(batch=4, kind="sgd", peak=0.01))
        self.assertEqual({word["step"] for word in words}, {15})
        self.assertEqual(len({word["state_hash"] for word in words}), 1)
        self.audit_finds_nothing_lost(words)

    def test_an_eighth_of_the_rounds_tells_clothes_apart(self) -> None:
        if not self.has_libtorch():
            self.skipTest("this dedloc was built without libtorch")
        if self.dedloc("check", self.write("run.toml", FASHION.format(steps=1))).returncode \
                == harness.DATA_MISSING:
            self.skipTest("the Debian package dataset-fashion-mnist is missing")
        steps = 40
        words = self.train_three(
            FASHION.format(steps=steps) + LOCAL.format(batch=32, kind="adamw", peak=0.001))
        self.assertEqual({word["step"] for word in words}, {steps})
        self.assertEqual(len({word["state_hash"] for word in words}), 1)
        measured = max(words, key=lambda word: word["accuracy_step"])
        self.assertEqual(measured["accuracy_step"], steps)
        self.assertGreater(measured["accuracy"], 0.7)  # of ten kinds; chance is 0.1

    def test_a_section_without_a_batch_is_refused_with_its_place(self) -> None:
        text = run_text() + "[local.optimizer]\nkind = \"adamw\"\n"
        peer = self.host(self.write("run.toml", text))
        self.assertEqual(peer.end(), harness.BAD_INPUT)
        line = text.count("\n") - 1
        self.expect_sentence(peer.errors(), f"run.toml:{line}:1", "[local] needs 'batch'")


if __name__ == "__main__":
    harness.main()
