"""Codecs chosen by tensor, with real processes and an aggregator that knows no tensor."""

from __future__ import annotations

import json

import harness
from harness import ProcessTest, run_text

# Plans count on this: so slow that an aggregator is worth it.
SLOW = ("--plan-up", "1", "--plan-down", "20")
FAST = ("--plan-up", "1000", "--plan-down", "1000")


class Codecs(ProcessTest):
    def adaptive(self, elements: int) -> str:
        """A run file with one tensor: a large one, or a small one."""
        text = run_text(model=f"bowl-{elements}", gradient_ms=40, target=24)
        return self.write("run.toml", text.replace("[averaging]",
                                                   "[averaging]\ncodec = \"adaptive\""))

    def test_check_says_how_many_bytes_adaptive_codecs_send(self) -> None:
        for elements, wanted in ((65535, 2), (65536, 1 + 4 / 1024)):
            checked = self.dedloc("check", self.adaptive(elements), "--json")
            self.assertEqual(json.loads(checked.stdout)["element_bytes"], wanted)

    # Every part says the codec of small tensors, which is not the plan's.
    def test_adaptive_codecs_keep_replicas_identical_whoever_reduces(self) -> None:
        host = self.running_host(self.adaptive(20000), more=SLOW)
        trainers = [host, *(self.join(host.join_string(), f"peer-{i}", more=SLOW) for i in (1, 2))]
        assistant = self.assist(host.join_string(), "assist", more=FAST)
        self.until_shared_steps(10, *trainers)
        self.until("an aggregator reduces", lambda: assistant.events("reduced"))
        self.end_with_one_state(*trainers)
        for peer in (*trainers, assistant):
            for kind in ("refused_message", "refused_input"):
                self.assertEqual(peer.events(kind), [])
        audit = self.dedloc("audit", *(str(trainer.directory) for trainer in trainers),
                            "--json")
        self.assertEqual(audit.returncode, harness.OK, audit.stdout + audit.stderr)


if __name__ == "__main__":
    harness.main()
