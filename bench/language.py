"""The measures of ./bench.sh language: a small GPT-2 trained, and text written by it, beside
`transformers` (PyPI) with Debian's torch, OpenBLAS and as many threads (language_loop.py)."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/oracles/decoder"))
import packages  # noqa: E402 (the folder is not a package)
import turns  # noqa: E402
from python_benches import Missing, last_json, with_openblas  # noqa: E402

HERE = Path(__file__).resolve().parent
TOKENS_OF_STEP = 4 * 256
STARTS, STEPS, TURN_SECONDS = 3, 40, 5.0
STEPS_MIN = 10  # in turns, of each side
TEXTS, TOKENS_WRITTEN = 5, 200
SECONDS_MAX = 900
PROMPT = "And God said unto"  # as in language_loop.py


class Contest:
    """Both programs with the same threads, and a folder that both write in."""

    def __init__(self, setup, threads: int, folder: Path) -> None:
        self.environment = {**with_openblas(threads), "PYTHONDONTWRITEBYTECODE": "1",
                            "TRANSFORMERS_OFFLINE": "1"}
        try:
            python = packages.python_with_packages(setup.bin.resolve().parent)
        except packages.Unavailable as why:
            raise Missing(str(why)) from why
        self.program = str(setup.program("dedloc"))
        self.loop = [str(python), str(HERE / "language_loop.py")]
        self.threads = str(threads)
        self.folder = folder

    def peer(self, number: int) -> Path:
        return self.folder / f"peer-{number}"

    def steps(self, number: int, count: int) -> tuple[list[float], list[float], int]:
        """Seconds of uninterrupted steps of a new peer and a new loop; the loop's parameters."""
        text = (HERE / "language.toml").read_text(encoding="utf-8")
        run_file = self.folder / "language.toml"
        run_file.write_text(text.replace("steps = 40", f"steps = {count}"), encoding="utf-8")
        ours = [self.program, "host", str(run_file), "--threads", self.threads, "--listen",
                "127.0.0.1:0", "--quiet", "--json", "--dir", str(self.peer(number))]
        with tempfile.TemporaryFile("w+") as printed:
            ran = turns.run_in_turns([ours, [*self.loop, "train", str(count), self.threads]],
                                     [subprocess.DEVNULL, printed.fileno()], self.environment,
                                     TURN_SECONDS, SECONDS_MAX)
            printed.seek(0)
            said = last_json(printed.read())
        return (turns.whole_steps(turns.hosted_steps(self.peer(number)), ran[0]),
                turns.whole_steps(turns.printed_steps(said), ran[1]), said["parameters"])

    def ask(self, *command: str) -> dict:
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True,
                              timeout=SECONDS_MAX, check=True)
        return last_json(done.stdout)

    def export(self, number: int) -> Path:
        out = self.folder / "exported"
        self.ask(self.program, "export", str(self.peer(number)), "--to", str(out), "--json")
        return out

    def written(self, number: int, exported: Path, tokens: int) -> tuple[dict, dict]:
        """Both programs write a greedy text; this is what each reports after it."""
        return (self.ask(self.program, "sample", str(self.peer(number)), "--prompt", PROMPT,
                         "--temperature", "0", "--tokens", str(tokens), "--threads",
                         self.threads, "--json"),
                self.ask(*self.loop, "write", str(exported), str(tokens), self.threads))


def all_of_them(setup, threads: int, measure: Callable[..., dict]) -> Iterator[dict]:
    with tempfile.TemporaryDirectory(prefix="dedloc-bench-") as folder:
        contest = Contest(setup, threads, Path(folder))
        starts = 1 if setup.quick else STARTS
        values, anchors = [], []
        for number in range(starts):
            ours, theirs, parameters = contest.steps(number, 16 if setup.quick else STEPS)
            values += ours
            anchors += theirs
        if min(len(values), len(anchors)) < (1 if setup.quick else STEPS_MIN):
            raise OSError("turns had too few whole steps: this machine is too busy for language")
        yield measure("language", TOKENS_OF_STEP / statistics.median(values), "tokens/s",
                      "plain loop of transformers", TOKENS_OF_STEP / statistics.median(anchors),
                      threads=threads, parameters=parameters,
                      steps=[len(values), len(anchors)])
        exported = contest.export(starts - 1)
        pairs = [contest.written(starts - 1, exported, 40 if setup.quick else TOKENS_WRITTEN)
                 for _ in range(1 if setup.quick else TEXTS)]
        if any(theirs["parameters"] != parameters for _, theirs in pairs):
            raise OSError("the exported model is not of the loop's size")
        yield measure("generation", statistics.median(o["tokens_per_s"] for o, _ in pairs),
                      "tokens/s", "generate of transformers, with its cache",
                      statistics.median(t["tokens_per_s"] for _, t in pairs), threads=threads)
