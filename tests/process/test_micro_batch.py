"""A micro-batch that each peer finds by itself, with real processes."""

from __future__ import annotations

import json

import harness
from harness import ProcessTest, run_text


class MicroBatch(ProcessTest):
    def test_peers_find_their_own_micro_batches_and_lose_nothing(self) -> None:
        # A gradient takes 200 ms, however many samples it has: the whole batch is the best.
        run = run_text(gradient_ms=200, target=64).replace("micro = 2", 'micro = "auto"')
        host = self.running_host(self.write("run.toml", run))
        guest = self.join(host.join_string(), "guest")
        self.until_shared_steps(8, host, guest)
        words = self.end_with_one_state(host, guest)
        found = host.events("micro_batch")
        self.assertEqual(len(found), 1)
        self.assertIn("computes 64 samples at a time", found[0]["text"])
        self.audit_finds_nothing_lost(words)

    def test_check_says_what_this_machine_would_find(self) -> None:
        run = run_text(gradient_ms=100, target=16, steps=30).replace("micro = 2", 'micro = "auto"')
        path = self.write("run.toml", run)
        done = self.dedloc("check", path)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertIn("16 samples at a time on this machine", done.stdout)
        done = self.dedloc("check", path, "--json")
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["micro_batch"], 16)


if __name__ == "__main__":
    harness.main()
