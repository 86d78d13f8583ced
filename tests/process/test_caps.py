"""`--max-up` and `--max-down` bound what a peer really sends and receives, counted on its way."""

from __future__ import annotations

import socket
import threading
import time

import harness
from harness import Peer, ProcessTest, free_port, run_text

MBIT = 1e6 / 8  # bytes per second
BURST_SECONDS = 0.05
# TCP has this under way when a count begins or ends: the proxy's and the peers' kernels hold it.
UNDER_WAY_BYTES = 256 * 1024


class CountingProxy:
    """Passes connections on to a port of this machine and counts what goes each way."""

    def __init__(self, port: int, target: int) -> None:
        self.target = target
        self.sent = 0  # by those who connect
        self.received = 0
        self._lock = threading.Lock()
        self._sockets = [socket.create_server(("127.0.0.1", port))]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._sockets[0].accept()
                theirs = socket.create_connection(("127.0.0.1", self.target))
                self._sockets += [ours, theirs]
            except OSError:
                return
            for source, sink, name in ((ours, theirs, "sent"), (theirs, ours, "received")):
                threading.Thread(target=self._carry, args=(source, sink, name),
                                 daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        try:
            while data := source.recv(64 * 1024):
                with self._lock:
                    setattr(self, name, getattr(self, name) + len(data))
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Caps(ProcessTest):
    def behind_proxy(self, *caps: str, elements: int = 400_000) -> tuple[CountingProxy, Peer, Peer]:
        """A host whom others reach through a proxy only, and a peer with caps that nobody can
        dial: all that it sends and receives is counted.
        """
        run = self.write("run.toml",
                         run_text(model=f"bowl-{elements}", gradient_ms=20, target=8))
        inside, outside = free_port(), free_port()
        proxy = CountingProxy(outside, inside)
        self.addCleanup(proxy.close)
        host = self.running_host(
            run, listen=f"127.0.0.1:{inside}",
            more=("--announce", f"/ip4/127.0.0.1/tcp/{outside}"))
        return proxy, host, self.join(host.join_string(), "capped", listen="none", more=caps)

    def counted(self, proxy: CountingProxy, name: str, seconds: float) -> tuple[float, float]:
        """Bytes that went that way, and the time in which they did."""
        begun, before = time.monotonic(), getattr(proxy, name)
        time.sleep(seconds)
        bytes_counted = getattr(proxy, name) - before
        return bytes_counted, time.monotonic() - begun

    def expect_cap(self, proxy: CountingProxy, name: str, mbit: float) -> None:
        sent, seconds = self.counted(proxy, name, seconds=8)
        self.assertLessEqual(sent, mbit * MBIT * (seconds + BURST_SECONDS) + UNDER_WAY_BYTES)
        # The peer had as much to send as it may, and more; a busy machine takes its time.
        self.assertGreater(sent, 0.25 * mbit * MBIT * seconds)

    def test_a_peer_sends_no_more_than_its_cap(self) -> None:
        proxy, host, peer = self.behind_proxy("--max-up", "4")
        self.until_step(2, peer)
        self.expect_cap(proxy, "sent", 4)
        self.assertEqual([(event["fields"]["up_mbit"], event["fields"]["down_mbit"])
                          for event in peer.events("caps")], [(4, 0)])
        self.until_step(max(host.step(), peer.step()) + 1, host, peer)

    def test_a_peer_receives_no_more_than_its_cap(self) -> None:
        # The state alone takes it longer than is counted.
        proxy, _, peer = self.behind_proxy("--max-down", "4", elements=2_000_000)
        self.until("the state comes", lambda: proxy.received > UNDER_WAY_BYTES)
        self.expect_cap(proxy, "received", 4)
        self.alive(peer)

    def test_a_schedule_counts_at_its_time_of_the_day(self) -> None:
        # All day but for a minute that is not now.
        other = time.localtime(time.time() + 6 * 3600)
        later = time.localtime(time.time() + 6 * 3600 + 60)
        schedule = (f"100,{later.tm_hour:02}:{later.tm_min:02}"
                    f"-{other.tm_hour:02}:{other.tm_min:02}=4")
        proxy, _, peer = self.behind_proxy("--max-up", schedule)
        self.until_step(2, peer)
        self.until("the caps are told", lambda: bool(peer.events("caps")))
        self.assertEqual([event["fields"]["up_mbit"] for event in peer.events("caps")], [4])
        self.expect_cap(proxy, "sent", 4)

    def test_a_cap_that_cannot_be_read_is_said_with_an_example(self) -> None:
        run = self.write("run.toml", run_text())
        for option, value in (("--max-up", "fast"), ("--max-down", "5,23:00-07:00"),
                              ("--max-up", "23:00-07:00=50")):
            done = self.dedloc("host", run, option, value, "--dir", str(self.folder / "host"))
            self.assertEqual(done.returncode, harness.BAD_INPUT)
            self.expect_sentence(done.stderr, option, value, "5,23:00-07:00=50")


if __name__ == "__main__":
    harness.main()
