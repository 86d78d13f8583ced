"""`dedloc why`, and what `dedloc report` says of one run and of two."""

from __future__ import annotations

import json
import signal

import harness
from harness import ProcessTest, run_text


class Why(ProcessTest):
    def test_a_slow_line_is_found_in_a_folder_and_from_outside(self) -> None:
        # 200 kB over 1 Mb/s take 1.6 s; computing takes a tenth of that.
        run = self.write("run.toml", run_text(model="bowl-100000", gradient_ms=20, target=16))
        host = self.running_host(run, more=("--name", "Hanna"))
        guest = self.join(host.join_string(), "guest", more=("--name", "অনিতা", "--max-up", "1"))
        self.until_shared_steps(8, host, guest)
        joined = [event["text"] for event in host.events("peer_joined")]
        self.assertEqual(joined, ["অনিতা joined"])
        done = self.dedloc("why", str(host.directory), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        why = json.loads(done.stdout)
        self.assertEqual(why["seen_by"], "Hanna")
        self.assertGreater(why["steps"], 4)
        self.assertAlmostEqual(why["step_s"], sum(why[name] for name in (
            "computing_s", "waiting_s", "averaging_s", "applying_s")), places=6)
        self.assertEqual((why["line"]["peer"], why["line"]["way"]), ("অনিতা", "up"))
        self.assertTrue(why["findings"] and why["advice"])
        text = self.dedloc("why", str(host.directory))
        self.assertIn("অনিতা", text.stdout)
        outside = self.dedloc("why", host.join_string(), "--seconds", "10", "--json")
        self.assertEqual(outside.returncode, harness.OK, outside.stderr)
        seen = json.loads(outside.stdout.splitlines()[-1])
        self.assertEqual({peer["name"] for peer in seen["peers"]}, {"Hanna", "অনিতা"})

    def test_a_report_has_names_and_minutes_and_two_are_compared(self) -> None:
        folders = []
        for name, peak in (("one", 0.05), ("two", 0.01)):
            text = run_text(steps=30, peak=peak).replace("every = 0", "every = 10")
            host = self.host(self.write(f"{name}.toml", text), name=name, more=("--name", "Raúl"))
            self.assertEqual(host.end(), harness.OK, host.errors())
            folders.append(str(host.directory))
        done = self.dedloc("report", folders[0], "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertEqual([one["name"] for one in json.loads(done.stdout)["persons"]], ["Raúl"])
        page = (self.folder / "one" / "report" / "report.html").read_text()
        for part in ("Raúl", "over seconds", "Accuracy"):
            self.assertIn(part, page)
        done = self.dedloc("report", *folders, "--to", str(self.folder / "both"))
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertIn("schedule.peak", done.stdout)
        page = (self.folder / "both" / "compared.html").read_text()
        self.assertIn("2 runs compared", page)

    def test_what_is_no_folder_and_no_string_is_told(self) -> None:
        done = self.dedloc("why", str(self.folder / "nothing"))
        self.assertEqual(done.returncode, harness.BAD_INPUT)
        self.expect_sentence(done.stderr)


class Ended(ProcessTest):
    def test_who_joins_a_run_that_has_ended_is_told_when_and_at_which_step(self) -> None:
        host = self.host(self.write("run.toml", run_text(steps=3, gradient_ms=200)))
        self.until("a join string", host.join_string)
        string = host.join_string()
        self.assertEqual(host.end(), harness.OK, host.errors())
        # A peer that took part has it in its folder; another one hears what may be.
        seen = self.join(string, "host")
        self.assertEqual(seen.end(50), harness.UNREACHABLE, seen.errors())
        self.expect_last_sentence(seen.errors(), "has ended, at step 3", str(host.directory))


class Settings(ProcessTest):
    def test_settings_are_written_into_a_new_file_and_taken_by_a_host(self) -> None:
        path = str(self.folder / "new.toml")
        done = self.dedloc("init", "synthetic", "--size", "small", "--set", "stop.steps=7",
                           "--set", "task.data=noise", "-o", path)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        host = self.host(path, more=("--set", "stop.steps=5", "--set", "name=five"))
        self.assertEqual(host.end(), harness.OK, host.errors())
        self.assertEqual(host.last_words()["step"], 5)
        self.assertIn('name = "five"', (host.directory / "run.toml").read_text())
        for words in (("init", "synthetic", "-o", "-"), ("host", path)):
            done = self.dedloc(*words, "--set", "stop.stepz=5")
            self.assertEqual(done.returncode, harness.BAD_INPUT)
            self.expect_sentence(done.stderr, "--set stop.stepz=5", "did you mean 'stop.steps'")

    def test_a_cap_too_small_for_the_run_is_told_before_the_first_step(self) -> None:
        run = self.write("run.toml", run_text(model="bowl-16000000", gradient_ms=50).replace(
            "[averaging]\n", '[averaging]\nround_deadline_max = "60s"\n'))
        host = self.host(run, more=("--max-up", "1"))
        self.until("it is told", lambda: self.alive(host) and host.events("caps"))
        self.assertIn("--max-up is too small", host.events("caps")[0]["text"])
        self.assertEqual(host.step(), 0)
        host.signal(signal.SIGINT)
        host.end()


if __name__ == "__main__":
    harness.main()
