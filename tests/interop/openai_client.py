#!/usr/bin/env python3
"""The `openai` package from PyPI against `dedloc serve-api`, with a language model of a few steps.

    tests/interop/openai_client.py --json      # last line: {"passed", "failed"}

The first time, the package goes into build/interop/openai (a minute). Exit status: 0 all held,
1 not, 77 without python3-venv or PyPI. DEDLOC: the program (build/release/bin/dedloc).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "openai==1.55.3"
TYPES = "httpx==0.27.2"  # of that time
SKIPPED = 77
os.environ.setdefault("DEDLOC", str(ROOT / "build/release/bin/dedloc"))


def inside_venv() -> None:
    """Goes on in a Python that has the package, making it first."""
    if os.environ.get("DEDLOC_OPENAI_VENV"):
        return
    folder = ROOT / "build/interop/openai"
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        for command in ([sys.executable, "-m", "venv", str(folder)],
                        [str(python), "-m", "pip", "install", "--quiet", PACKAGE, TYPES]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"skipped: {done.stderr.strip()[-300:]}", file=sys.stderr)
                sys.exit(SKIPPED)
        (folder / "ready").touch()
    os.environ["DEDLOC_OPENAI_VENV"] = "1"
    os.execv(python, [str(python), *sys.argv])


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.trained = api_models.Trained()
        cls.addClassCleanup(cls.trained.end)
        cls.served = served.Served(cls.trained.folder, cls.trained.writer())
        cls.trained.peers.append(cls.served)
        cls.client = openai.OpenAI(base_url=cls.served.where()["base_url"], api_key="none",
                                   max_retries=0)
        cls.asked = {"model": "language-test", "prompt": "The run", "max_tokens": 12, "seed": 3}

    def test_models(self) -> None:
        self.assertEqual([model.id for model in self.client.models.list()], ["language-test"])
        self.assertEqual(self.client.models.retrieve("language-test").owned_by, "dedloc")

    def test_completion_whole_and_streamed(self) -> None:
        whole = self.client.completions.create(**self.asked)
        pieces = list(self.client.completions.create(
            **self.asked, stream=True, stream_options={"include_usage": True}))
        text = "".join(piece.choices[0].text for piece in pieces if piece.choices)
        self.assertEqual(text, whole.choices[0].text)
        self.assertEqual(pieces[-1].usage, whole.usage)
        self.assertEqual(whole.choices[0].finish_reason, "length")

    def test_chat_whole_and_streamed(self) -> None:
        asked = {"model": "language-test", "seed": 3, "max_tokens": 12,
                 "messages": [{"role": "user", "content": "The run"}]}
        whole = self.client.chat.completions.create(**asked)
        pieces = list(self.client.chat.completions.create(**asked, stream=True))
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(pieces[0].choices[0].delta.role, "assistant")
        self.assertEqual(text, self.client.completions.create(**self.asked).choices[0].text)

    def test_stop_words(self) -> None:
        whole = self.client.completions.create(**self.asked).choices[0].text
        word = whole[len(whole) // 2:][:2]
        stopped = self.client.completions.create(**self.asked, stop=[word]).choices[0]
        self.assertEqual(stopped.text, whole[:whole.index(word)])
        self.assertEqual(stopped.finish_reason, "stop")

    def test_errors_have_their_classes(self) -> None:
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(**{**self.asked, "model": "gpt-4"})
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(**{**self.asked, "prompt": "word " * 500})
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError):
            self.client.completions.create(**self.asked, n=2)

    def test_a_stream_that_is_closed_leaves_the_model_to_others(self) -> None:
        stream = self.client.completions.create(**{**self.asked, "max_tokens": 50}, stream=True)
        next(iter(stream))
        stream.close()
        self.assertTrue(self.client.completions.create(**self.asked).choices[0].text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Client)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    told = {"passed": result.testsRun - failed, "failed": failed}
    print(json.dumps(told) if options.json else told)
    return 1 if failed or not result.testsRun else 0


if __name__ == "__main__":
    inside_venv()
    sys.path[:0] = [str(ROOT / "tests/process")]
    import openai

    import api_models
    import served
    sys.exit(main())
