"""The Python package measured: python_solo, and against_hivemind (race_peer.py says what runs).

Both need Debian's python3-torch; OpenBLAS, which the contestants share, comes from
libopenblas0-pthread.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
import partners  # noqa: E402 (the folder is not a package)
import turns  # noqa: E402
import wan  # noqa: E402

HERE = Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-pthread"
BATCH = 1024  # samples of a step of python_solo
STARTS, STEPS, TURN_SECONDS = 6, 120, 1.0
PEERS = 4
LOSS = 0.75  # held out: where a race ends
RACE_SECONDS_MAX = 200
MBIT, ROUND_TRIP_MS = 50, 50


class Missing(Exception):
    """Something that is not here, for people."""


def library(setup) -> Path:
    path = setup.bin.parent / "src/dedloc/c_api/libdedloc.so"
    if not path.is_file():
        raise Missing(f"{path} is not built")
    return path.resolve()


def with_openblas(threads: int) -> dict[str, str]:
    """Our environment, in which torch multiplies by OpenBLAS with so many threads."""
    if not Path(OPENBLAS).is_dir():
        raise Missing("OpenBLAS is not installed (libopenblas0-pthread)")
    return {**os.environ, "LD_LIBRARY_PATH": OPENBLAS, "OMP_NUM_THREADS": str(threads),
            "OPENBLAS_NUM_THREADS": str(threads)}


def environment(setup, threads: int) -> dict[str, str]:
    look = [PYTHON, "-c", "import torch, numpy"]
    if subprocess.run(look, capture_output=True, check=False).returncode != 0:
        raise Missing("Debian's python3-torch and python3-numpy are not installed")
    return {**with_openblas(threads), "PYTHONPATH": str(HERE.parent / "python"),
            "DEDLOC_LIBRARY": str(library(setup))}


def last_json(text: str) -> dict:
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def peak_of(command: list[str], env: dict[str, str], code: int = 0) -> int:
    """The most memory that a program took until it ended with that status, in bytes."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code:
        raise OSError(f"{command[0]} ended with status {process.returncode}")
    return usage.ru_maxrss * 1024


