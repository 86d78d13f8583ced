"""`dedloc serve`, the grid in `dedloc watch`, and `dedloc find`."""

from __future__ import annotations

import json
import re
import resource
import signal
import time
from pathlib import Path

import harness
from harness import Peer, ProcessTest

RUN = """name = "experts-test"
[task]
kind = "moe_classifier"
model = "moe_mlp"
data = "fashion-mnist"
[moe_classifier]
width = 16
[experts]
grid = "2x2"
hidden = 16
best = 2
[batch]
target = 64
micro = 64
[averaging]
quorum_timeout = "3s"
[stop]
steps = {steps}
[evaluate]
every = 0
"""

TEXT = """name = "experts-of-words"
[task]
kind = "moe_albert"
model = "albert"
data = "text:words"
[albert]
vocabulary = 1024
embedding = 16
hidden = 32
layers = 2
heads = 2
feed_forward = 64
positions = 32
dropout = 0.0
attention_dropout = 0.0
[text]
tokenizer = "vocabulary=400"
length = 32
held_out_samples = 64
window_samples = 512
[experts]
grid = "2x2"
hidden = 64
best = 2
rate = 0.003
[batch]
target = 64
micro = 32
[optimizer]
kind = "adamw"
[schedule]
peak = 0.01
[stop]
steps = {steps}
[evaluate]
every = 0
"""


# Stacks of threads count as the program's memory before they are used.
STACKS_BYTES = 24 * 8 << 20


def grid_of(test: ProcessTest, join: str) -> dict:
    watched = test.dedloc("watch", join, "--seconds", "8", "--json")
    return json.loads(watched.stdout.splitlines()[-1]).get("experts", {})


