"""Local updates with real processes: peers make steps of their own between rounds."""

from __future__ import annotations

import signal

import harness
from harness import Peer, ProcessTest, run_text

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
[checkpoint]
every = 0
[evaluate]
every = 5
"""


class Local(ProcessTest):
    def three(self, run: str) -> list[Peer]:
        """The host and two guests."""
        host = self.running_host(self.write("run.toml", run))
        return [host, *(self.join(host.join_string(), f"peer-{i}") for i in range(2))]

    def test_peers_with_steps_of_their_own_stay_identical_and_lose_nothing(self) -> None:
        run = run_text(gradient_ms=20, target=64, peak=0.7)
        peers = self.three(run + LOCAL.format(batch=4, kind="sgd", peak=0.01))
        self.until_shared_steps(8, *peers)
        self.audit_finds_nothing_lost(self.end_with_one_state(*peers))

    def test_fragments_take_turns_and_lose_nothing(self) -> None:
        run = run_text(gradient_ms=20, target=64, peak=0.7)
        local = LOCAL.replace("[local]\n", "[local]\nfragments = 3\n")
        peers = self.three(run + local.format(batch=4, kind="sgd", peak=0.01))
        self.until_shared_steps(10, *peers)
        self.audit_finds_nothing_lost(self.end_with_one_state(*peers))

    def test_a_killed_peer_s_steps_of_waiting_fragments_are_told_when_it_returns(self) -> None:
        run = run_text(gradient_ms=20, target=64, peak=0.7)
        local = LOCAL.replace("[local]\n", "[local]\nfragments = 3\n")
        host, killed, other = self.three(run + local.format(batch=4, kind="sgd", peak=0.01))
        self.until_shared_steps(8, host, killed, other)
        killed.signal(signal.SIGKILL)
        killed.end()
        again = self.join(host.join_string(), killed.directory.name)

        def told() -> list[dict]:
            return [event for event in again.events("samples_dropped")
                    if "was killed: its local steps on fragments" in event["text"]]

        self.until("its loss is told", lambda: self.alive(again) and told())
        self.assertGreater(told()[0]["fields"]["samples"], 0)

    def test_an_eighth_of_the_rounds_tells_clothes_apart(self) -> None:
        if not self.has_libtorch():
            self.skipTest("this dedloc was built without libtorch")
        if self.dedloc("check", self.write("run.toml", FASHION)).returncode \
                == harness.DATA_MISSING:
            self.skipTest("wants the Debian package dataset-fashion-mnist")
        peers = self.three(FASHION + LOCAL.format(batch=32, kind="adamw", peak=0.001))
        self.until_shared_steps(8, *peers)
        self.until("they tell clothes apart", lambda: any(  # of ten kinds; chance is 0.1
            event["fields"]["accuracy"] > 0.7
            for peer in peers for event in peer.events("evaluation")))
        self.end_with_one_state(*peers)

    def test_a_section_without_a_batch_is_refused_with_its_place(self) -> None:
        text = run_text() + "[local.optimizer]\nkind = \"adamw\"\n"
        peer = self.host(self.write("run.toml", text))
        self.assertEqual(peer.end(), harness.BAD_INPUT)
        line = text.count("\n") - 1
        self.expect_sentence(peer.errors(), f"run.toml:{line}:1", "[local] needs 'batch'")


if __name__ == "__main__":
    harness.main()
