"""The run's tokenizer: its peers give it to a newcomer that has text only, and it lies beside the
checkpoints, which are worth nothing without it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
from pathlib import Path
from unittest import mock

import harness
from harness import ProcessTest

RUN = """name = "tokenizer-test"
[task]
kind = "albert"
model = "albert"
data = "text:words"
[albert]
vocabulary = 1024
embedding = 8
hidden = 16
layers = 1
heads = 2
feed_forward = 32
positions = 32
[text]
tokenizer = "vocabulary=400"
length = 32
held_out_samples = 4
window_samples = 64
[batch]
target = 16
micro = 2
[optimizer]
kind = "lamb"
[schedule]
peak = 0.001
[averaging]
quorum_timeout = "3s"
[checkpoint]
every = 0
[evaluate]
every = 0
"""


class Tokenizer(ProcessTest):
    def environment(self, name: str) -> dict[str, str]:
        """Makes a user with a cache of their own, empty."""
        cache = self.folder / f"{name}-cache"
        cache.mkdir(exist_ok=True)
        return dict(os.environ, XDG_CACHE_HOME=str(cache))

    def cached(self, name: str, pattern: str) -> list[Path]:
        return sorted((self.folder / f"{name}-cache" / "dedloc").glob(pattern))

    def text(self) -> str:
        """A data folder with this project's own documents as the corpus."""
        words = self.folder / "data" / "words"
        words.mkdir(parents=True)
        documents = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
        for document in documents:
            (words / (document.stem + ".txt")).write_bytes(document.read_bytes())
        return str(self.folder / "data")

    def test_a_joiner_without_a_tokenizer_gets_the_runs(self) -> None:
        if not self.has_libtorch():
            self.skipTest("ALBERT needs a build with libtorch")
        data = self.text()
        run = self.write("run.toml", RUN)
        host = self.host(run, more=("--data", data), env=self.environment("host"))
        self.until("the host prints a join string",
                   lambda: self.alive(host) and host.join_string())
        self.assertEqual(len(self.cached("host", "trained-*.model")), 1)

        joiner = self.join(host.join_string(), "joiner", more=("--data", data),
                           env=self.environment("joiner"))
        self.until_step(2, host, joiner)
        self.assertEqual(len(joiner.events("file_fetched")), 1)
        self.assertEqual(self.cached("joiner", "trained-*.model"), [], "it trained one itself")
        kept = self.cached("joiner", "tokenizer-*.model")
        self.assertEqual(len(kept), 1)
        fetched = kept[0].read_bytes()
        wanted = re.search(r'tokenizer_hash = "([0-9a-f]{64})"',
                           (joiner.directory / "run.toml").read_text())[1]
        self.assertEqual(hashlib.sha256(fetched).hexdigest(), wanted)
        self.assertEqual(fetched, self.cached("host", "trained-*.model")[0].read_bytes())

        for peer in (host, joiner):
            self.assertEqual((peer.directory / "files" / wanted).read_bytes(), fetched)

        # A damaged copy in the cache is fetched anew.
        kept[0].write_bytes(fetched[:-1])
        joiner.stop_for_good()
        again = self.join(host.join_string(), "joiner", more=("--data", data),
                          env=self.environment("joiner"))
        self.until("the copy is whole again",
                   lambda: self.alive(again) and kept[0].read_bytes() == fetched)

    def test_checkpoints_outlive_the_cache(self) -> None:
        if not self.has_libtorch():
            self.skipTest("ALBERT needs a build with libtorch")
        data = self.text()
        public = self.folder / "public"
        host = self.host(self.write("run.toml", RUN), env=self.environment("host"),
                         more=("--data", data, "--publish", str(public)))
        self.until_step(2, host)
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK, host.errors())
        # From this text another tokenizer would be trained.
        (self.folder / "data" / "words" / "more.txt").write_text("Zebras graze. " * 5000)
        out = self.folder / "out"
        for checkpoint in (host.directory, public / "latest"):
            shutil.rmtree(self.folder / "host-cache")
            with mock.patch.dict(os.environ, self.environment("host")):
                done = self.dedloc("export", str(checkpoint), "--to", str(out), "--data", data)
            self.assertEqual(done.returncode, harness.OK, done.stderr)
        tokenizer = (out / "spiece.model").read_bytes()
        self.assertTrue((host.directory / "files" / hashlib.sha256(tokenizer).hexdigest()).exists())
        shutil.rmtree(self.folder / "host-cache")
        before = host.step()
        again = self.host("", env=self.environment("host"),
                          more=("--resume", str(host.directory), "--data", data))
        self.until_step(before + 1, again)
        self.assertEqual(self.cached("host", "trained-*.model"), [], "it trained one")

    def test_a_new_run_with_the_model_of_another_keeps_its_tokenizer(self) -> None:
        if not self.has_libtorch():
            self.skipTest("ALBERT needs a build with libtorch")
        data = self.text()
        run = self.write("run.toml", RUN)
        first = self.host(run, name="first", env=self.environment("host"), more=("--data", data))
        self.until_step(2, first)
        first.signal(signal.SIGINT)
        self.assertEqual(first.end(), harness.OK, first.errors())
        # Here another tokenizer of this size would be trained.
        (self.folder / "data" / "words" / "more.txt").write_text("Zebras graze. " * 5000)
        shutil.rmtree(self.folder / "host-cache")
        second = self.host(run, name="second", env=self.environment("host"),
                           more=("--data", data, "--from", str(first.directory)))
        self.until_step(1, second)
        self.assertEqual(self.cached("host", "trained-*.model"), [], "it trained one")
        known = os.listdir(first.directory / "files")
        self.assertEqual(len(known), 1)
        self.assertEqual(os.listdir(second.directory / "files"), known)

        other = "0" * 64
        refused = self.host(
            self.write("other.toml", RUN.replace("[text]", f'[text]\ntokenizer_hash = "{other}"')),
            name="third", more=("--data", data, "--from", str(first.directory)))
        self.assertEqual(refused.end(), harness.BAD_INPUT, refused.errors())
        self.expect_sentence(refused.errors(), known[0], other)

    def test_a_run_file_names_no_other_files_of_this_machine(self) -> None:
        if not self.has_libtorch():
            self.skipTest("ALBERT needs a build with libtorch")
        data = self.text()
        for named, more, words in (("text:/etc/passwd", ("--data", data), "/etc/passwd is not"),
                                   ("text:../data/words", ("--data", data), "is not below --data"),
                                   ("text:words", (), "say with --data which folder")):
            host = self.host(self.write("run.toml", RUN.replace("text:words", named)), more=more)
            self.assertNotEqual(host.end(), harness.OK)
            self.expect_sentence(host.errors(), words)

    def test_a_joiner_without_the_text_is_told_which(self) -> None:
        if not self.has_libtorch():
            self.skipTest("ALBERT needs a build with libtorch")
        host = self.host(self.write("run.toml", RUN), more=("--data", self.text()))
        self.until("the host prints a join string",
                   lambda: self.alive(host) and host.join_string())
        nothing = self.folder / "nothing"
        nothing.mkdir()
        joiner = self.join(host.join_string(), "joiner", more=("--data", str(nothing)))
        self.assertEqual(joiner.end(), harness.DATA_MISSING, joiner.errors())
        self.expect_sentence(joiner.errors(), str(nothing / "words"))


if __name__ == "__main__":
    harness.main()
