"""The measures of ./bench.sh experts: calls of hivemind's "ffn" block, beside real hivemind.

OpenBLAS is preloaded under hivemind's torch: with Debian's reference BLAS any comparison would be a
farce. All take turns on the same machine, and the best turn of each counts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))
import partners  # noqa: E402 (the folder is not a package)

OPENBLAS = Path("/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3")
SMALL = {"experts": 4, "width": 256, "batch": 64}
LARGE = {"experts": 1, "width": 1024, "batch": 2048}
TURNS = 3


def options_of(sizes: dict, **more) -> list[str]:
    return [word for name, value in {**sizes, **more}.items() for word in (f"--{name}", str(value))]


def last_object(command: list[str], timeout: float = 180, **how) -> dict:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True,
                               **how)
    try:
        out, _ = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # with hivemind's daemons
        process.wait()
        raise
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return json.loads(out.strip().split("\n")[-1])


@contextlib.contextmanager
def serving(program: Path, sizes: dict, folder: str):
    server = subprocess.Popen([str(program), "serve", "--dir", folder + "/server",
                               *options_of(sizes)], stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def ours(program: Path, sizes: dict, seconds: float, clients: int = 1) -> dict:
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as folder, \
            serving(program, sizes, folder) as address:
        return last_object([str(program), "call", "--dir", folder + "/client", "--address", address,
                            *options_of(sizes, seconds=seconds, clients=clients)])


class Hivemind:
    def __init__(self):
        if not OPENBLAS.exists():
            raise partners.Unavailable("OpenBLAS is not there (Debian: libopenblas0-pthread)")
        build = Path(__file__).resolve().parent.parent / "build" / "interop"
        self.partner = partners.Hivemind(build)
        self.partner.prepare()

    def measure(self, sizes: dict, seconds: float, clients: int = 1) -> dict:
        script = Path(__file__).resolve().parent / "hivemind_experts.py"
        environment = {**os.environ, "LD_PRELOAD": str(OPENBLAS), "HIVEMIND_LOGLEVEL": "ERROR"}
        command = [str(self.partner.home / "venv/bin/python"), str(script),
                   *options_of(sizes, seconds=seconds, clients=clients)]
        # The server, forked from a process with threads, does not start once in some eight times.
        for _ in range(3):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return last_object(command, timeout=45 + 3 * seconds, env=environment,
                                   stderr=subprocess.DEVNULL)
        raise partners.Unavailable("hivemind's server did not start in three attempts")


def best(runs: list[dict]) -> dict:
    return max(runs, key=lambda run: run["samples_per_s"])


def all_of_them(setup, measure) -> Iterator[dict]:
    program = setup.program("experts_bench")
    seconds, turns = (1, 1) if setup.quick else (6, TURNS)
    rival = Hivemind()
    small, theirs = [], []
    for _ in range(turns):
        small.append(ours(program, SMALL, seconds))
        theirs.append(rival.measure(SMALL, seconds))
    value, anchor = best(small), best(theirs)
    many = ours(program, SMALL, seconds, 16)
    their_many = rival.measure(SMALL, seconds, 16)
    yield measure("experts", value["samples_per_s"], "samples/s", "hivemind",
                  anchor["samples_per_s"], ms=value["ms"], anchor_ms=anchor["ms"],
                  clients_16=round(many["samples_per_s"], 1),
                  anchor_clients_16=round(their_many["samples_per_s"], 1))
    large, plain, theirs = [], [], []
    for _ in range(turns):
        large.append(ours(program, LARGE, seconds))
        plain.append(last_object([str(program), "loop", *options_of(LARGE, seconds=seconds)]))
        theirs.append(rival.measure(LARGE, seconds))
    value, anchor = best(large)["samples_per_s"], best(theirs)["samples_per_s"]
    yield measure("experts_large", value, "samples/s", "the same block in a plain loop",
                  best(plain)["samples_per_s"], hivemind=round(anchor, 1),
                  of_hivemind=round(value / anchor, 3))
