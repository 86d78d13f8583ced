"""Runs the macro benchmarks and prints one measure a line.

    bench/run.py --bin build/bench/bin [--json] [--list] [NAME...]

With --json each measure is one JSON object: bench, value, unit, anchor, anchor_value, ratio, and
what belongs to it; or bench and skipped, the reason. ratio is value / anchor_value. Where a target
is promised, wanted has its bounds (ratio_max: of ratio, at most), and held says whether they do.
What each means, and what physics would allow, is in bench/README.md. Measures take turns with their
anchors, so that both see the same machine.

Exit status: 0 all ran or were skipped, 1 one could not, 2 wrong arguments, 9 with --check: a target
was missed (a sentence says which). Ended by SIGTERM or SIGHUP it leaves no processes behind.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import experts as expert_calls
import language as language_models
import python_benches
import startup as startup_times
import streams
import turns
from web_viewers import Viewers

GROUP = 4
ALLREDUCE_ELEMENTS = 1 << 24  # 67.1 MB of fp32
OVERHEAD_ELEMENTS = 256  # 1 KiB
OVERHEAD_SECONDS_MAX = 0.1  # what a round may cost beside its bytes
FAR_MS = 50  # round trip of the second line of round_overhead
SKIPPED = 77  # exit code where namespaces are not permitted
CHECK_FAILED = 9
WRONG_OPTION = 2  # or one that only root may use
PLAN_SECONDS_MAX = {256: 0.001, 100_000: 0.2}  # what a plan may take
BATCH = 1024  # samples of a step of solo
SOLO_STARTS = 6  # which memory a process gets is worth some percent
SOLO_STEPS = 400
SOLO_TURN_SECONDS = 1.0
TOKENS_RATIO_MIN = 5  # preparation by one thread, of what the model eats with all
COMPUTE_SHARE_MIN = 0.95  # of the time, with the delayed update
RMSE_MAX = 0.012  # of block-wise 8 bit, however many peers
# By the names of lines; of a field, at most (_max) or at least (_min). Those of README.md, too.
WANTED = {
    "startup": {"value_max": 30, "libraries_max": 30, "resident_mb_max": 25},
    "first_sample": {"ratio_max": 1},
    "solo": {"ratio_min": 0.95},
    "web": {"ratio_min": 0.99},
    "web_50": {"ratio_min": 0.95},
    "python_solo": {"ratio_min": 0.95, "memory_ratio_max": 1.1},
    "against_hivemind": {"speedup_min": 3},
    "round_overhead": {"ratio_max": 1},
    f"round_overhead_{FAR_MS}ms": {"ratio_max": 1},
    "allreduce_fp32": {"bound_ratio_max": 1.15},
    "allreduce_fp16": {"ratio_max": 1.25},
    "allreduce_8bit": {"ratio_max": 1, "rmse_max": RMSE_MAX},
    "robust": {"ratio_max": 1.6},
    "light": {"ratio_max": 0.15},
    "allreduce_8bit_2": {"rmse_max": RMSE_MAX},
    "allreduce_8bit_8": {"rmse_max": RMSE_MAX},
    **{f"plan_{peers}": {"ratio_max": 1} for peers in PLAN_SECONDS_MAX},
    **{f"tokens_feed_{length}": {"ratio_min": TOKENS_RATIO_MIN} for length in (64, 512)},
    "rpc": {"ratio_min": 1},
    "connections": {"ratio_max": 1},
    "lamb8": {"ratio_max": 2},
    "dht_start": {"ratio_min": 1},
    "dht_start_noise": {"ratio_min": 1},
    "dht_store": {"ratio_max": 1},
    "dht_get": {"ratio_max": 1},
    "dht_memory": {"ratio_max": 1},
    "experts": {"ratio_min": 3},
    "experts_large": {"ratio_min": 0.9, "of_hivemind_min": 1},
    "language": {"ratio_min": 0.97},
    "generation": {"ratio_min": 1},
    "delayed": {"ratio_min": 1},
    "delayed_loss": {"ratio_max": 1.02},
}
ALBERT_TINY = ["--hidden", "64", "--layers", "2", "--heads", "2", "--feed-forward", "128"]


class BenchError(Exception):
    pass


@dataclass
class Setup:
    bin: Path
    quick: bool

    def program(self, name: str) -> Path:
        path = self.bin / name
        if not path.is_file():
            raise BenchError(f"{path} is not built; run ./bench.sh, or configure the bench preset")
        return path


def run_group(command: list[str], seconds_max: float, size: int = GROUP) -> dict:
    """Starts `size` processes with --rank and --folder; rank 0's last line is the result, and
    `cpu_s_all` the processor time of all."""
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as folder:
        processes = []
        try:
            for rank in reversed(range(size)):
                processes.append(subprocess.Popen(
                    [*command, "--rank", str(rank), "--size", str(size), "--folder", folder],
                    stdout=subprocess.PIPE, text=True))
            processes.reverse()
            texts = [processes[0].communicate(timeout=seconds_max)[0],
                     *(p.communicate(timeout=30)[0] for p in processes[1:])]
        except subprocess.TimeoutExpired:
            raise BenchError(f"{Path(command[0]).name} took longer than {seconds_max} s") from None
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        statuses = [abs(process.returncode) for process in processes]
        if any(statuses):
            raise BenchError(f"{Path(command[0]).name} ended with status {max(statuses)}")
        results = [last_json(text, command[0]) for text in texts]
        return {**results[0], "cpu_s_all": sum(result["cpu_s"] for result in results)}


def last_json(text: str, program: str) -> dict:
    lines = [line for line in text.strip().split("\n") if line.startswith("{")]
    if not lines:
        raise BenchError(f"{Path(program).name} printed no result")
    return json.loads(lines[-1])


def run_one(command: list[str], seconds_max: float, threads: int) -> dict:
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds_max,
                              env=environment, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{Path(command[0]).name} took longer than {seconds_max} s") from None
    if done.returncode != 0:
        raise BenchError(f"{Path(command[0]).name} ended with status {done.returncode}")
    return last_json(done.stdout, command[0])


def measure(bench: str, value: float, unit: str, anchor: str, anchor_value: float, **more) -> dict:
    return {"bench": bench, "value": round(value, 6), "unit": unit, "anchor": anchor,
            "anchor_value": round(anchor_value, 6), "ratio": round(value / anchor_value, 4), **more}


def cores() -> int:
    """Those that we may use, not those that the machine has."""
    return len(os.sched_getaffinity(0))


def skipped(bench: str, why: str) -> dict:
    return {"bench": bench, "skipped": why}


def missed(result: dict) -> list[str]:
    """A sentence for each bound that a measure does not hold."""
    sentences = []
    for bound, limit in result.get("wanted", {}).items():
        field, side = bound.rsplit("_", maxsplit=1)
        value = result[field]
        if not (value <= limit if side == "max" else value >= limit):
            sentences.append(f"{result['bench']}: {field} is {value}, wanted is at "
                             f"{'most' if side == 'max' else 'least'} {limit}")
    return sentences


def judged(result: dict) -> dict:
    """With its targets, where it has some."""
    if "skipped" in result or result["bench"] not in WANTED:
        return result
    result = {**result, "wanted": WANTED[result["bench"]]}
    return {**result, "held": not missed(result)}


def line_of(result: dict) -> str:
    if "skipped" in result:
        return "{bench:16} skipped: {skipped}".format(**result)
    return ("{bench:16} {value:12.3f} {unit:10} {ratio:7.3f} x {anchor} "
            "({anchor_value:.3f})".format(**result)
            + ("" if result.get("held", True) else ": MISSED"))


def medians(runs: list[dict], *fields: str) -> dict[str, float]:
    return {field: round(statistics.median(run[field] for run in runs), 9) for field in fields}


def processor_costs(setup: Setup) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds a byte on one core of (one end of an encrypted connection, SHA-256): as OpenSSL does
    it, and as we do where the processor has vectors for it."""
    done = subprocess.run(
        [str(setup.program("dedloc_security_bench")), "--benchmark_format=json",
         "--benchmark_filter=(seal_by_openssl|encrypt_only|sha256_of|hash_blocks_by_.*)/1048576",
         f"--benchmark_min_time={0.1 if setup.quick else 0.5}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300, check=True)
    rates = {b["name"].split("/")[0]: b["bytes_per_second"]
             for b in json.loads(done.stdout)["benchmarks"] if not b.get("error_occurred")}
    own_hash = rates.get("hash_blocks_by_vectors", rates["hash_blocks_by_openssl"])
    return ((1 / rates["seal_by_openssl"], 1 / rates["sha256_of"]),
            (1 / rates["encrypt_only"], 1 / own_hash))


def allreduce(setup: Setup) -> list[dict]:
    """67.1 MB of fp32 among 4 processes (lines with _2, _8: so many): whole certified, encrypted
    rounds in fp32, fp16 and block-wise 8 bit against Gloo's all-reduce of fp32 in the clear; s."""
    elements = ALLREDUCE_ELEMENTS // (16 if setup.quick else 1)
    sizes = ["--elements", str(elements), "--rounds", "1" if setup.quick else "5"]
    gloo, round_bench = str(setup.program("gloo_allreduce")), str(setup.program("round_bench"))
    costs = processor_costs(setup)
    results = []
    for peers in (GROUP,) if setup.quick else (GROUP, 2, 8):
        theirs, ours = {"ring": [], "bcube": []}, {"fp32": [], "fp16": [], "blockwise8": []}
        for _ in range(1 if setup.quick else 2):
            for algorithm, runs in theirs.items():
                runs.append(run_group([gloo, "--algorithm", algorithm, *sizes], 300, peers))
            for codec, runs in ours.items():
                runs.append(run_group([round_bench, "--codec", codec, *sizes], 300, peers))
        best = min(theirs, key=lambda a: statistics.median(r["seconds"] for r in theirs[a]))
        anchor = medians(theirs[best], "seconds", "cpu_s", "cpu_s_all")
        moved = 2 * elements * 4 * (peers - 1)  # bytes, by all together; each at two ends
        bound, own_bound = (anchor["seconds"] + (
            2 * moved * aes_s + peers * elements * 4 * sha_s) / cores()
            for aes_s, sha_s in costs)
        for codec, runs in ours.items():
            value = medians(runs, "seconds", "cpu_s", "cpu_s_all", "rmse")
            name = "8bit" if codec == "blockwise8" else codec
            more = {"bound_ratio": round(value["seconds"] / bound, 4),
                    "bound_seconds": round(bound, 6),
                    "own_bound_ratio": round(value["seconds"] / own_bound, 4),
                    "own_bound_seconds": round(own_bound, 6)} if codec == "fp32" else {}
            results.append(measure(
                f"allreduce_{name}" + ("" if peers == GROUP else f"_{peers}"), value["seconds"],
                "s", f"gloo {best} of fp32, unencrypted", anchor["seconds"], peers=peers,
                cpu_s=value["cpu_s"], anchor_cpu_s=anchor["cpu_s"], cpu_s_all=value["cpu_s_all"],
                anchor_cpu_s_all=anchor["cpu_s_all"], rmse=value["rmse"],
                rounds_repeated=sum(r["rounds_repeated"] for r in runs), **more))
    return results


def light(setup: Setup) -> list[dict]:
    """A round with 1 % of the bytes (sparse) against one in fp16, 67.1 MB of fp32 among 4
    processes, in turns; s. And processor time of choosing, adding and keeping the rest, beside a
    copy; ns an element."""
    elements = ALLREDUCE_ELEMENTS // (16 if setup.quick else 1)
    command = [str(setup.program("round_bench")), "--elements", str(elements), "--rounds",
               "1" if setup.quick else "5"]
    runs = {"fp16": [], "sparse": []}
    for _ in range(1 if setup.quick else 2):
        for codec, done in runs.items():
            done.append(run_group([*command, "--codec", codec], 300))
    value, anchor = (medians(runs[codec], "seconds", "exchange_s", "cpu_s")
                     for codec in ("sparse", "fp16"))
    costs = run_one([str(setup.program("light_bench")), *(["--quick"] if setup.quick else [])],
                    300, 1)
    return [measure("light", value["seconds"], "s", "a round in fp16", anchor["seconds"],
                    exchange_s=value["exchange_s"], anchor_exchange_s=anchor["exchange_s"],
                    cpu_s=value["cpu_s"], anchor_cpu_s=anchor["cpu_s"]),
            *(measure(f"light_{name}", costs[f"{name}_ns"], "ns", "memcpy", costs["memcpy_ns"])
              for name in ("encode", "add", "feedback"))]


def robust(setup: Setup) -> list[dict]:
    """A whole proved round of CenteredClip against the plain mean, 67.1 MB of fp32 among 4
    processes, in turns; s."""
    elements = ALLREDUCE_ELEMENTS // (16 if setup.quick else 1)
    command = [str(setup.program("round_bench")), "--codec", "fp32", "--elements", str(elements),
               "--rounds", "1" if setup.quick else "5"]
    plain, proved = [], []
    for _ in range(1 if setup.quick else 2):
        plain.append(run_group(command, 300))
        proved.append(run_group([*command, "--robust"], 300))
    value, anchor = medians(proved, "seconds", "cpu_s"), medians(plain, "seconds", "cpu_s")
    return [measure("robust", value["seconds"], "s", "the mean", anchor["seconds"],
                    cpu_s=value["cpu_s"], anchor_cpu_s=anchor["cpu_s"])]


def round_overhead_far(setup: Setup) -> list[dict]:
    """The same among 4 machines that are 50 ms of round trip apart (namespaces; needs root)."""
    done = subprocess.run(
        [str(setup.program("dedloc-lab")), "links", "--peers", str(GROUP), "--rtt-ms",
         str(FAR_MS), "--elements", str(OVERHEAD_ELEMENTS), "--codec", "fp32", "--rounds",
         "3" if setup.quick else "30", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    # Users who are not root may lack namespaces, or the congestion control of the lines.
    if done.returncode == SKIPPED or (done.returncode == WRONG_OPTION and os.geteuid() != 0):
        return [skipped(f"round_overhead_{FAR_MS}ms", " ".join(done.stderr.split()))]
    if done.returncode != 0:
        raise BenchError(f"dedloc-lab links ended with status {done.returncode}: {done.stderr}")
    result = last_json(done.stdout, "dedloc-lab links")
    return [measure(f"round_overhead_{FAR_MS}ms", result["seconds"] * 1e3, "ms",
                    "the promise: 3 round trips and 50 ms", 3 * FAR_MS + 50,
                    best=result["seconds_min"] * 1e3,
                    round_trips=round(result["seconds"] * 1e3 / FAR_MS, 2))]


def round_overhead(setup: Setup) -> Iterator[dict]:
    """A whole round of 1 KiB among 4 processes on loopback, announce to certificate; and among
    machines 50 ms apart."""
    result = run_group(
        [str(setup.program("round_bench")), "--codec", "fp32", "--elements",
         str(OVERHEAD_ELEMENTS), "--rounds", "3" if setup.quick else "50"], 300)
    yield measure("round_overhead", result["seconds"] * 1e3, "ms", "the promise",
                  OVERHEAD_SECONDS_MAX * 1e3, best=result["seconds_min"] * 1e3,
                  rounds_repeated=result["rounds_repeated"])
    yield from round_overhead_far(setup)


def solo_host(setup: Setup, folder: str, steps: int, threads: int) -> list[str]:
    """The command of solo's run, of so many steps, up to the peer's folder."""
    text = (Path(__file__).parent / "solo.toml").read_text(encoding="utf-8")
    run_file = Path(folder) / "solo.toml"
    run_file.write_text(text.replace("steps = 40", f"steps = {steps}"), encoding="utf-8")
    return [str(setup.program("dedloc")), "host", str(run_file), "--threads", str(threads),
            "--listen", "127.0.0.1:0", "--quiet", "--json", "--dir"]


def solo_turns(commands: list[list[str]], outputs: list[int],
               environment: dict[str, str]) -> list[list[turns.Turn]]:
    try:
        return turns.run_in_turns(commands, outputs, environment, SOLO_TURN_SECONDS, 600)
    except subprocess.SubprocessError as error:
        raise BenchError(str(error)) from None


def by_median_step(setup: Setup, bench: str, anchor: str,
                   steps_of: Callable[[int], tuple[list[float], list[float]]], **more) -> dict:
    """Samples/s of us and of the anchor, each program started several times. `steps_of` makes so
    many steps of both in turns and tells their seconds."""
    values, anchors = [], []
    for _ in range(1 if setup.quick else SOLO_STARTS):
        ours, theirs = steps_of(60 if setup.quick else SOLO_STEPS)
        values += ours
        anchors += theirs
    if not values or not anchors:
        raise BenchError(f"no turn had a whole step: this machine is too slow for {bench}")
    return measure(bench, BATCH / statistics.median(values), "samples/s", anchor,
                   BATCH / statistics.median(anchors), **more, steps=[len(values), len(anchors)],
                   ratio_of_means=round(statistics.mean(anchors) / statistics.mean(values), 4))


def solo_steps(setup: Setup, threads: int, steps: int) -> tuple[list[float], list[float]]:
    """Seconds of steps that nobody interrupted: ours, and the plain loop's."""
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as folder, \
            tempfile.TemporaryFile("w+") as printed:
        ours = [*solo_host(setup, folder, steps, threads), folder + "/peer"]
        plain = [str(setup.program("plain_loop")), "--steps", str(steps), "--threads", str(threads)]
        ran = solo_turns([ours, plain], [subprocess.DEVNULL, printed.fileno()],
                         dict(os.environ, OMP_NUM_THREADS=str(threads)))
        printed.seek(0)
        plain_steps = turns.printed_steps(last_json(printed.read(), "plain_loop"))
        return (turns.whole_steps(turns.hosted_steps(Path(folder) / "peer"), ran[0]),
                turns.whole_steps(plain_steps, ran[1]))


def solo(setup: Setup) -> list[dict]:
    """One peer alone (`dedloc host`), hashing, votes and snapshots on, against a plain libtorch
    loop; the demo's CNN, batch 256, target 1,024, equal threads; samples/s by the median step. In
    turns of a second, each program started several times."""
    threads = cores()
    return [by_median_step(setup, "solo", "plain libtorch loop",
                           functools.partial(solo_steps, setup, threads), threads=threads)]


def watched_steps(setup: Setup, viewers: int, steps: int) -> tuple[list[float], list[float]]:
    """Seconds of steps of a peer with so many viewers of its page, and of one without a page."""
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as folder:
        command = solo_host(setup, folder, steps, cores())
        looking = Viewers(Path(folder) / "seen", viewers)
        try:
            ran = solo_turns(
                [[*command, folder + "/seen", "--web", "0"], [*command, folder + "/unseen"]],
                [subprocess.DEVNULL] * 2, dict(os.environ))
        finally:
            looking.close()
        if looking.received == 0:
            raise BenchError("no viewer got anything")
        return tuple(turns.whole_steps(turns.hosted_steps(Path(folder) / name), own)
                     for name, own in zip(("seen", "unseen"), ran))


def web(setup: Setup) -> Iterator[dict]:
    """A trainer whose web page is open once (line web), and fifty times (web_50), against one
    without a page: samples/s by the median step, as in solo. The viewers' own reading is the
    machine's, too."""
    for name, viewers in (("web", 1), ("web_50", 50)):
        yield by_median_step(setup, name, "without a page",
                             functools.partial(watched_steps, setup, viewers), viewers=viewers)


def plan(setup: Setup) -> list[dict]:
    """Shares of owners, for 256 and for 100,000 random peers in one group: the time of one
    plan; ms. Lines plan_256 (also as a grid, and with limits of links) and plan_100000."""
    program = str(setup.program("plan_bench"))
    result = run_one([program, "--quick"] if setup.quick else [program], 300, 1)
    return [measure(f"plan_{peers}", result[f"plan_{peers}_s"] * 1e3, "ms", "the promise",
                    PLAN_SECONDS_MAX[peers] * 1e3, full=result[f"plan_{peers}_full_s"] * 1e3,
                    **({name: result[f"plan_256_{name}_s"] * 1e3 for name in ("links", "grid")}
                       if peers == 256 else {}))
            for peers in PLAN_SECONDS_MAX]


def tokens(setup: Setup) -> list[dict]:
    """Text to batches on the King James Bible, one thread, everything from reading to padding,
    against SentencePiece's library, which encodes only, and against what ALBERT-base (hidden 768,
    12 layers, 30,000 pieces) eats with all threads here; tokens/s. Training a tokenizer of 4,096
    pieces against SentencePiece's own spm_train; processor seconds."""
    wanted = "encode|prepare_batches" + ("" if setup.quick else "|train")
    done = subprocess.run(
        [str(setup.program("dedloc_text_bench")), "--benchmark_format=json",
         f"--benchmark_filter={wanted}", f"--benchmark_min_time={0.1 if setup.quick else 2}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise BenchError(f"dedloc_text_bench ended with status {done.returncode}")
    found = {b["name"].split("/iterations")[0]: b for b in json.loads(done.stdout)["benchmarks"]}
    library = found["encode_by_sentencepiece"]["items_per_second"]
    results = [measure("tokens_encode", found["encode"]["items_per_second"], "tokens/s",
                       "sentencepiece, encoding", library)]
    for length in (64, 512):
        prepared = found[f"prepare_batches/{length}"]
        results.append(measure(f"tokens_prepare_{length}", prepared["items_per_second"], "tokens/s",
                               "sentencepiece, encoding", library,
                               samples_per_s=round(prepared["samples/s"], 1)))
        eaten = run_one(
            [str(setup.program("albert_eats")), "--length", str(length), "--micro",
             str(max(1, 1024 // length)), "--repeats", "1" if setup.quick else "5",
             *(ALBERT_TINY if setup.quick else [])], 600, cores())["tokens_per_s"]
        results.append(measure(
            f"tokens_feed_{length}", prepared["items_per_second"], "tokens/s",
            f"what {'a tiny ALBERT' if setup.quick else 'ALBERT-base'} eats, "
            f"{cores()} threads", eaten))
    if "cpu_s" in found.get("train_by_spm_train", {}):
        ours, theirs = found["train"], found["train_by_spm_train"]
        results.append(measure("tokens_training", ours["cpu_s"], "s", "spm_train", theirs["cpu_s"],
                               seconds=round(ours["real_time"], 2),
                               anchor_seconds=round(theirs["real_time"], 2)))
    return results


def lamb8(setup: Setup) -> list[dict]:
    """A step of LAMB with moments of 8 bits at 17.8 million parameters, one thread, against the
    same with moments in fp32; ns a parameter."""
    names = ("lamb/17800000", "lamb8/17800000")
    done = subprocess.run(
        [str(setup.program("dedloc_optim_bench")), "--benchmark_format=json",
         "--benchmark_filter=^lamb8?/17800000$", "--benchmark_enable_random_interleaving=true",
         f"--benchmark_repetitions={1 if setup.quick else 5}",
         f"--benchmark_min_time={0.01 if setup.quick else 0.5}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise BenchError(f"dedloc_optim_bench ended with status {done.returncode}")
    runs = [b for b in json.loads(done.stdout)["benchmarks"] if b["run_type"] == "iteration"]
    fp32, coded = (statistics.median(b["ns/element"] for b in runs if b["run_name"] == name)
                   for name in names)
    return [measure("lamb8", coded, "ns", "LAMB with moments in fp32", fp32)]


def stream(setup: Setup) -> list[dict]:
    """One stream of 512 MiB between two hosts on loopback against go-libp2p's and iperf3 (lines
    stream_tls, stream_noise; GB/s); 100-byte calls a second on one connection (rpc); memory of a
    host with 2,000 connections (connections; MB)."""
    try:
        return streams.all_of_them(setup, measure)
    except (streams.partners.Unavailable, streams.partners.Failed) as why:
        raise BenchError(str(why)) from why


def delayed(setup: Setup) -> list[dict]:
    """The delayed update in virtual time, real engine, real gradients (Fashion-MNIST, the demo's
    CNN): the share of time that four trainers compute when a round takes about as long as a batch,
    against the promise, and without; held-out loss after equal samples, against synchronous."""
    command = [str(setup.program("dedloc-lab")), "delayed", "--json",
               *(["--steps", "8"] if setup.quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          timeout=3600, check=False)
    if done.returncode not in (0, 9):  # 9: it ran, and a promise did not hold; the lines say which
        raise BenchError(f"dedloc-lab delayed ended with status {done.returncode}")
    found = last_json(done.stdout, command[0])
    return [measure("delayed", found["compute_share"], "share", "the promise", COMPUTE_SHARE_MIN,
                    without=round(found["sync_compute_share"], 4),
                    round_over_batch=round(found["round_over_batch"], 4)),
            measure("delayed_loss", found["loss"], "loss", "synchronous, equal samples",
                    found["sync_loss"], samples=found["samples"],
                    anchor_samples=found["sync_samples"], identical=found["identical"])]


def python_solo(setup: Setup) -> list[dict]:
    """One Python peer (dedloc.Optimizer) against the plain PyTorch loop, Debian's torch with
    OpenBLAS; samples/s by the median step, in turns of a second. memory_ratio: the peak beyond the
    interpreter's, over a C++ peer's of the same run."""
    return from_python("python_solo", lambda: python_benches.python_solo(setup, measure, cores()))


def against_hivemind(setup: Setup) -> list[dict]:
    """One PyTorch script, 4 peers on lines of 50 Mb/s and 50 ms (namespaces; needs root):
    dedloc.Optimizer against hivemind.Optimizer 1.1.12, seconds to the same held-out loss; and on
    lines without limits (line _near). speedup is theirs over ours."""
    return from_python("against_hivemind",
                       lambda: python_benches.against_hivemind(setup, measure))


def from_python(name: str, work: Callable[[], list[dict]]) -> list[dict]:
    try:
        return work()
    except python_benches.Missing as why:
        return [skipped(name, str(why))]


def language(setup: Setup) -> Iterator[dict]:
    """One peer that trains a small GPT-2 (`dedloc host`) against a plain loop of transformers,
    Debian's torch with OpenBLAS and as many threads; tokens/s by the median step, in turns. And
    greedy text of the model with keys and values kept, against its generate (line generation)."""
    try:
        yield from language_models.all_of_them(setup, cores(), measure)
    except python_benches.Missing as why:
        yield from (skipped(name, str(why)) for name in ("language", "generation"))


def experts(setup: Setup) -> Iterator[dict]:
    """Forward and backward calls of hivemind's "ffn" block over sockets beside real hivemind (with
    OpenBLAS): 4 experts of width 256, batches of 64, one client (experts; also 16 at once); one of
    width 1,024, batches of 2,048, against the same block in a plain loop (experts_large);
    samples/s."""
    try:
        yield from expert_calls.all_of_them(setup, measure)
    except (expert_calls.partners.Unavailable, expert_calls.partners.Failed) as why:
        raise BenchError(str(why)) from why


def dht(setup: Setup) -> list[dict]:
    """64 nodes of the table on sockets, in one process of two threads: nodes that start and join a
    second (dht_start), a store over kept connections and a get of one key (ms), memory of a node
    (dht_memory; MB). dht_start_noise: the same with Noise in place of TLS."""
    program = str(setup.program("dht_bench"))
    nodes = ["--nodes", "16" if setup.quick else "64"]
    rounds = range(1 if setup.quick else 3)
    names = ("start_s", "start_cpu_s", "first_store_s", "store_s", "get_s", "bytes", "success")
    value = medians([run_one([program, *nodes], 120, 1) for _ in rounds], *names)
    noise = medians([run_one([program, *nodes, "--security", "noise"], 120, 1) for _ in rounds],
                    *names)
    return [measure("dht_start", 1 / value["start_s"], "nodes/s", "the promise", 500,
                    cpu_ms=value["start_cpu_s"] * 1e3),
            measure("dht_start_noise", 1 / noise["start_s"], "nodes/s", "the promise", 500,
                    cpu_ms=noise["start_cpu_s"] * 1e3),
            measure("dht_store", value["store_s"] * 1e3, "ms", "the promise", 2,
                    first_ms=value["first_store_s"] * 1e3),
            measure("dht_get", value["get_s"] * 1e3, "ms", "the promise", 1,
                    success=value["success"]),
            measure("dht_memory", value["bytes"] / 1e6, "MB", "the promise", 1)]


def startup(setup: Setup) -> list[dict]:
    """Processor time of commands that compute nothing (the slowest), the libraries that they load
    and their memory; and the seconds from `dedloc join` to the first step with its samples (line
    first_sample)."""
    try:
        return startup_times.all_of_them(str(setup.program("dedloc")), 1 if setup.quick else 9,
                                         measure)
    except startup_times.Failed as why:
        raise BenchError(str(why)) from None


BENCHES = {b.__name__: b for b in (startup, solo, web, round_overhead, allreduce, light, robust,
                                   plan, tokens, lamb8, stream, delayed, experts, dht, python_solo,
                                   against_hivemind, language)}


def end_by_signal(number: int, _frame: object) -> None:
    """As an exception, so that what was begun is ended on the way out."""
    sys.exit(128 + number)


def main(arguments: list[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_by_signal)
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", type=Path, default=Path("build/bench/bin"))
    parser.add_argument("--json", action="store_true", help="one JSON object a measure")
    parser.add_argument("--list", action="store_true", help="names, and what they measure")
    parser.add_argument("--quick", action="store_true", help="tiny input: does it run at all?")
    parser.add_argument("--check", action="store_true", help="exit code 9 if a target is missed")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    if options.list:
        for name, bench in BENCHES.items():
            print(f"{name:16} {' '.join(bench.__doc__.split())}")
        return 0
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        print(f"no benchmark {unknown[0]}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    if options.check and options.quick:
        print("--check: --quick says nothing about speed", file=sys.stderr)
        return 2
    could_not, sentences = False, []
    for name in options.names or BENCHES:
        try:
            for result in BENCHES[name](Setup(options.bin, options.quick)):
                if not options.quick:
                    result = judged(result)
                sentences += missed(result)
                print(json.dumps(result) if options.json else line_of(result), flush=True)
        except (BenchError, OSError, subprocess.SubprocessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            could_not = True
    if options.check:
        for sentence in sentences:
            print(sentence, file=sys.stderr)
    if could_not:
        return 1
    return CHECK_FAILED if options.check and sentences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
