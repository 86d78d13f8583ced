#!/usr/bin/env python3
"""A home router that opens ports (miniupnpd): strangers dial a peer behind it, directly."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import network  # noqa: E402
from nat_test import DEDLOC, NatTest, Process, main, whole_lines  # noqa: E402

# miniupnpd opens no port on an address of the blocks for documentation. These are public, nobody
# uses them, and nothing leaves the namespaces anyway.
ROUTER, STRANGER = "192.0.1.2", "192.0.1.10"
ROUTER_PORT = f"/ip4/{ROUTER}/tcp/4001"


class PortMapping(NatTest):
    def setUp(self) -> None:
        why = network.why_no_daemon()
        if why:
            self.skipTest(why)
        super().setUp()
        self.net.home("a", ROUTER, "port-restricted")
        self.net.public("stranger", STRANGER)
        self.daemons: list[subprocess.Popen] = []
        self.addCleanup(self.stop_daemons)

    def stop_daemons(self) -> None:
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait(10)
        self.daemons.clear()

    def start_daemon(self, nat_pmp: bool, upnp: bool) -> None:
        daemon = self.net.opens_ports("a", self.folder, nat_pmp, upnp)
        self.daemons.append(daemon)
        log = self.folder / "a-miniupnpd.log"
        words = "Listening for NAT-PMP" if nat_pmp else "HTTP listening"
        self.until("miniupnpd listens", lambda: words in log.read_text(errors="replace"), 10)

    def has_open_port(self) -> bool:
        return "dnat" in self.net.rules("a")

    def string_with(self, host: Process, address: str) -> str:
        """The host's join string, once that address is in it (as text or in packed form)."""
        def look() -> str:
            string = host.join_string()
            packed = string.removeprefix("dedloc1")
            plain = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
            return string if address.encode() in plain else ""
        return self.until(f"{address} in the join string", look, 30)

    def check(self, machine: str, string: str, *more: str) -> dict:
        """Runs `dedloc check --network` there."""
        began = time.monotonic()
        words = [DEDLOC, "check", "--network", string, "--listen", "0.0.0.0:4001", *more]
        done = subprocess.run(self.net.command(machine, [*words, "--json"]), capture_output=True,
                              text=True, timeout=90, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout.strip().splitlines()[-1])
        return {**found, "seconds": time.monotonic() - began}

    def a_stranger_trains_with_the_host_behind_it(self, protocol: str) -> None:
        host = self.host("a")
        string = self.string_with(host, ROUTER_PORT)
        self.assertTrue(self.has_open_port())
        # There is no relay anywhere, and nobody to punch a hole with: the stranger just dials.
        self.train_together([host, self.join("stranger", string)])
        said = (self.folder / "a.err").read_text(errors="replace")
        self.assertIn(f"the router opened port 4001 for this peer by {protocol}", said)
        self.assertIn("reachability: public", said)
        self.assertNotIn("circuit", said)
        self.assertFalse(self.has_open_port(), "the port is closed when the program has ended")

    def test_by_nat_pmp_a_stranger_reaches_the_host_behind_the_router(self) -> None:
        self.start_daemon(nat_pmp=True, upnp=False)
        self.a_stranger_trains_with_the_host_behind_it("NAT-PMP")

    def test_by_upnp_a_stranger_reaches_the_host_behind_the_router(self) -> None:
        self.start_daemon(nat_pmp=False, upnp=True)
        self.a_stranger_trains_with_the_host_behind_it("UPnP")

    def test_the_string_that_a_host_shows_first_has_what_the_router_opened(self) -> None:
        self.start_daemon(nat_pmp=True, upnp=True)
        words = ["host", self.run_file(), "--listen", "0.0.0.0:4001", "--plain"]
        host = Process(self, "a", words)

        def shown() -> list[str]:
            lines = whole_lines(host.out)
            return [line.split(" join ")[1] for line in lines if " join dedloc1" in line]
        self.until("a join string is shown", shown, 20)
        packed = shown()[0].removeprefix("dedloc1")
        plain = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        self.assertIn(ROUTER_PORT.encode(), plain)
        self.assertNotIn("leads only", host.out.read_text(errors="replace"))

    def test_without_a_router_that_answers_it_is_said_where_the_string_leads(self) -> None:
        host = Process(self, "a", ["host", self.run_file(), "--listen", "0.0.0.0:4001", "--plain"])
        said = "leads only into this machine's own network"
        self.until("it is said", lambda: said in host.out.read_text(errors="replace"), 20)

    def test_the_network_check_says_what_the_router_did(self) -> None:
        host = self.host("stranger")
        string = self.until("a join string", host.join_string)
        none = self.check("a", string)
        self.assertEqual(none["reachability"], "hole_punchable")
        self.assertEqual(none["router"], "no router answered UPnP or NAT-PMP")
        off = self.check("a", string, "--no-port-mapping")
        self.assertEqual(off["reachability"], "hole_punchable")
        self.assertIn("switched off", off["router"])
        # A router that does not answer costs no time: the dial back takes longer anyway.
        self.assertLess(none["seconds"], off["seconds"] + 3)

        self.start_daemon(nat_pmp=True, upnp=True)
        opened = self.check("a", string)
        self.assertEqual(opened["reachability"], "port_mapped")
        self.assertEqual(opened["public"], [ROUTER_PORT])
        self.assertEqual(opened["mapped"], ROUTER_PORT)
        self.assertEqual(opened["router"], "the router opened port 4001 for this peer by NAT-PMP")
        self.assertLess(opened["seconds"], none["seconds"])
        self.assertFalse(self.has_open_port())

    def test_a_router_that_is_gone_does_not_hold_up_the_end(self) -> None:
        self.start_daemon(nat_pmp=True, upnp=True)
        relay = Process(self, "a", ["relay"])
        self.until("an open port", self.has_open_port, 20)
        self.until("the address to give on", lambda: ROUTER_PORT in relay.said(), 20)
        self.stop_daemons()
        began = time.monotonic()
        relay.process.send_signal(signal.SIGINT)
        self.assertEqual(relay.process.wait(20), 0)
        self.assertLess(time.monotonic() - began, 8)


if __name__ == "__main__":
    main()
