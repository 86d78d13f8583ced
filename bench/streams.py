"""The measures of ./bench.sh stream: one stream, calls, connections, against go-libp2p and iperf3.

All take turns on the same machine in the same minute. Where Go, its modules or iperf3 cannot be
had, a line on standard error says so, and the measure has the other anchor."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))
import partners  # noqa: E402 (the folder is not a package)

MEGABYTES = 512
CALLS_PER_S_MIN = 20_000
CONNECTIONS = 2_000
CONNECTIONS_BYTES_MAX = 100_000_000
TURNS = 5


class Server:
    """`stream_bench serve`, for as long as the block lasts."""

    def __init__(self, program: Path, security: str):
        self.process = subprocess.Popen([program, "serve", "--security", security],
                                        stdout=subprocess.PIPE, text=True)
        self.program, self.security = program, security
        self.address = self.process.stdout.readline().strip()

    def measure(self, what: str, *options: str) -> dict:
        done = subprocess.run([self.program, what, "--security", self.security, "--address",
                               self.address, *options], stdout=subprocess.PIPE, text=True,
                              timeout=300, check=True)
        return json.loads(done.stdout.strip().split("\n")[-1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def go_peers(stack: contextlib.ExitStack, security: str):
    """Two go-libp2p peers, connected; None without Go."""
    go = partners.Go(Path(__file__).resolve().parent.parent / "build" / "interop")
    try:
        go.prepare()
    except (partners.Unavailable, partners.Failed) as why:
        print(f"stream: no go-libp2p beside us: {why}", file=sys.stderr)
        return None
    logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dedloc-bench-")))
    source, sink = go.start(logs, security=security), go.start(logs, security=security)
    stack.callback(source.stop)
    stack.callback(sink.stop)
    source.ask("connect", address=sink.address)
    return source, sink


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def iperf(megabytes: int):
    """Bytes a second of one plain TCP connection on loopback; None without iperf3."""
    program = shutil.which("iperf3")
    if not program:
        return None
    port = str(free_port())
    server = subprocess.Popen([program, "--server", "--one-off", "--port", port, "--forceflush"],
                              stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            if "listening" in line:
                break
        done = subprocess.run([program, "--client", "127.0.0.1", "--port", port, "--json",
                               "--bytes", f"{megabytes}M"], stdout=subprocess.PIPE, text=True,
                              timeout=120, check=True)
        return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 8
    finally:
        server.kill()
        server.wait()


def stream_pair(setup, measure, security: str) -> list[dict]:
    """One stream of 512 MiB over one kind of encryption, and its anchors, in turns."""
    megabytes = MEGABYTES // (32 if setup.quick else 1)
    ours, gos, plain = [], [], []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(setup.program("stream_bench"), security))
        pair = go_peers(stack, security)
        for _ in range(1 if setup.quick else TURNS):
            ours.append(server.measure("stream", "--megabytes", str(megabytes)))
            if pair:
                source, sink = pair
                source.ask("pour", peer=sink.id, bytes=16 << 20)  # its windows grow, as ours do
                took = source.ask("pour", peer=sink.id, bytes=megabytes << 20)["seconds"]
                gos.append((megabytes << 20) / took)
            plain.append(iperf(megabytes))
    plain = [rate for rate in plain if rate]
    anchor, anchors = ("go-libp2p", gos) if gos else ("iperf3, in the clear", plain)
    if not anchors:
        raise partners.Unavailable("neither go-libp2p nor iperf3 (Debian: iperf3) is here")
    more = {"cpu_ns_per_byte": 1e9 * statistics.median(
        one["cpu_here_s"] + one["cpu_there_s"] for one in ours) / (megabytes << 20)}
    if plain:
        more["iperf3"] = statistics.median(plain) / 1e9
    return [measure(f"stream_{security}",
                    statistics.median(one["bytes_per_s"] for one in ours) / 1e9, "GB/s", anchor,
                    statistics.median(anchors) / 1e9,
                    **{name: round(value, 3) for name, value in more.items()},
                    best=round(max(one["bytes_per_s"] for one in ours) / 1e9, 3),
                    anchor_best=round(max(anchors) / 1e9, 3))]


def rpc(setup, measure) -> list[dict]:
    """Unary calls of 100 bytes, 64 at a time, on one connection."""
    calls = 2_000 if setup.quick else 40_000
    with Server(setup.program("stream_bench"), "tls") as server:
        runs = [server.measure("rpc", "--calls", str(calls))
                for _ in range(1 if setup.quick else TURNS)]
    return [measure("rpc", statistics.median(one["calls_per_s"] for one in runs), "calls/s",
                    "the promise", CALLS_PER_S_MIN,
                    cpu_us=round(statistics.median(one["cpu_us_here"] + one["cpu_us_there"]
                                                   for one in runs), 1))]


def connections(setup, measure) -> list[dict]:
    """So many peers connected to one host: what its process holds in memory, all in all."""
    count = 50 if setup.quick else CONNECTIONS
    with Server(setup.program("stream_bench"), "tls") as server:
        found = server.measure("connections", "--count", str(count))
    if found["connections"] != count:
        raise partners.Failed(f"{found['connections']} of {count} peers stayed connected")
    return [measure("connections", found["resident_bytes"] / 1e6, "MB", "the promise",
                    CONNECTIONS_BYTES_MAX / 1e6, connections=count,
                    kb_each=round((found["resident_bytes"] - found["before_bytes"]) / count / 1e3,
                                  1),
                    per_s=round(count / found["seconds"], 1))]


def all_of_them(setup, measure) -> list[dict]:
    return [*stream_pair(setup, measure, "tls"), *stream_pair(setup, measure, "noise"),
            *rpc(setup, measure), *connections(setup, measure)]
