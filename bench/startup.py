"""The measures of ./bench.sh startup: how soon the program answers, and a volunteer counts."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LIGHT = (["--version"], ["--help"], ["init", "vision_classifier", "-o", "-"],
         ["join", "dedloc1mistyped"], ["host", "no-such-file.toml"], ["plan", "--setup", "A"])
PROMISE_MS = 30.0
FIRST_SAMPLE_S = 3.0
TIMEOUT_S = 60.0


class Failed(Exception):
    pass


# A child counts as large as its parent was when it forked: this small interpreter is the parent.
ONE_RUN = """
import os, sys
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[
    (os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)])
used = os.wait4(child, 0)[2]
print((used.ru_utime + used.ru_stime) * 1e3, used.ru_maxrss / 1e3)
"""


def processor_ms(command: list[str]) -> tuple[float, float]:
    """Milliseconds of processor of one run, and the most memory at once in MB."""
    said = subprocess.run([sys.executable, "-I", "-S", "-c", ONE_RUN, *command],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return float(said[0]), float(said[1])


def libraries(program: str) -> int:
    listed = subprocess.run([program], env=dict(os.environ, LD_TRACE_LOADED_OBJECTS="1"),
                            stdout=subprocess.PIPE, text=True, check=False).stdout
    return len(listed.splitlines())


def first_shared_step(folder: Path) -> float | None:
    """The wall clock of the first step that this peer's samples are in."""
    events = folder / "events.jsonl"
    if not events.exists():
        return None
    for line in events.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # being written
            return None
        if event["kind"] == "step" and event["fields"].get("contributors", 0) > 1:
            return event["time"]
    return None


def until(what: str, ask: Callable[[], float | str | None]) -> float | str:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if answer := ask():
            return answer
        time.sleep(0.02)
    raise Failed(f"{what} did not come within {TIMEOUT_S:.0f} s")


def join_string(folder: Path) -> str | None:
    file = folder / "join.txt"
    return file.read_text(encoding="utf-8").strip() if file.exists() else None


def first_sample(program: str) -> float:
    """Seconds from the start of `dedloc join` to the first step with its samples, Fashion-MNIST."""
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as name:
        folder = Path(name)
        run = folder / "run.toml"
        with run.open("w", encoding="utf-8") as file:
            subprocess.run([program, "init", "vision_classifier", "--set", "batch.target=256",
                            "-o", "-"], stdout=file, check=True)
        common = ["--threads", "1", "--listen", "127.0.0.1:0", "--quiet", "--json"]
        processes = []

        def start(words: list[str], peer: str) -> float:
            began = time.time()
            processes.append(subprocess.Popen(
                [program, *words, "--dir", str(folder / peer), *common],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            return began

        try:
            start(["host", str(run)], "host")
            string = until("the host's join string", lambda: join_string(folder / "host"))
            began = start(["join", str(string)], "guest")
            shared = until("a shared step", lambda: first_shared_step(folder / "guest"))
            return float(shared) - began
        finally:
            for process in processes:
                process.kill()
                process.wait()


def all_of_them(program: str, repeats: int, measure: Callable[..., dict]) -> list[dict]:
    processor_ms([program, "--version"])  # from the disk
    taken = {words[0]: statistics.median(processor_ms([program, *words])[0]
                                         for _ in range(repeats)) for words in LIGHT}
    resident = max(processor_ms([program, "--version"])[1] for _ in range(repeats))
    seconds = statistics.median(first_sample(program) for _ in range(min(repeats, 3)))
    return [measure("startup", max(taken.values()), "ms of processor", "the promise", PROMISE_MS,
                    libraries=libraries(program), resident_mb=resident, commands=taken),
            measure("first_sample", seconds, "s", "the promise", FIRST_SAMPLE_S)]
