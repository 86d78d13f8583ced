"""Leaving: Ctrl-C once, twice; and everybody killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time

import harness
from harness import Peer, ProcessTest, run_text


class Leaving(ProcessTest):
    def test_ctrl_c_leaves_in_order(self) -> None:
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        peer = self.join(host.join_string(), "peer")
        self.until_step(5, host, peer)
        for number in (signal.SIGINT, signal.SIGTERM):
            left = len(host.events("peer_left"))
            peer.signal(number)
            self.assertEqual(peer.end(), harness.OK, peer.errors())
            self.assertTrue(peer.last_words()["left"])
            self.assertGreaterEqual(len(peer.checkpoints()), 1)
            self.assertEqual(peer.events("samples_dropped"), [])
            self.until("the host sees it leave",
                       lambda seen=left: len(host.events("peer_left")) > seen)
            self.assertEqual(host.events("peer_lost"), [])
            # The peer comes back as itself, and leaves by the other signal.
            if number == signal.SIGINT:
                step = host.step()
                peer = self.join(host.join_string(), "peer")
                self.until_step(step + 5, host, peer)
        audit = self.dedloc("audit", str(host.directory), str(peer.directory), "--json")
        self.assertEqual(audit.returncode, harness.OK, audit.stderr)

    def test_the_state_is_saved_though_a_gradient_takes_long(self) -> None:
        """A service manager sends SIGKILL ten seconds after SIGTERM. What is saved is private."""
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=40_000,
                                                                 checkpoint_every=50)))
        self.until("it has begun to train", lambda: has_taken_samples(host))
        begun = time.monotonic()
        host.signal(signal.SIGTERM)
        self.assertEqual(host.end(), harness.OK, host.errors())
        self.assertLess(time.monotonic() - begun, 10)
        self.assertTrue(host.last_words()["left"])
        self.assertEqual(len(host.checkpoints()), 1)
        for path in host.directory.rglob("*"):
            if path.is_file():
                self.assertEqual(path.stat().st_mode & 0o077, 0, path)

    def test_nohup_outlives_its_terminal(self) -> None:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does it
        try:
            host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        finally:
            signal.signal(signal.SIGHUP, before)
        step = host.step()
        host.signal(signal.SIGHUP)
        self.until_step(step + 5, host)
        self.alive(host)

    def test_ctrl_c_before_it_has_joined_ends_it(self) -> None:
        """The host is stopped, so that joining would take its whole timeout."""
        host = self.running_host(self.write("run.toml", run_text()))
        join_string = host.join_string()
        host.signal(signal.SIGSTOP)
        peer = self.join(join_string, "peer")
        self.until("it has its folder", lambda: (peer.directory / "identity.key").exists())
        begun = time.monotonic()
        peer.signal(signal.SIGINT)
        # The signal's own end, where nothing catches it yet: 130 to a shell, too.
        self.assertIn(peer.end(), (harness.INTERRUPTED, -signal.SIGINT), peer.errors())
        self.assertLess(time.monotonic() - begun, 5)
        host.signal(signal.SIGCONT)
        self.alive(host)

    def test_second_ctrl_c_ends_at_once(self) -> None:
        """The batch never fills, so that leaving in order would take its whole grace period."""
        host = self.running_host(self.write("run.toml", run_text(target=1_000_000)))
        peer = self.join(host.join_string(), "peer")
        # A peer that has computed nothing need not wait, and would be gone after the first.
        self.until("it computes", lambda: host.events("peer_joined") and has_taken_samples(peer))
        peer.signal(signal.SIGINT)
        time.sleep(0.7)
        self.alive(peer)
        begun = time.monotonic()
        peer.signal(signal.SIGINT)
        self.assertEqual(peer.end(), harness.INTERRUPTED, peer.errors())
        self.assertLess(time.monotonic() - begun, 2)
        self.alive(host)

    def test_a_signal_that_comes_twice_at_once_leaves_in_order(self) -> None:
        """A terminal that closes sends two SIGHUPs; `timeout` signals its child, and then the
        child's group. The batch never fills, so that leaving takes its whole grace period."""
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
        try:
            host = self.running_host(self.write("run.toml", run_text(target=1_000_000)))
            peers = {number: self.join(host.join_string(), number.name)
                     for number in (signal.SIGHUP, signal.SIGTERM)}
        finally:
            signal.signal(signal.SIGHUP, before)
        self.until("they compute", lambda: all(self.alive(peer) and has_taken_samples(peer)
                                               for peer in peers.values()))
        for number, peer in peers.items():
            peer.signal(number)
            self.until("it has got it", lambda: not is_pending(peer, number))
            peer.signal(number)
        for peer in peers.values():
            self.assertEqual(peer.end(), harness.OK, peer.errors())
            self.assertTrue(peer.last_words()["left"])

    def test_the_accuracy_that_was_seen_is_told_though_who_measured_it_has_left(self) -> None:
        text = run_text(gradient_ms=20).replace("[evaluate]\nevery = 0", "[evaluate]\nevery = 20")
        host = self.running_host(self.write("run.toml", text))
        guest = self.join(host.join_string(), "guest")

        def measured(peer: Peer) -> list[dict]:
            return [event for event in peer.events("evaluation") if not event.get("peer")]

        self.until("one of them measures", lambda: self.alive(host) and self.alive(guest)
                   and (measured(host) or measured(guest)))
        first, last = (host, guest) if measured(host) else (guest, host)
        self.until_step(last.step() + 6, first, last)
        first.signal(signal.SIGINT)
        self.assertEqual(first.end(), harness.OK, first.errors())
        self.until("the other one sees it leave", lambda: last.events("peer_left"))
        last.signal(signal.SIGINT)
        self.assertEqual(last.end(), harness.OK, last.errors())
        self.assertGreaterEqual(last.last_words()["accuracy_step"], 20)
        heard = [event for event in last.events("evaluation") if event.get("peer")]
        self.assertTrue(heard, "its log has what the other one measured")

    def test_everybody_killed_and_resumed(self) -> None:
        """From the newest checkpoint of any peer the run goes on, and others join again."""
        run = self.write("run.toml", run_text(gradient_ms=20, checkpoint_every=5))
        host = self.running_host(run)
        peers = [host, *(self.join(host.join_string(), f"peer-{i}") for i in (1, 2))]
        self.until_step(12, *peers)
        self.until("checkpoints", lambda: all(peer.checkpoints() for peer in peers))
        for peer in peers:
            os.kill(peer.process.pid, signal.SIGKILL)
        for peer in peers:
            peer.end()
        saved = int(peers[1].checkpoints()[-1].name.split("-")[1])
        counted = samples_reserved(peers[1])
        self.assertGreaterEqual(saved, 5)

        again = Resumed(self, peers[1])
        self.until("the run is resumed", lambda: self.alive(again.host) and again.join_string())
        newcomer = self.join(again.join_string(), "peer-2")
        self.until_step(saved + 6, again.host, newcomer)
        started = again.host.events("run_started")[-1]
        self.assertIn(f"step {saved}", started["text"])
        for hashes in states_after(saved, again.host, newcomer).values():
            self.assertEqual(len(hashes), 1, "the peers differ after the resumption")
        # Samples that were handed in before the kill are not computed again.
        self.assertGreaterEqual(samples_reserved(again.host), counted)

    def test_a_run_outlives_its_host_and_who_joined_after_it(self) -> None:
        """Nobody is needed for good: a guest invites another one, and that one goes on with whoever
        is left."""
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        a, b = (self.join(host.join_string(), name) for name in ("a", "b"))
        self.until_step(8, host, a, b)
        host.stop_for_good()
        self.until_step(a.step() + 5, a, b)
        invited = self.dedloc("invite", "--dir", str(a.directory), "--json")
        self.assertEqual(invited.returncode, harness.OK, invited.stderr)
        c = self.join(json.loads(invited.stdout)["join_string"], "c")
        self.until("c has joined", lambda: self.alive(c) and c.step() > 0)
        self.until_step(a.step() + 5, a, b, c)
        a.stop_for_good()
        step = max(b.step(), c.step())
        self.until_step(step + 10, b, c)
        states = states_after(step + 1, b, c)
        self.assertGreaterEqual(len(states), 5)
        for at, hashes in states.items():
            self.assertEqual(len(hashes), 1, f"b and c differ at step {at}")

    def test_a_run_that_is_begun_again_is_the_newest_one(self) -> None:
        """The new run has fewer steps than the rehearsal in the same folder; still evaluation and
        resumption take the new one, and the folder goes on being that of the peer."""
        run = self.write("run.toml", run_text(gradient_ms=20, checkpoint_every=2))
        rehearsal = self.running_host(run)
        self.until_step(9, rehearsal)
        rehearsal.signal(signal.SIGINT)
        self.assertEqual(rehearsal.end(), harness.OK, rehearsal.errors())
        reached = rehearsal.checkpoints()[-1]
        real = self.host(run, view="--plain")
        self.until("it trains", lambda: re.search(r"step \d+  loss", real.out.read_text()))
        real.signal(signal.SIGINT)
        self.assertEqual(real.end(), harness.OK, real.errors())
        self.assertIn(f"--resume {real.directory}", real.out.read_text())
        self.assertEqual(len(real.events("earlier_checkpoints")), 1)
        self.assertIn(reached, real.checkpoints())
        step = real.last_words()["step"]
        self.assertLess(step, 9)
        done = self.dedloc("eval", str(real.directory), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["step"], step)

    def test_a_resumed_run_stays_in_the_folder_it_came_from(self) -> None:
        host = self.host(self.write("run.toml", run_text(gradient_ms=20, steps=4)))
        self.assertEqual(host.end(), harness.OK, host.errors())
        again = self.dedloc("host", "--resume", str(host.directory / "checkpoints"), "--listen",
                            "127.0.0.1:0", "--threads", "1", "--quiet", "--json")
        self.assertEqual(again.returncode, harness.OK, again.stderr)
        self.assertEqual(json.loads(again.stdout)["directory"], str(host.directory))

    def test_a_copied_folder_is_said_to_be_one_once(self) -> None:
        host = self.host(self.write("run.toml", run_text(gradient_ms=20, steps=4)))
        self.assertEqual(host.end(), harness.OK, host.errors())
        copy = shutil.copytree(host.directory, host.directory.with_name("elsewhere"))
        told = []
        for folder in (host.directory, copy, copy):
            again = self.dedloc("host", "--resume", str(folder), "--listen", "127.0.0.1:0",
                                "--threads", "1", "--quiet", "--json")
            self.assertEqual(again.returncode, harness.OK, again.stderr)
            told.append("seems to be a copy" in again.stderr)
        self.assertEqual(told, [False, True, False])

    def test_who_still_loads_the_state_is_told_so_and_may_end_it(self) -> None:
        run = self.write("run.toml", run_text(model="bowl-1000000", gradient_ms=200))
        host = self.running_host(run)
        peer = self.join(host.join_string(), "peer", more=("--max-down", "0.5"), view="--plain")
        self.until("it is told", lambda: "downloading the state: " in peer.out.read_text())
        self.alive(peer)
        peer.signal(signal.SIGINT)
        self.assertEqual(peer.end(10), harness.INTERRUPTED, peer.errors())
        self.assertFalse(peer.last_words()["ok"])


