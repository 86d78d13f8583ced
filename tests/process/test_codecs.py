"""Codecs chosen by tensor, with real processes and an aggregator that knows no tensor."""

from __future__ import annotations

import json

import harness
from harness import ProcessTest, run_text

# Plans count on this: so slow that an aggregator is worth it.
SLOW = ("--plan-up", "1", "--plan-down", "20")
FAST = ("--plan-up", "1000", "--plan-down", "1000")


class Codecs(ProcessTest):
    def adaptive(self, elements: int, steps: int = 0) -> str:
        """A run file with one tensor: a large one, or a small one."""
        text = run_text(model=f"bowl-{elements}", gradient_ms=60, target=24, steps=steps)
        return self.write("run.toml", text.replace("[averaging]",
                                                   "[averaging]\ncodec = \"adaptive\""))

    def test_check_says_how_many_bytes_adaptive_codecs_send(self) -> None:
        for elements, wanted in ((65535, 2), (65536, 1 + 4 / 1024)):
            checked = self.dedloc("check", self.adaptive(elements), "--json")
            self.assertEqual(json.loads(checked.stdout)["element_bytes"], wanted)

    # Every part says the codec of small tensors, which is not the plan's.
    def test_adaptive_codecs_keep_replicas_identical_whoever_reduces(self) -> None:
        steps = 30
        host = self.running_host(self.adaptive(20000, steps), more=SLOW)
        trainers = [host, *(self.join(host.join_string(), f"peer-{i}", more=SLOW) for i in (1, 2))]
        assistant = self.assist(host.join_string(), "assist", more=FAST)
        for trainer in trainers:
            self.assertEqual(trainer.end(40), harness.OK, trainer.errors())
        self.they_shared_a_step(*trainers)
        words = [trainer.last_words() for trainer in trainers]
        self.assertEqual({word["step"] for word in words}, {steps})
        self.assertEqual(len({word["state_hash"] for word in words}), 1)
        self.assertTrue(assistant.events("reduced"))
        for peer in (*trainers, assistant):
            for kind in ("refused_message", "refused_input"):
                self.assertEqual(peer.events(kind), [])
        audit = self.dedloc("audit", *(str(trainer.directory) for trainer in trainers),
                            "--json")
        self.assertEqual(audit.returncode, harness.OK, audit.stdout + audit.stderr)


if __name__ == "__main__":
    harness.main()
