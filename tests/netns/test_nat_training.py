#!/usr/bin/env python3
"""People behind home routers train together, and nobody opens a port: real `dedloc` processes."""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from nat_test import DEDLOC, NatTest, Process, main, whole_lines  # noqa: E402


class Training(NatTest):
    def three(self, kind_a: str, kind_b: str) -> None:
        self.net.public("host", "203.0.113.10")
        self.net.home("a", "203.0.113.2", kind_a)
        self.net.home("b", "203.0.113.3", kind_b)
        host = self.host("host")
        string = self.until("a join string", host.join_string)
        peers = [host, self.join("a", string), self.join("b", string)]
        self.train_together(peers)

    def test_two_behind_cones_train_with_a_public_host(self) -> None:
        self.three("port-restricted", "port-restricted")

    def test_two_behind_symmetric_nats_train_over_the_host_as_relay(self) -> None:
        self.three("symmetric", "symmetric")

    def test_nobody_is_public_but_a_relay(self) -> None:
        self.net.public("relay", "203.0.113.10")
        self.net.home("a", "203.0.113.2", "port-restricted")
        self.net.home("b", "203.0.113.3", "symmetric")
        relay = Process(self, "relay", ["relay"])
        address = self.until("the relay's address", lambda: next(
            (line.strip() for line in whole_lines(relay.err) if "/ip4/203.0.113.10/" in line),
            ""))
        host = self.host("a", "--relay", address)

        def string_with_relay() -> str:
            # The string is refreshed every few seconds; in the end it has the relay's address.
            string = host.join_string()
            packed = string.removeprefix("dedloc1")
            plain = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
            return string if b"/p2p-circuit" in plain else ""
        string = self.until("the relay in the join string", string_with_relay)
        other = self.join("b", string)
        self.train_together([host, other])
        relay.process.send_signal(signal.SIGINT)
        relay.process.wait(10)
        self.assertGreater(relay.last_words()["bytes"], 0)

    def test_the_network_check_says_it_in_plain_words(self) -> None:
        self.net.public("host", "203.0.113.10")
        self.net.home("a", "203.0.113.2", "port-restricted")
        host = self.host("host")
        string = self.until("a join string", host.join_string)
        done = subprocess.run(
            self.net.command("a", [DEDLOC, "check", "--network", string]), capture_output=True,
            text=True, timeout=90, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("behind a router or firewall", done.stdout)
        self.assertIn("others see us at /ip4/203.0.113.2/tcp/", done.stdout)
        self.assertIn("is our relay", done.stdout)


if __name__ == "__main__":
    main()
