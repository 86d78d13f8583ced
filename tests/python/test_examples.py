"""PyTorch's own examples, and the same as peers of a run: few lines are new, and both learn. The
examples of docs/python.md as they stand there."""

from __future__ import annotations

import ast
import difflib
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from test_dedloc import EXAMPLES
from test_fashion_mnist import DATA

FOLDER = EXAMPLES / "python/pytorch"
IN_COMPANY = str(Path(__file__).with_name("in_company.py"))
LINES_MAX = 10
SECONDS = 400  # a limit, on a machine with much else to do


def lines_of(path: Path) -> list[str]:
    """Without the docstring."""
    text = path.read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0]
    return text.splitlines()[docstring.end_lineno:]


def changed_lines(before: Path, after: Path) -> int:
    """As diff has them: a stretch counts as many lines as the longer side of it has."""
    matcher = difflib.SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


class Peers(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.processes: list[subprocess.Popen] = []
        self.addCleanup(lambda: [p.kill() for p in self.processes if p.poll() is None])

    def start(self, *command: str, run_file: tuple[str, str] = ("", "")) -> subprocess.Popen:
        folder = Path(self._folder.name) / str(len(self.processes))  # each peer has its own
        folder.mkdir()
        if run_file[0]:
            (folder / run_file[0]).write_text(run_file[1], encoding="utf-8")
        self.processes.append(subprocess.Popen(
            [sys.executable, *command], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment))
        return self.processes[-1]

    def output(self, process: subprocess.Popen) -> str:
        output, errors = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, errors)
        return output

    def two_peers(self, name: str, *arguments: str, **numbers: int) -> list[str]:
        """numbers: of the run file, in place of those for a whole run. After its first epoch the
        host waits for the guest."""
        text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        for key, number in numbers.items():
            text, count = re.subn(rf"^{key} = .*$", f"{key} = {number}", text, flags=re.MULTILINE)
            self.assertEqual(count, 1, key)
        script = str(FOLDER / f"{name}_together.py")
        epoch = arguments[arguments.index("--batches") + 1]
        host = self.start(IN_COMPANY, epoch, script, *arguments,
                          run_file=(f"{name}.toml", text))
        read = ""
        for line in host.stdout:
            read += line
            if line.startswith("others: --join "):
                guest = self.start(script, "--join", line.split()[-1], *arguments)
                return [read + self.output(host), self.output(guest)]
        raise AssertionError(host.stderr.read())

    def steps(self, peer: int) -> list[dict]:
        folder = Path(self._folder.name) / str(peer) / "dedloc-peer"
        lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [e["fields"] for e in map(json.loads, lines) if e["kind"] == "step"]

    def expect_one_state_at_the_end(self, steps: int) -> None:
        last = [self.steps(peer)[-1] for peer in (0, 1)]
        self.assertEqual([step["step"] for step in last], [steps, steps])
        self.assertEqual(last[0]["state_hash"], last[1]["state_hash"])
        both = [step for step in self.steps(0) if step["contributors"] == 2]
        self.assertTrue(both, "they made no step together")

    def expect_one_state(self, outputs: list[str]) -> None:
        states = [re.findall(r"^state (\w{64})$", output, re.MULTILINE)[-1] for output in outputs]
        self.assertEqual(len(set(states)), 1, outputs)