class Resumed:
    """`host --resume` in the folder of a peer that was killed: it is that peer again."""

    def __init__(self, test: ProcessTest, peer: harness.Peer) -> None:
        self.before = peer.join_string()
        self.host = test.host("", name=peer.directory.name,
                              more=("--resume", str(peer.directory)))

    def join_string(self) -> str:
        now = self.host.join_string()
        return "" if now == self.before else now


def has_taken_samples(peer: harness.Peer) -> bool:
    return (peer.directory / "samples").exists()


def is_pending(peer: harness.Peer, number: signal.Signals) -> bool:
    """Whether the signal was sent to the process and waits for one of its threads."""
    with open(f"/proc/{peer.process.pid}/status", encoding="ascii", errors="replace") as status:
        pending = next(line for line in status if line.startswith("ShdPnd:"))
    return int(pending.split()[1], 16) >> (number - 1) & 1 == 1


def samples_reserved(peer: harness.Peer) -> int:
    return int.from_bytes((peer.directory / "samples").read_bytes(), "big")


def states_after(step: int, *peers: harness.Peer) -> dict[int, set[str]]:
    """State hashes by step, of the newest process of each folder."""
    states: dict[int, set[str]] = {}
    for peer in peers:
        events = peer.events()
        starts = [i for i, event in enumerate(events) if event["kind"] in ("run_started", "joined")]
        for event in events[starts[-1]:]:
            if event["kind"] == "step" and event["fields"]["step"] > step:
                states.setdefault(event["fields"]["step"], set()).add(event["fields"]["state_hash"])
    return states


if __name__ == "__main__":
    harness.main()
