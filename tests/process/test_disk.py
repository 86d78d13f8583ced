"""Disks: a full one when a checkpoint is due, and damaged checkpoints."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import harness
from harness import ProcessTest, run_text

# Two floats a parameter (with SGD's momentum): 8 MB a checkpoint.
LARGE_MODEL = "bowl-1000000"
DISK_BYTES = 14_000_000  # one checkpoint and a bit


def small_disk(test: ProcessTest) -> Path:
    """A folder on a disk of its own, or the test is skipped."""
    path = test.folder / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", path],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        test.skipTest("a small tmpfs cannot be mounted here (that takes root): "
                      + done.stderr.strip())
    # Before the folder is removed and after the processes have ended.
    test.addCleanup(subprocess.run, ["umount", "-l", path], check=False)
    test.addCleanup(lambda: [peer.stop_for_good() for peer in test.peers])
    return path


def fill(test: ProcessTest, disk: Path) -> None:
    with open(disk / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError as error:
            test.assertEqual(error.errno, errno.ENOSPC)


class Disk(ProcessTest):
    def test_full_disk_at_a_checkpoint(self) -> None:
        """The peer says so and trains on; the checkpoint before is whole, the exit code tells."""
        disk = small_disk(self)
        run = self.write("run.toml", run_text(model=LARGE_MODEL, gradient_ms=50, steps=9,
                                               checkpoint_every=3))
        host = self.host(run, name="disk/host")
        self.assertEqual(host.end(50), harness.DISK, host.errors())
        self.expect_last_sentence(host.errors(), "step 9", "space")
        self.assertEqual(host.step(), 9)
        self.assertEqual(len(host.events("checkpoint_saved")), 1)
        self.assertGreaterEqual(len(host.events("checkpoint_failed")), 1)
        self.assertEqual(len(host.checkpoints()), 1)
        done = self.dedloc("eval", str(disk / "host"), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["step"], step_of(host.checkpoints()[0]))

    def test_a_folder_that_cannot_be_written(self) -> None:
        blocked = self.folder / "file"
        blocked.write_text("in the way")
        host = self.host(self.write("run.toml", run_text()), name="file/host")
        self.assertEqual(host.end(), harness.DISK, host.errors())
        self.expect_sentence(host.errors(), str(blocked))

    def finished_host(self):
        host = self.host(self.write("run.toml", run_text(gradient_ms=50, steps=6,
                                                          checkpoint_every=2)))
        self.assertEqual(host.end(), harness.OK, host.errors())
        self.assertGreaterEqual(len(host.checkpoints()), 2)
        return host

    def damage(self, checkpoint) -> None:
        path = checkpoint / "chunks-00000"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    def test_corrupt_checkpoint(self) -> None:
        """Named by itself it is refused; in a folder of checkpoints the one before it is taken."""
        host = self.finished_host()
        newest = host.checkpoints()[-1]
        self.damage(newest)
        for words in (("eval", str(newest)), ("host", "--resume", str(newest))):
            done = self.dedloc(*words)
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.expect_sentence(done.stderr, newest.name)
        done = self.dedloc("eval", str(host.directory), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertIn(newest.name, done.stderr)
        self.assertEqual(json.loads(done.stdout)["step"], step_of(host.checkpoints()[-2]))

    def test_all_checkpoints_corrupt(self) -> None:
        host = self.finished_host()
        for checkpoint in host.checkpoints():
            self.damage(checkpoint)
        before = sorted(os.listdir(host.directory / "checkpoints"))
        again = self.host("", name="again", more=("--resume", str(host.directory)))
        self.assertEqual(again.end(), harness.BAD_INPUT, again.errors())
        self.assertEqual(sorted(os.listdir(host.directory / "checkpoints")), before)

    def test_half_a_checkpoint_does_not_count(self) -> None:
        host = self.finished_host()
        newest = host.checkpoints()[-1]
        shutil.copytree(newest, newest.parent / "step-000000000099-00000000")
        (newest.parent / "step-000000000099-00000000" / "checkpoint.json").unlink()
        done = self.dedloc("eval", str(host.directory), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["step"], 6)


class Votes(ProcessTest):
    """A full disk is waited for, for half a minute."""
    seconds_max = 110

    def expect_to_end_without_votes(self, peer: harness.Peer, advice: str) -> None:
        self.assertEqual(peer.end(50), harness.DISK, peer.errors())
        self.expect_last_sentence(peer.errors(), "votes cannot be written for 3", "no space left",
                                  advice)
        self.assertIn("votes", peer.last_words()["error"])

    def test_a_full_disk_of_one_of_two_stops_nobody(self) -> None:
        """A peer that cannot write its votes has none, and the other one needs it for every
        decision: it waits a moment, ends with a sentence, and the other one goes on without it."""
        disk = small_disk(self)
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        guest = self.join(host.join_string(), "disk/guest")
        self.until_step(5, host, guest)
        fill(self, disk)
        self.expect_to_end_without_votes(guest, "join again in this folder")
        self.until_step(host.step() + 10, host)

    def test_a_lone_host_on_a_full_disk_says_so(self) -> None:
        disk = small_disk(self)
        host = self.host(self.write("run.toml", run_text(gradient_ms=20)), name="disk/host",
                         view="--plain")
        self.until("it trains", lambda: self.alive(host) and host.step() >= 5)
        fill(self, disk)
        self.until("it says so at once",
                   lambda: "votes cannot be written: no space left" in host.out.read_text(), 10)
        self.expect_to_end_without_votes(host, f"host --resume {host.directory}")

    def test_a_disk_that_is_full_for_a_moment_ends_nobody(self) -> None:
        disk = small_disk(self)
        host = self.host(self.write("run.toml", run_text(gradient_ms=20)), name="disk/host",
                         view="--plain")
        self.until("it trains", lambda: self.alive(host) and host.step() >= 5)
        fill(self, disk)
        self.until("it says so", lambda: "votes cannot be written" in host.out.read_text(), 10)
        (disk / "filler").unlink()
        self.until("it goes on",
                   lambda: "votes can be written again" in host.out.read_text(), 10)
        self.until_step(host.step() + 10, host)


def step_of(checkpoint) -> int:
    return int(checkpoint.name.split("-")[1])


if __name__ == "__main__":
    harness.main()