class ExamplesTest(Peers):
    def test_at_most_ten_lines_make_a_peer(self):
        for name in "mnist", "word_language_model":
            count = changed_lines(FOLDER / f"{name}.py", FOLDER / f"{name}_together.py")
            self.assertLessEqual(count, LINES_MAX, name)
            self.assertGreater(count, 0, name)

    def few_pictures(self) -> None:
        """So many that a test of them takes no longer than what is tested."""
        folder = Path(self._folder.name) / "pictures"
        folder.mkdir()
        for part, pictures in ("train", 20_000), ("t10k", 1000):
            for name, header, size in ("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1):
                name = f"{part}-{name}-ubyte.gz"
                with gzip.open(DATA / name) as file:
                    whole = file.read(header + pictures * size)
                (folder / name).write_bytes(gzip.compress(whole, 1))
        self.environment["DEDLOC_PICTURES"] = str(folder)

    @unittest.skipUnless(DATA.exists(), "no images are here")
    def test_mnist_learns_with_its_schedule(self):
        self.few_pictures()
        outputs = self.two_peers("mnist", "--epochs", "4", "--batches", "60", steps=60,
                                 decay_every=15)
        right = [int(re.findall(r"Accuracy: (\d+)/", output)[-1]) for output in outputs]
        self.assertGreater(right[0], 500, outputs)
        self.assertEqual(*right)
        self.expect_one_state_at_the_end(60)
        rates = [step["learning_rate"] for step in self.steps(0)]
        self.assertEqual(rates[:16], [0.1] * 15 + [0.1 * 0.7])

    @unittest.skipUnless(shutil.which("bible"), "no text is here")
    def test_a_word_language_model_learns_with_its_schedule(self):
        arguments = ("--epochs", "4", "--batches", "20", "--verses", "1500", "--emsize", "32",
                     "--nhid", "32")
        outputs = self.two_peers("word_language_model", *arguments, steps=40, total_steps=80)
        last = [re.findall(r"test loss +([\d.]+)", output) for output in outputs]
        self.assertEqual(*last)
        self.assertLess(float(last[0][0]), 7.0, outputs)
        self.expect_one_state_at_the_end(40)
        rates = [step["learning_rate"] for step in self.steps(0)]
        self.assertEqual((rates[0], rates[20]), (20.0, 15.0))


# The example leaves a model, a loss and data to its reader; and a word of how it ended is added.
BEFORE = """
import time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
criterion = torch.nn.MSELoss()
class Loader:
    def __iter__(self):
        print("join:", run.join_string, flush=True)
        while len(run.peers) < 2:
            time.sleep(0.01)
        while True:
            inputs = torch.rand(16, 2)
            yield inputs, inputs.prod(1, keepdim=True)
loader = Loader()
"""
AFTER = """
steps = [event["fields"] for event in run.events if event["kind"] == "step"]
print("rates", [step["learning_rate"] for step in steps])
print("state", run.state_hash)
run.close()
"""
RUN_FILE = """name = "docs"
[batch]
target = 64
micro = 1
[optimizer]
kind = "adamw"
[schedule]
kind = "cosine"
peak = 0.01
total_steps = 20
[stop]
steps = 20
"""


class DocsTest(Peers):
    def examples(self) -> list[str]:
        text = (EXAMPLES.parent / "docs/python.md").read_text(encoding="utf-8")
        return re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    def script(self, run: str) -> str:
        example = self.examples()[0]
        begun, count = re.subn(r"^run = .*$", lambda _: f"run = {run}", example, flags=re.MULTILINE)
        self.assertEqual(count, 1, example)
        return BEFORE + begun + AFTER

    def test_the_first_example_makes_two_peers_that_end_with_one_state(self):
        self.assertLessEqual(len(self.examples()[0].splitlines()), 12)
        file = Path(self._folder.name) / "run.toml"
        file.write_text(RUN_FILE, encoding="utf-8")
        host = self.start("-c", self.script(f"dedloc.host({str(file)!r})"))
        first = host.stdout.readline()
        self.assertTrue(first.startswith("join: "), first or host.stderr.read())
        guest = self.start("-c", self.script(f"dedloc.join({first.split()[1]!r})"))
        outputs = [self.output(host), self.output(guest)]
        self.expect_one_state(outputs)
        rates = ast.literal_eval(re.findall(r"^rates (.*)$", outputs[0], re.MULTILINE)[0])
        self.assertEqual(len(rates), 20)
        self.assertGreater(rates[0], 10 * rates[-1], "the schedule")

    def test_a_run_is_made_without_a_file_as_it_says(self):
        made = self.examples()[1].replace("print(", "opt = dedloc.Optimizer(run, model); print(", 1)
        process = self.start("-c", textwrap.dedent("import dedloc") + BEFORE + made +
                             "print(open('run.toml').read()); run.close(0.0)")
        output = self.output(process)
        self.assertIn("dedloc1", output)
        self.assertIn('kind = "cosine"', output)


if __name__ == "__main__":
    unittest.main()
