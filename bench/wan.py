"""Machines that are far apart, on this computer: a network namespace each, on one switch in user
space with a rate, a queue and a delay for each line (netem is missing on many kernels).

    with Wan(peers=4, mbit=50, round_trip_ms=50) as wan:
        subprocess.Popen([*wan.inside(0), "ping", wan.ip(1)])

Frames of 9,000 bytes keep the switch, which is a process of Python's, at some percent of a core.
Needs root. Nothing touches the root namespace, nothing can leave.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
MTU = 9000
QUEUE_SECONDS = 0.1  # of a full line; more is dropped, as by routers at home
READS_IN_A_ROW = 32


def ip_command(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Wan:
    def __init__(self, peers: int, mbit: float, round_trip_ms: float) -> None:
        self.names = [f"dedloc-wan-{os.getpid()}-{i}" for i in range(peers)]
        self._line = [str(mbit), str(round_trip_ms)]
        self._switch: subprocess.Popen | None = None

    def ip(self, number: int) -> str:
        return f"10.78.0.{number + 1}"

    def inside(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", self.names[number]]

    def __enter__(self) -> "Wan":
        try:
            for name in self.names:
                ip_command("netns", "add", name)
                ip_command("-n", name, "link", "set", "lo", "up")
            self._switch = subprocess.Popen(
                [sys.executable, __file__, *self._line, *self.names], stdout=subprocess.PIPE,
                text=True)
            if self._switch.stdout.readline() != "ready\n":
                raise OSError("the switch does not start")
            for number, name in enumerate(self.names):
                ip_command("-n", name, "link", "set", "eth0", "mtu", str(MTU), "up")
                ip_command("-n", name, "addr", "add", f"{self.ip(number)}/24", "dev", "eth0")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._switch is not None:
            self._switch.kill()
            self._switch.wait()
            self._switch.stdout.close()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


class Shaper:
    """When a line has carried what came before."""

    def __init__(self, bits_per_s: float) -> None:
        self.bits_per_s, self.free_at = bits_per_s, 0.0

    def carried_at(self, now: float, size: int) -> float | None:
        if self.bits_per_s == 0:
            return now
        begin = max(now, self.free_at)
        if begin - now > QUEUE_SECONDS:
            return None
        self.free_at = begin + size * 8 / self.bits_per_s
        return self.free_at


class Port:
    def __init__(self, name: str, bits_per_s: float) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        namespace = os.open(f"/run/netns/{name}", os.O_RDONLY)
        if libc.setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {name}")
        os.close(namespace)
        self.tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tap, TUNSETIFF, struct.pack("16sH", b"eth0", IFF_TAP | IFF_NO_PI))
        self.up, self.down = Shaper(bits_per_s), Shaper(bits_per_s)


class Switch:
    def __init__(self, bits_per_s: float, one_way: float, names: list[str]) -> None:
        self.one_way = one_way
        self.ports = [Port(name, bits_per_s) for name in names]
        self.by_tap = {port.tap: port for port in self.ports}
        self.by_address: dict[bytes, Port] = {}
        self.flying: list[tuple[float, int, Port, bytes]] = []
        self.number = 0

    def take_in(self, port: Port) -> None:
        for _ in range(READS_IN_A_ROW):
            try:
                frame = os.read(port.tap, 65536)
            except BlockingIOError:
                return
            except OSError:  # not up yet
                return
            self.by_address[frame[6:12]] = port
            left = port.up.carried_at(time.monotonic(), len(frame))
            if left is None:
                continue
            known = self.by_address.get(frame[:6])
            for to in [known] if known else [p for p in self.ports if p is not port]:
                arrived = to.down.carried_at(left + self.one_way, len(frame))
                if arrived is not None:
                    self.number += 1
                    heapq.heappush(self.flying, (arrived, self.number, to, frame))

    def run(self) -> None:
        poll = select.epoll()
        for port in self.ports:
            poll.register(port.tap, select.EPOLLIN)
        print("ready", flush=True)
        while True:
            wait = -1.0 if not self.flying else max(0.0, self.flying[0][0] - time.monotonic())
            for tap, _ in poll.poll(wait):
                self.take_in(self.by_tap[tap])
            now = time.monotonic()
            while self.flying and self.flying[0][0] <= now:
                _, _, to, frame = heapq.heappop(self.flying)
                try:
                    os.write(to.tap, frame)
                except OSError:  # a machine that is going down, or whose queue is full
                    pass


if __name__ == "__main__":
    os.nice(-10)  # a line does not wait for a busy processor
    Switch(float(sys.argv[1]) * 1e6, float(sys.argv[2]) / 2000, sys.argv[3:]).run()