def solo_once(env: dict[str, str], steps: int) -> tuple[list[float], list[float]]:
    text = (HERE / "solo.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as folder, \
            tempfile.TemporaryFile("w+") as ours, tempfile.TemporaryFile("w+") as plain:
        run_file = Path(folder) / "solo.toml"
        run_file.write_text(text.replace("steps = 40", f"steps = {steps}"), encoding="utf-8")
        loop = [PYTHON, str(HERE / "python_loop.py")]
        commands = [[*loop, "dedloc", str(steps), str(run_file), folder + "/peer"],
                    [*loop, "plain", str(steps)]]
        ran = turns.run_in_turns(commands, [ours.fileno(), plain.fileno()], env, TURN_SECONDS, 600)
        found = []
        for file, own in zip((ours, plain), ran):
            file.seek(0)
            printed = last_json(file.read())
            found.append(turns.whole_steps(turns.printed_steps(printed), own))
        return found[0], found[1]


def memory(setup, env: dict[str, str]) -> dict[str, float]:
    """Peaks of a Python peer and of a C++ peer of the same run, and of the interpreter alone: what
    Python with torch takes beyond a C++ program with libtorch."""
    text = (HERE.parent / "examples/fashion_mnist.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as folder:
        run_file = Path(folder) / "run.toml"
        run_file.write_text(text.replace("samples = 60000", "samples = 6000"), encoding="utf-8")
        ours = peak_of([PYTHON, str(HERE.parent / "examples/python/fashion_mnist.py"),
                        str(run_file), folder + "/a"], env)
        theirs = peak_of([str(setup.program("example_fashion_mnist")), str(run_file),
                          folder + "/b"], env)
        # Without a run file it ends as soon as libtorch is there.
        only_libtorch = peak_of([str(setup.program("example_train_together")), folder + "/none",
                                 folder + "/c"], env, code=1)
    interpreter = peak_of([PYTHON, "-c", "import torch, gzip, json"], env) - only_libtorch
    return {"peak_mb": round(ours / 1e6, 1), "cpp_peak_mb": round(theirs / 1e6, 1),
            "interpreter_mb": round(interpreter / 1e6, 1),
            "memory_ratio": round((ours - interpreter) / theirs, 4)}


def python_solo(setup, measure, threads: int) -> list[dict]:
    env = environment(setup, threads)
    values, anchors = [], []
    for _ in range(1 if setup.quick else STARTS):
        value, anchor = solo_once(env, 40 if setup.quick else STEPS)
        values += value
        anchors += anchor
    if not values or not anchors:
        raise OSError("no turn had a whole step: this machine is too slow for python_solo")
    return [measure("python_solo", BATCH / statistics.median(values), "samples/s",
                    "plain PyTorch loop", BATCH / statistics.median(anchors), threads=threads,
                    steps=[len(values), len(anchors)], **memory(setup, env))]


def race(env: dict[str, str], python: str, system: str, far: "wan.Wan") -> dict:
    """All peers train; peer 0 says when the loss is reached. Its last line so far, if it is not."""
    processes: list[subprocess.Popen] = []
    with tempfile.TemporaryDirectory(prefix="dedloc-race-") as name, \
            tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        folder = Path(name)
        try:
            for number in range(PEERS):
                processes.append(subprocess.Popen(
                    [*far.inside(number), python, str(HERE / "race_peer.py"), system, str(number),
                     name, far.ip(number), str(HERE / "race.toml")], env=env,
                    stdout=printed if number == 0 else subprocess.DEVNULL, stderr=errors,
                    start_new_session=True))
            end = time.monotonic() + RACE_SECONDS_MAX
            while not all((folder / f"ready-{n}").exists() for n in range(PEERS)):
                if time.monotonic() > end or any(p.poll() is not None for p in processes):
                    errors.seek(0)
                    raise OSError(f"{system}: its peers do not begin: {errors.read()[-800:]}")
                time.sleep(0.05)
            (folder / "go").write_text("1")
            try:
                processes[0].wait(RACE_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                pass
        finally:
            for process in processes:
                try:
                    os.killpg(process.pid, 9)  # with hivemind's daemon
                except ProcessLookupError:
                    pass
                process.wait()
        printed.seek(0)
        text = printed.read()
        if "{" not in text:
            raise OSError(f"{system} made no step in {RACE_SECONDS_MAX} s")
        return last_json(text)


def against_hivemind(setup, measure) -> list[dict]:
    env = {**environment(setup, 1), "LOSS": str(2.0 if setup.quick else LOSS),
           "HIVEMIND_LOGLEVEL": "ERROR"}
    hivemind = partners.Hivemind(HERE.parent / "build/interop")
    try:
        hivemind.prepare()
    except partners.Unavailable as why:
        raise Missing(str(why)) from why
    python = str(hivemind.home / "venv/bin/python")
    results = []
    for mbit, round_trip in ((MBIT, ROUND_TRIP_MS), (0, 0)):
        found = {}
        for system in ("hivemind", "dedloc"):
            with wan.Wan(PEERS, mbit, round_trip) as far:
                found[system] = race(env, python, system, far)
        ours, theirs = found["dedloc"], found["hivemind"]
        name = "against_hivemind" + ("" if mbit else "_near")
        results.append(measure(
            name, ours["seconds"], "s", "hivemind.Optimizer 1.1.12", theirs["seconds"],
            speedup=round(theirs["seconds"] / ours["seconds"], 3), loss=ours["loss"],
            anchor_loss=theirs["loss"], steps=ours["steps"], anchor_steps=theirs["steps"],
            reached=ours["loss"] <= float(env["LOSS"]),
            anchor_reached=theirs["loss"] <= float(env["LOSS"]), mbit=mbit,
            round_trip_ms=round_trip, peers=PEERS))
        if setup.quick:
            break
    return results
