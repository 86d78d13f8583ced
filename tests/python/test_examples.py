"""PyTorch's own examples, and the same as peers of a run: few lines are new, and both learn."""

from __future__ import annotations

import ast
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from test_dedloc import EXAMPLES
from test_fashion_mnist import DATA

FOLDER = EXAMPLES / "python/pytorch"
LINES_MAX = 10
SECONDS = 240


def lines_of(path: Path) -> list[str]:
    """Without the docstring."""
    text = path.read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0]
    return text.splitlines()[docstring.end_lineno:]


def changed_lines(before: Path, after: Path) -> int:
    """As diff has them: a stretch counts as many lines as the longer side of it has."""
    matcher = difflib.SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.processes: list[subprocess.Popen] = []
        self.addCleanup(lambda: [p.kill() for p in self.processes if p.poll() is None])

    def start(self, script: str, *arguments: str) -> subprocess.Popen:
        folder = Path(self._folder.name) / str(len(self.processes))  # each peer has its own
        folder.mkdir()
        self.processes.append(subprocess.Popen(
            [sys.executable, str(FOLDER / script), *arguments], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"}))
        return self.processes[-1]

    def output(self, process: subprocess.Popen) -> str:
        output, errors = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, errors)
        return output

    def two_peers(self, script: str, *arguments: str) -> list[str]:
        host = self.start(script, *arguments)
        read = ""
        for line in host.stdout:
            read += line
            if line.startswith("others: --join "):
                guest = self.start(script, "--join", line.split()[-1], *arguments)
                return [read + self.output(host), self.output(guest)]
        raise AssertionError(host.stderr.read())

    def test_at_most_ten_lines_make_a_peer(self):
        for name in "mnist", "word_language_model":
            count = changed_lines(FOLDER / f"{name}.py", FOLDER / f"{name}_together.py")
            self.assertLessEqual(count, LINES_MAX, name)
            self.assertGreater(count, 0, name)

    @unittest.skipUnless(DATA.exists(), "no images are here")
    def test_mnist_learns_with_its_schedule(self):
        outputs = self.two_peers("mnist_together.py", "--epochs", "3", "--batches", "60")
        for output in outputs:
            right = [int(word) for word in re.findall(r"Accuracy: (\d+)/", output)]
            self.assertGreater(right[-1], 6000, output)

    @unittest.skipUnless(shutil.which("bible"), "no text is here")
    def test_a_word_language_model_learns_with_its_schedule(self):
        arguments = ("--epochs", "2", "--batches", "20", "--verses", "1500", "--emsize", "32",
                     "--nhid", "32")
        for output in self.two_peers("word_language_model_together.py", *arguments):
            losses = [float(word) for word in re.findall(r"valid loss +([\d.]+)", output)]
            self.assertEqual(len(losses), 2, output)
            self.assertLess(losses[-1], 7.0, output)
            self.assertRegex(output, r"lr (20.00|19\.\d\d)")


if __name__ == "__main__":
    unittest.main()
