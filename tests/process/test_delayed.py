"""The delayed update with real processes: peers compute while a step is made."""

from __future__ import annotations

import signal

import harness
from harness import ProcessTest, run_text


def delayed_run(gradient_ms=20, **keys) -> str:
    return run_text(gradient_ms=gradient_ms, target=32, **keys).replace(
        "[averaging]\n", "[averaging]\ndelayed = true\n")


class Delayed(ProcessTest):
    def test_peers_that_compute_ahead_stay_identical_and_lose_nothing(self) -> None:
        host = self.running_host(self.write("run.toml", delayed_run()))
        join = host.join_string()
        others = [self.join(join, f"peer-{i}") for i in range(2)]
        self.until_shared_steps(10, host, *others)
        words = self.end_with_one_state(host, *others)
        self.assertLessEqual(words[0]["samples"], sum(word["samples_computed"] for word in words))
        self.audit_finds_nothing_lost(words)

    def test_a_peer_that_computes_ahead_leaves_in_order(self) -> None:
        host = self.running_host(self.write("run.toml", delayed_run()))
        guest = self.join(host.join_string(), "guest")
        self.until_step(5, host, guest)
        guest.signal(signal.SIGINT)
        self.assertEqual(guest.end(), harness.OK, guest.errors())
        self.assertEqual(len(guest.events("left")), 1)
        # All that it had computed, ahead or not, it handed in.
        self.assertEqual(guest.events("samples_dropped"), [])
        self.until_step(host.step() + 5, host)
        host.signal(signal.SIGINT)
        host.end()
        self.audit_finds_nothing_lost([host.last_words(), guest.last_words()])


if __name__ == "__main__":
    harness.main()
