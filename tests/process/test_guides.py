"""The guides in docs/guides, executed as they stand: the code blocks of a page, in order."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import zlib
from pathlib import Path

import harness
from harness import ProcessTest

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def script_of(page: str) -> str:
    text = (GUIDES / page).read_text()
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def png(side: int, pixel) -> bytes:
    """A picture whose pixel(x, y) is three bytes."""
    rows = b"".join(b"\0" + b"".join(pixel(x, y) for x in range(side)) for y in range(side))

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def write_photos(folder: Path, pictures: int = 60) -> None:
    """Two classes: stripes that lie, and stripes that stand."""
    for i in range(pictures):
        kind = ("lying", "standing")[i % 2]
        width = 3 + i // 2 % 5

        def pixel(x: int, y: int, kind=kind, width=width, i=i) -> bytes:
            along = y if kind == "lying" else x
            return bytes((250 - 3 * i, 40 + 3 * i, 90)) if along // width % 2 else bytes(3)

        path = folder / kind / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(40, pixel))


class GuidesTest(ProcessTest):
    seconds_max = 245

    def setUp(self) -> None:
        super().setUp()
        if not self.has_libtorch():
            self.skipTest("this build computes nothing")

    def run_page(self, page: str, seconds: float = 230) -> str:
        environment = dict(os.environ, PATH=f"{Path(harness.DEDLOC).parent}:{os.environ['PATH']}")
        script = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script_of(page)],
                                  cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  start_new_session=True)
        self.addCleanup(self.end_group, script)
        out, _ = script.communicate(timeout=seconds)
        self.assertEqual(script.returncode, 0, out)
        return out

    @staticmethod
    def small_run() -> str:
        """The run file of the guide."""
        return script_of("run-your-own.md").split("<<'END'\n")[1].split("END\n")[0]

    @staticmethod
    def end_group(script: subprocess.Popen) -> None:
        try:
            os.killpg(script.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_guides_run_your_own(self) -> None:
        write_photos(self.folder / "photos")
        whole = (self.folder / "photos" / "lying" / "0.png").read_bytes()
        (self.folder / "photos" / "lying" / "broken.png").write_bytes(whole[:20])
        out = self.run_page("run-your-own.md")
        self.assertIn("1 of 61 pictures in photos cannot be read", out)
        self.assertIn("lying/broken.png", out)
        self.assertRegex(out, r"step 100, state .*accuracy \d+\.\d+ % on")
        self.assertIn("linear_accuracy", out)
        self.assertTrue((self.folder / "model" / "model.safetensors").exists())
        self.assertGreater(len((self.folder / "host.txt").read_text().split()[0]), 40)

    def test_a_folder_that_differs_is_found_before_training(self) -> None:
        write_photos(self.folder / "photos")
        write_photos(self.folder / "others", pictures=40)
        run = self.write("run.toml", self.small_run())
        host = self.running_host(str(run), more=("--data", str(self.folder / "photos")))
        friend = self.join(host.join_string(), "friend",
                           more=("--data", str(self.folder / "others")))
        self.assertEqual(friend.end(), harness.DIFFERENT_RUN)
        self.expect_sentence(friend.errors(), "the 40 pictures in",
                             "take the same files as the run's host")
        self.alive(host)

    def test_folders_that_are_no_pictures_are_refused_with_a_sentence(self) -> None:
        run = self.write("run.toml", self.small_run())
        photos = self.folder / "photos"
        photos.mkdir()
        done = self.dedloc("check", run, "--data", str(photos))
        self.assertEqual(done.returncode, harness.BAD_INPUT)
        self.expect_sentence(done.stderr, "no pictures that can be read")
        done = self.dedloc("host", run, "--quiet", "--listen", "none")
        self.assertEqual(done.returncode, harness.DATA_MISSING)
        self.expect_sentence(done.stderr, "--data")
        write_photos(photos, pictures=12)
        huge = png(2, lambda x, y: bytes(3))
        size = struct.pack(">II", 40_000, 40_000)
        head = b"IHDR" + size + huge[24:29]
        (photos / "huge.png").write_bytes(
            huge[:12] + head + struct.pack(">I", zlib.crc32(head)) + huge[33:])
        (photos / "lying" / "huge.png").write_bytes((photos / "huge.png").read_bytes())
        done = self.dedloc("check", run, "--data", str(photos), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertIn("1 of 13 pictures", done.stderr)
        self.assertIn("40000 × 40000 pixels", done.stderr)
        (photos / "captions.jsonl").write_text('{"file": "none.png", "caption": "nothing"}\n')
        done = self.dedloc("check", run, "--data", str(photos))
        self.assertEqual(done.returncode, harness.DATA_MISSING)
        self.expect_sentence(done.stderr, "captions.jsonl:1: there is no picture none.png")


if __name__ == "__main__":
    harness.main()
