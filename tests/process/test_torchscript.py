"""A model from PyTorch: the host has the file, volunteers get it by its hash, without Python."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path

import harness
from harness import ProcessTest

# An nn.Linear(2, 2), written by torch.jit.script(…).save().
MODEL = Path(__file__).resolve().parent.parent / "corpus/script_archive_fuzz/linear.pt"
RUN = """name = "torchscript"
[task]
kind = "torchscript"
model = "{model}"
data = "npy:x.npy,y.npy"
[batch]
target = 64
micro = 8
[schedule]
peak = 0.5
[averaging]
quorum_timeout = "3s"
[checkpoint]
every = 20
[evaluate]
every = 20
"""


def npy(descr: str, shape: tuple[int, ...], values: bytes) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


def write_points(folder: Path, seed: int, count: int = 2000) -> None:
    """Which of two numbers is larger?"""
    folder.mkdir()
    numbers = random.Random(seed)
    points = [(numbers.uniform(-1, 1), numbers.uniform(-1, 1)) for _ in range(count)]
    inputs = b"".join(struct.pack("<2f", *point) for point in points)
    targets = b"".join(struct.pack("<q", a > b) for a, b in points)
    (folder / "x.npy").write_bytes(npy("<f4", (count, 2), inputs))
    (folder / "y.npy").write_bytes(npy("<i8", (count,), targets))


class TorchScript(ProcessTest):
    def setUp(self) -> None:
        super().setUp()
        if not self.has_libtorch():
            self.skipTest("this dedloc has no libtorch")
        write_points(self.folder / "hosts", 1)
        shutil.copy(MODEL, self.folder / "hosts/model.pt")
        write_points(self.folder / "guests", 2)

    def run_of(self, model: str = "model.pt") -> str:
        return self.write("run.toml", RUN.format(model=model))

    def with_cache(self, name: str) -> dict[str, str]:
        return {**os.environ, "XDG_CACHE_HOME": str(self.folder / name)}

    def test_a_volunteer_gets_the_model_by_its_hash_and_both_hold_one_state(self) -> None:
        host = self.running_host(self.run_of(),
                                 more=("--data", str(self.folder / "hosts")),
                                 env=self.with_cache("cache-a"))
        guest = self.join(host.join_string(), "guest",
                          more=("--data", str(self.folder / "guests")),
                          env=self.with_cache("cache-b"))
        self.until_shared_steps(10, host, guest)
        self.until("the model is good", lambda: any(
            event["fields"]["accuracy"] > 0.9
            for peer in (host, guest) for event in peer.events("evaluation")))
        self.end_with_one_state(host, guest)
        kept = list((self.folder / "cache-b/dedloc").glob("script-*.pt"))
        self.assertEqual([file.read_bytes() for file in kept], [MODEL.read_bytes()])
        done = self.dedloc("export", str(host.directory), "--to", str(self.folder / "out"),
                           "--data", str(self.folder / "hosts"))
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertEqual((self.folder / "out/model.pt").read_bytes()[:2], b"PK")

    def test_a_file_that_is_no_model_is_refused_in_words(self) -> None:
        (self.folder / "hosts/model.pt").write_bytes(b"PK and nothing more")
        host = self.host(self.run_of(), more=("--data", str(self.folder / "hosts")))
        self.assertEqual(host.end(), harness.BAD_INPUT, host.errors())
        self.expect_sentence(host.errors(), "TorchScript", "does not end as a zip file does")

    def test_a_missing_model_is_named(self) -> None:
        host = self.host(self.run_of("other.pt"), more=("--data", str(self.folder / "hosts")))
        self.assertEqual(host.end(), harness.DATA_MISSING, host.errors())
        self.expect_sentence(host.errors(), "other.pt", "torch.jit.script")


if __name__ == "__main__":
    harness.main()