class Serve(ProcessTest):
    seconds_max = 110

    def need_pictures(self) -> None:
        if not Path("/usr/share/datasets/fashion-mnist").exists():
            self.skipTest("wants the Debian package dataset-fashion-mnist")

    def grid(self, join: str) -> dict:
        return grid_of(self, join)

    def test_servers_take_over_experts_learn_and_hand_them_over(self) -> None:
        self.need_pictures()
        host = self.running_host(self.write("run.toml", RUN.format(steps=0)))
        join = host.join_string()
        servers = [Peer(self, ["serve", join], self.folder / f"server-{i}") for i in (0, 1)]
        self.until("experts learn", lambda: host.step() > 20, seconds=45)
        grid = self.grid(join)
        self.assertEqual(grid["served"], 4)
        self.assertGreater(sum(expert["updates"] for expert in grid["experts"]), 0)
        servers[0].signal(signal.SIGINT)
        self.assertEqual(servers[0].end(), harness.OK, servers[0].errors())
        said = servers[0].last_words()
        self.assertTrue(said["ok"] and said["left"])
        self.assertGreater(said["updates"], 0)
        self.assertGreater(said["handed_over"], 0)
        self.assertEqual(self.grid(join)["served"], 4)

    def test_a_pause_of_the_only_server_is_one_failure_and_not_one_for_each_call(self) -> None:
        """Each of them used to double its rest, up to half a minute."""
        self.need_pictures()
        run = RUN.format(steps=0).replace("micro = 64", "micro = 16")
        host = self.running_host(self.write("run.toml", run))
        server = Peer(self, ["serve", host.join_string()], self.folder / "server")
        self.until("experts answer", lambda: host.step() > 5, seconds=40)
        server.signal(signal.SIGSTOP)
        time.sleep(1.5)  # it is the length of the pause that is tried
        server.signal(signal.SIGCONT)
        step = host.step()
        self.until("it goes on", lambda: host.step() > step + 2, seconds=18)

    def test_a_server_keeps_to_the_memory_that_it_lends(self) -> None:
        """The system gives it no more than that: libraries that want more would end it."""
        self.need_pictures()
        host = self.running_host(self.write("run.toml", RUN.format(steps=0)))
        join = host.join_string()
        little = Peer(self, ["serve", join, "--memory", "1"], self.folder / "little")
        self.assertEqual(little.end(), harness.CANNOT_COMPUTE)
        enough = re.search(r"say --memory (\d+) or more", little.errors())
        self.assertIsNotNone(enough, little.errors())
        lent = int(enough[1])
        first = Peer(self, ["serve", join, "--memory", str(lent)], self.folder / "first")
        self.until("it serves", lambda: first.events("serving") or first.process.poll() is not None)
        self.assertIsNone(first.process.poll(), first.errors())
        program = first.events("serving")[0]["fields"]["program_bytes"]
        limit = program + (lent << 20) + STACKS_BYTES
        second = Peer(self, ["serve", join, "--memory", str(lent)], self.folder / "second",
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
        self.until("both are there", lambda: second.events("serving"), seconds=40)
        first.signal(signal.SIGKILL)
        step = host.step()
        self.until("the other one took its experts over", lambda: host.step() > step + 10,
                   seconds=50)
        self.assertIsNone(second.process.poll(), second.errors())
        second.signal(signal.SIGINT)
        self.assertEqual(second.end(), harness.OK, second.errors())
        self.assertGreater(second.last_words()["updates"], 0)

    def test_experts_are_in_the_check_the_view_and_the_evaluation(self) -> None:
        self.need_pictures()
        run = self.write("run.toml", RUN.format(steps=6) + "[checkpoint]\nevery = 3\n")
        checked = self.dedloc("check", run)
        self.assertEqual(checked.returncode, harness.OK, checked.stderr)
        self.assertRegex(checked.stdout, r"4 experts of \d+ parameters each")
        host = Peer(self, ["host", run], self.folder / "host", view="--plain")
        self.until("its string", lambda: host.join_string())
        join = host.join_string()
        server = Peer(self, ["serve", join], self.folder / "server")
        self.assertEqual(host.end(50), harness.OK, host.errors())
        self.assertIn("experts: ", host.out.read_text())
        # The server is still there, and the trainer's folder says where.
        evaluated = self.dedloc("eval", str(host.directory), "--run", str(host.directory), "--json")
        self.assertEqual(evaluated.returncode, harness.OK, evaluated.stderr)
        self.assertIn("accuracy", json.loads(evaluated.stdout.splitlines()[-1]))
        server.signal(signal.SIGINT)
        self.assertEqual(server.end(), harness.OK, server.errors())
        alone = self.dedloc("eval", str(host.directory), "--run", join, seconds=20)
        self.assertEqual(alone.returncode, harness.UNREACHABLE, alone.stderr)
        self.assertIn("dedloc serve", alone.stderr)

    def test_a_run_without_experts_has_nothing_to_serve(self) -> None:
        host = self.running_host(self.write("run.toml", harness.run_text()))
        server = Peer(self, ["serve", host.join_string()], self.folder / "server")
        self.assertEqual(server.end(), harness.BAD_INPUT)
        self.assertIn("has no experts", server.errors())

    def test_a_listed_run_is_found_by_name_without_its_secret(self) -> None:
        host = self.running_host(self.write("run.toml", harness.run_text()), more=("--listed",))
        other = self.running_host(self.write("other.toml", harness.run_text(target=8)),
                                  name="other", more=("--listed", "--open"))
        join = host.join_string()

        def found(at: str) -> list[dict]:
            done = self.dedloc("find", "process-test", "--at", at, "--json")
            return json.loads(done.stdout)["runs"] if done.returncode == harness.OK else []

        self.until("it is listed", lambda: len(found(join)) == 1)
        self.until("it is listed", lambda: len(found(other.join_string())) == 1)
        run, = found(join)
        self.assertEqual((run["task"], run["open"], run["join_string"]), ("synthetic", False, ""))
        opened, = found(other.join_string())
        self.assertTrue(opened["open"])
        self.assertTrue(opened["join_string"].startswith("dedloc1"))
        self.assertNotEqual(run["run_hash"], opened["run_hash"])
        missing = self.dedloc("find", "no-such-run", "--at", join)
        self.assertEqual(missing.returncode, harness.DATA_MISSING)
        self.assertIn("no run is listed as 'no-such-run' there", missing.stderr)


class ServeWords(ProcessTest):
    seconds_max = 170

    def test_an_albert_with_served_experts_learns_from_text(self) -> None:
        words = self.folder / "data" / "words"
        words.mkdir(parents=True)
        for document in sorted((Path(__file__).parents[2] / "docs").glob("*.md")):
            (words / (document.stem + ".txt")).write_bytes(document.read_bytes())
        run = self.write("words.toml", TEXT.format(steps=0))
        host = self.running_host(run, more=("--data", str(self.folder / "data")))
        server = Peer(self, ["serve", host.join_string()], self.folder / "server")
        self.until("it learns", lambda: host.step() >= 30, seconds=140)
        losses = [event["fields"]["loss"] for event in host.events("step")]
        first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
        self.assertLess(last, first - 0.7)
        served = grid_of(self, host.join_string())
        self.assertGreater(min(expert["updates"] for expert in served["experts"]), 0)
        server.signal(signal.SIGINT)
        self.assertEqual(server.end(), harness.OK, server.errors())
        self.assertGreater(server.last_words()["updates"], 0)


if __name__ == "__main__":
    harness.main()
