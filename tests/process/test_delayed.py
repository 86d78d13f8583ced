"""The delayed update with real processes: peers compute while a step is made."""

from __future__ import annotations

import harness
from harness import ProcessTest, run_text


class Delayed(ProcessTest):
    def test_peers_that_compute_ahead_stay_identical(self) -> None:
        text = run_text(gradient_ms=20, target=32, steps=40).replace(
            "[averaging]\n", "[averaging]\ndelayed = true\n")
        host = self.running_host(self.write("run.toml", text))
        join = host.join_string()
        others = [self.join(join, f"peer-{i}") for i in range(2)]
        for peer in (host, *others):
            self.assertEqual(peer.end(50), harness.OK, peer.errors())
        words = [peer.last_words() for peer in (host, *others)]
        self.assertEqual({word["step"] for word in words}, {40})
        self.assertEqual(len({word["state_hash"] for word in words}), 1)
        # What the steps took beyond what was handed in before the end was not computed for nothing.
        self.assertLessEqual(words[0]["samples"], sum(word["samples_computed"] for word in words))

    def test_a_peer_that_computes_ahead_leaves_in_order(self) -> None:
        text = run_text(gradient_ms=20, target=32).replace(
            "[averaging]\n", "[averaging]\ndelayed = true\n")
        host = self.running_host(self.write("run.toml", text))
        guest = self.join(host.join_string(), "guest")
        self.until_step(5, host, guest)
        guest.signal(2)
        self.assertEqual(guest.end(), harness.OK, guest.errors())
        self.assertEqual(len(guest.events("left")), 1)
        step = host.step()
        self.until_step(step + 5, host)


if __name__ == "__main__":
    harness.main()
