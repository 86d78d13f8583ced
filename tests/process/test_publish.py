"""Checkpoints afterwards: copies in a folder, a command, and which ones stay."""

from __future__ import annotations

import signal
import time

import harness
from harness import ProcessTest, run_text


class Publish(ProcessTest):
    def test_every_checkpoint_is_published_whole(self) -> None:
        public = self.folder / "public"
        told = self.folder / "told"
        host = self.host(
            self.write("run.toml", run_text(gradient_ms=50, steps=8, checkpoint_every=2)),
            more=("--publish", str(public), "--on-checkpoint", f'echo "$2 $3" >> {told}',
                  "--keep-checkpoints", "1"))
        self.assertEqual(host.end(), harness.OK, host.errors())
        self.assertEqual(len(host.checkpoints()), 1)
        newest = host.checkpoints()[-1]
        self.assertEqual((public / "latest").resolve().name, newest.name)
        for file in newest.iterdir():
            self.assertEqual((public / newest.name / file.name).read_bytes(), file.read_bytes())
        self.assertEqual([path for path in public.iterdir() if path.name.startswith(".")], [])
        self.assertEqual(told.read_text().splitlines()[-1].split(),
                         ["8", host.last_words()["state_hash"]])
        done = self.dedloc("eval", str(public / "latest"), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)

    def test_the_state_of_a_moment_is_published_when_asked_for(self) -> None:
        public = self.folder / "public"
        host = self.running_host(
            self.write("run.toml", run_text(gradient_ms=50, checkpoint_every=0)),
            more=("--publish", str(public)))
        self.until_step(3, host)
        self.assertFalse(public.exists())
        done = self.dedloc("publish", str(host.directory))
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertIn("published", done.stdout)
        self.until("it is told", lambda: host.events("published"))
        self.assertIn("published the state of step", host.events("published")[0]["text"])
        first = (public / "latest").resolve()
        self.assertTrue((first / "checkpoint.json").exists())
        self.assertEqual(first.name, host.checkpoints()[-1].name)
        self.until_step(host.step() + 2, host)
        again = self.dedloc("publish", str(host.directory), "--json")
        self.assertEqual(again.returncode, harness.OK, again.stderr)
        # `ln -sfn` takes the link away before it makes the new one.
        self.until("it is told again", lambda: len(host.events("published")) == 2)
        self.assertNotEqual((public / "latest").resolve(), first)
        done = self.dedloc("eval", str(public / "latest"), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)

    def test_a_peer_without_a_place_to_publish_says_how_to_give_it_one(self) -> None:
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=50)))
        refused = self.dedloc("publish", str(host.directory))
        self.assertEqual(refused.returncode, harness.BAD_INPUT)
        self.expect_sentence(refused.stderr, "--publish FOLDER")
        self.assertEqual(host.events("published"), [])

    def test_a_hook_that_fails_or_hangs_costs_the_training_nothing(self) -> None:
        run = self.write("run.toml", run_text(gradient_ms=50, steps=12, checkpoint_every=2))
        failing = self.host(run, name="failing",
                            more=("--on-checkpoint", "echo no such bucket >&2; exit 3"))
        self.assertEqual(failing.end(), harness.OK, failing.errors())
        told = failing.events("publish_failed")
        self.assertGreaterEqual(len(told), 1)
        self.assertIn("no such bucket", told[0]["text"])
        hanging = self.host(run, name="hanging", more=("--on-checkpoint", "exec sleep 1000"))
        self.until_step(12, hanging)
        # The one that the hook works on stays, the newest ones do, and no others.
        self.until("the last checkpoint", lambda: hanging.checkpoints()
                   and hanging.checkpoints()[-1].name.startswith("step-000000000012"))
        self.assertLessEqual(len(hanging.checkpoints()), 5)

    def test_the_end_of_the_run_waits_for_the_last_hook_until_ctrl_c(self) -> None:
        run = self.write("run.toml", run_text(gradient_ms=50, steps=3))
        host = self.host(run, more=("--on-checkpoint", "sleep 1000"), view="--plain")
        self.until("it waits", lambda: "publishing the last state" in host.out.read_text())
        self.alive(host)
        self.assertFalse((host.directory / "join.txt").exists())
        begun = time.monotonic()
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK, host.errors())
        self.assertLess(time.monotonic() - begun, 10)
        told = host.events("publish_failed")
        self.assertEqual(len(told), 1)
        self.assertIn("step 3 was not published", told[0]["text"])
        self.assertIn("step 3 was not published", host.out.read_text())


if __name__ == "__main__":
    harness.main()
