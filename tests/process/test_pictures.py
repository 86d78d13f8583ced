"""Text to image as users meet it: a run of tiny pictures, what is drawn, bad input, the guide."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import struct
import zlib
from pathlib import Path

import harness
from harness import BAD_INPUT, DATA_MISSING, OK, ProcessTest
from served import Served

ROOT = Path(__file__).resolve().parents[2]

RUN = """name = "pictures-test"
[task]
kind = "text_to_image"
model = "transformer"
data = "captions"
[text_to_image]
width = 32
layers = 2
heads = 2
head_width = 16
convolution_side = 3
words = 16
text_length = 4
[pictures]
side = 8
codes_side = 2
codes = 16
codes_width = 8
codes_steps = 20
[batch]
target = 16
micro = 4
[optimizer]
kind = "lamb"
moments_8bit = true
[schedule]
peak = 0.005
[averaging]
codec = "adaptive"
delayed = true
quorum_timeout = "3s"
[stop]
steps = {steps}
[checkpoint]
every = {checkpoint_every}
[evaluate]
every = 0
"""

COLOURS = {"red": (250, 30, 30), "green": (30, 250, 30), "blue": (30, 30, 250)}


def png(width: int, height: int, rows: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def write_captions(folder: Path, lines: list[dict]) -> None:
    (folder / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_pictures(folder: Path) -> list[dict]:
    """Squares of three colours, a fourth of each bright; returns the lines of their captions."""
    lines = []
    for colour, rgb in COLOURS.items():
        for place in range(4):
            name = f"{colour}{place}.png"
            row = [b"\0" + b"".join(bytes(rgb) if (x + y * 2) // 2 % 4 == place else b"\x20" * 3
                                    for x in range(8)) for y in range(8)]
            (folder / name).write_bytes(png(8, 8, b"".join(row)))
            lines.append({"file": name, "caption": f"{colour} place {place}",
                          "held_out": colour == "blue" and place == 1})
    write_captions(folder, lines)
    return lines


class PicturesTest(ProcessTest):
    seconds_max = 115

    def setUp(self) -> None:
        super().setUp()
        if not self.has_libtorch():
            self.skipTest("this dedloc is built without libtorch")
        self.cache = self.folder / "cache"
        old = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = str(self.cache)
        self.addCleanup(lambda: os.environ.__setitem__("XDG_CACHE_HOME", old) if old
                        else os.environ.pop("XDG_CACHE_HOME", None))
        self.pictures = self.folder / "pictures"
        self.pictures.mkdir()
        self.lines = write_pictures(self.pictures)

    def write_captions(self, *more: dict) -> None:
        write_captions(self.pictures, [*self.lines, *more])

    def run_file(self, steps: int = 0, checkpoint_every: int = 0) -> str:
        return self.write("pictures.toml", RUN.format(steps=steps,
                                                      checkpoint_every=checkpoint_every))

    def data(self) -> tuple[str, str]:
        return ("--data", str(self.pictures))

    def test_a_run_is_trained_evaluated_exported_and_draws_its_prompts(self) -> None:
        prompts = self.write("prompts.txt", "red place 1\n\n# none\nblue place 1\n")
        host = self.host(self.run_file(steps=4, checkpoint_every=2),
                         more=(*self.data(), "--watch-prompts", prompts))
        self.assertEqual(host.end(90), OK, host.errors())
        sheets = sorted((host.directory / "prompts").glob("step-*.png"))
        self.assertTrue(sheets, host.errors())
        self.assertTrue((host.directory / "prompts" / "latest.png").exists())
        measured = self.dedloc("eval", str(host.directory), *self.data(), "--json")
        self.assertEqual(measured.returncode, OK, measured.stderr)
        self.assertEqual(json.loads(measured.stdout)["samples"], 1)
        exported = self.dedloc("export", str(host.directory), "--to", str(self.folder / "out"))
        self.assertEqual(exported.returncode, OK, exported.stderr)
        self.assertTrue((self.folder / "out" / "image_codes.safetensors").exists())
        grid = self.folder / "grid.png"
        draw = ("sample", str(host.directory), "--n", "4", "--out", str(grid))
        drawn = self.dedloc(*draw, "--prompt", "red place dragon")
        self.assertEqual(drawn.returncode, OK, drawn.stderr)
        self.expect_sentence(drawn.stderr, "dragon")
        self.assertEqual(grid.read_bytes()[:4], b"\x89PNG")
        unknown = self.dedloc(*draw, "--prompt", "xyzzy")
        self.assertEqual(unknown.returncode, BAD_INPUT)
        self.expect_sentence(unknown.stderr, "xyzzy")

    def test_a_served_model_draws(self) -> None:
        host = self.host(self.run_file(steps=2, checkpoint_every=2), more=self.data())
        self.assertEqual(host.end(90), OK, host.errors())
        served = Served(self.folder, str(host.directory))
        self.peers.append(served)
        self.assertEqual(served.model()["dedloc"]["kind"], "pictures")
        asked = {"prompt": "red place 1", "n": 3, "seed": 5}
        status, drawn = served.post("/v1/images/generations", **asked)
        self.assertEqual(status, 200, drawn)
        pictures = [base64.b64decode(one["b64_json"], validate=True) for one in drawn["data"]]
        self.assertEqual(len(pictures), 3)
        for picture in pictures:
            self.assertTrue(picture.startswith(b"\x89PNG\r\n\x1a\n"))
        self.assertEqual(served.post("/v1/images/generations", **asked)[1]["data"], drawn["data"])
        status, told = served.post("/v1/images/generations", prompt="xyzzy")
        self.assertEqual(status, 400)
        self.assertIn("xyzzy", told["error"]["message"])
        self.assertEqual(served.post("/v1/completions", prompt="red")[0], 404)

    def test_the_guide_for_viewers_is_true(self) -> None:
        """Runs every command of the guide, with this run's join string for STRING."""
        host = self.running_host(self.run_file(), more=self.data())
        self.until_step(1, host)
        guide = (ROOT / "docs" / "guides" / "join-as-a-viewer.md").read_text()
        commands = re.findall(r"^    (dedloc .*?)(?:\s+#.*)?$", guide, re.MULTILINE)
        self.assertGreaterEqual(len(commands), 2)
        os.environ["XDG_CACHE_HOME"] = str(self.folder / "viewers-cache")
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        for command in commands:
            words = [host.join_string() if word == "STRING" else word
                     for word in shlex.split(command)[1:]]
            done = self.dedloc(*words, seconds=60)
            self.assertEqual(done.returncode, OK, f"{command}: {done.stderr}")
        self.assertEqual((self.folder / "grid.png").read_bytes()[:4], b"\x89PNG")
        step = host.step()
        self.until_step(step + 1, host)

    def test_bad_pictures_and_captions_are_named(self) -> None:
        run = self.run_file(steps=1)
        self.write_captions({"file": "ghost.png", "caption": "red ghost"})
        missing = self.dedloc("host", run, *self.data(), "--dir", str(self.folder / "a"))
        self.assertEqual(missing.returncode, DATA_MISSING)
        self.expect_sentence(missing.stderr, "ghost.png")
        # A picture that cannot be read is left out and named; the rest is trained on.
        (self.pictures / "huge.png").write_bytes(png(40_000, 40_000, b""))
        (self.pictures / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01")
        self.write_captions({"file": "huge.png", "caption": "red huge"},
                            {"file": "cut.jpg", "caption": "red cut"})
        host = self.host(run, more=self.data())
        self.assertEqual(host.end(90), OK, host.errors())
        for name in ("huge.png", "cut.jpg"):
            self.assertIn(name, host.errors())
        nothing = self.dedloc("host", run, "--dir", str(self.folder / "b"))
        self.assertEqual(nothing.returncode, DATA_MISSING)
        self.expect_sentence(nothing.stderr, "--data")


if __name__ == "__main__":
    harness.main()
