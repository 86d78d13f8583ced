"""The benchmarks with tiny input: that they run, say what is skipped, and refuse to measure a round
that left somebody out, leave nothing behind, and judge what they measured; and two tables of the
lab, whole. Nothing here has to do with speed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import harness
from harness import ProcessTest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(harness.DEDLOC).resolve().parent
RUN = [sys.executable, str(ROOT / "bench/run.py")]
BENCH_BIN = ROOT / "build/bench/bin"
GROUP = 4
GROUPS_MAX = 4
NO_ROUND_WITHOUT = "the others do no round without this rank"
SOURCES = {"round_bench": ("bench/round_bench.cpp", "src/dedloc/measure/round_member.h",
                           "src/dedloc/measure/round_member.cpp"),
           "gloo_allreduce": ("bench/gloo_allreduce.cpp",), "dedloc_security_bench": ()}


class Bench(ProcessTest):
    def program(self, name: str) -> Path:
        if not (BIN / name).is_file():
            self.skipTest(f"{name} is not beside dedloc: configure with -DDEDLOC_TESTS=ON")
        return BIN / name

    def bench_build_or_skip(self) -> None:
        for name, sources in SOURCES.items():
            program = BENCH_BIN / name
            if not program.is_file():
                self.skipTest(f"no {name} in build/bench/bin (./bench.sh builds it)")
            built = program.stat().st_mtime
            if any((ROOT / source).stat().st_mtime > built for source in sources):
                self.skipTest(f"{name} in build/bench/bin is older than its source (./bench.sh)")

    def bench(self, folder: Path, *names: str) -> dict[str, dict]:
        """The lines of bench/run.py --quick, by name."""
        done = subprocess.run(
            [*RUN, "--bin", str(folder), "--quick", "--json", *names],
            capture_output=True, text=True, timeout=50, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines:
            self.assertTrue(line.get("skipped") or line["value"] > 0, line)
        return {line["bench"]: line for line in lines}

    def rounds_with_a_late_member(self, late_rounds: int) -> list[tuple[int, str, str]]:
        """Exit status, standard output and error of each member of a group of round_bench."""
        command = [str(self.program("round_bench")), "--size", str(GROUP), "--elements", "4096",
                   "--rounds", "1", "--folder", str(self.folder), "--rank"]
        members = []
        for rank in range(GROUP):
            late = ["--late-rounds", str(late_rounds)] if rank == GROUP - 1 else []
            members.append(subprocess.Popen([*command, str(rank), *late], text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        try:
            late_said = members[-1].communicate(timeout=45)
            if NO_ROUND_WITHOUT in late_said[1]:  # the others wait for its vote
                for member in members[:-1]:
                    member.kill()
            said = [member.communicate(timeout=45) for member in members[:-1]] + [late_said]
        finally:
            for member in members:
                member.kill()
                member.wait()
        return [(member.returncode, *texts) for member, texts in zip(members, said)]

    def test_quick_benchmarks_of_rounds_and_plans_run(self) -> None:
        self.program("round_bench")
        lines = self.bench(BIN, "round_overhead", "plan", "light")
        self.assertEqual(set(lines), {"round_overhead", "round_overhead_50ms", "plan_256",
                                      "plan_100000", "light", "light_encode", "light_add",
                                      "light_feedback"})
        self.assertIn("rounds_repeated", lines["round_overhead"])

    def test_the_quick_all_reduce_beside_gloo_runs(self) -> None:
        self.bench_build_or_skip()
        lines = self.bench(BENCH_BIN, "allreduce")
        for codec, rmse_max in (("fp32", 1e-6), ("fp16", 1e-3), ("8bit", 0.012)):
            line = lines[f"allreduce_{codec}"]
            self.assertLessEqual(line["rmse"], rmse_max, line)
            for whose in ("", "anchor_"):
                self.assertGreater(line[whose + "cpu_s_all"], line[whose + "cpu_s"], line)

    def test_a_round_that_left_a_member_out_is_repeated_and_not_measured(self) -> None:
        for _ in range(GROUPS_MAX):
            members = self.rounds_with_a_late_member(late_rounds=1)
            if all(status == 0 for status, _, _ in members):
                break
            # On a busy machine another one may be late as well, in that round or in the repetition:
            # nothing else is right.
            self.assertTrue(any("a round and its repetition left out" in err or
                                NO_ROUND_WITHOUT in err for _, _, err in members), members)
        for status, out, err in members:
            self.assertEqual(status, 0, err)
            self.assertEqual(json.loads(out)["rounds_repeated"], 1)

    def test_two_rounds_that_left_a_member_out_are_an_error(self) -> None:
        for status, out, err in self.rounds_with_a_late_member(late_rounds=2):
            self.assertEqual((status, out), (1, ""))
            self.assertIn(f"left out the contribution of rank {GROUP - 1}", err)


class BenchRunner(ProcessTest):
    def stand_in(self, name: str, script: str) -> None:
        program = self.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)

    def end_in_mid_measure(self, bench: str, processes: int) -> None:
        started, temporary = self.folder / bench / "started", self.folder / bench / "tmp"
        started.mkdir(parents=True)
        temporary.mkdir()
        runner = subprocess.Popen(
            [*RUN, "--bin", str(self.folder / "bin"), bench],
            env=dict(os.environ, TMPDIR=str(temporary), STARTED=str(started)))
        try:
            self.until("all run", lambda: len(list(started.iterdir())) == processes)
            runner.terminate()
            self.assertEqual(runner.wait(20), 128 + 15)
            left = [one.name for one in started.iterdir() if Path("/proc", one.name).exists()]
            self.assertEqual((left, list(temporary.iterdir())), ([], []))
        finally:
            runner.kill()
            runner.wait()
            for one in started.iterdir():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(one.name), signal.SIGKILL)

    def test_a_terminated_benchmark_leaves_no_processes_and_no_folders(self) -> None:
        for name in ("round_bench", "dedloc", "plain_loop"):
            self.stand_in(name, "touch $STARTED/$$\nexec sleep 300\n")
        self.end_in_mid_measure("round_overhead", 4)
        self.end_in_mid_measure("solo", 2)  # of which one is stopped

    def test_a_missed_target_is_told_and_with_check_it_is_the_exit_code(self) -> None:
        seconds = {"plan_256_s": 0.0011, "plan_256_full_s": 1, "plan_256_links_s": 1,
                   "plan_256_grid_s": 1, "plan_100000_s": 0.1, "plan_100000_full_s": 1}
        self.stand_in("plan_bench", f"echo '{json.dumps(seconds)}'\n")
        command = [*RUN, "--bin", str(self.folder / "bin"), "--json", "plan"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["held"] for line in lines], [False, True])
        self.assertEqual(lines[0]["wanted"], {"ratio_max": 1})
        done = subprocess.run([*command, "--check"], capture_output=True, text=True, timeout=50,
                              check=False)
        self.assertEqual(done.returncode, 9)
        self.assertEqual(done.stderr, "plan_256: ratio is 1.1, wanted is at most 1\n")
        done = subprocess.run([*command, "--check", "--quick"], capture_output=True, text=True,
                              timeout=50, check=False)
        self.assertEqual(done.returncode, 2)


class LabTables(ProcessTest):
    def table(self, *words: str) -> dict:
        done = self.lab(*words, "--json")
        self.assertEqual(done.returncode, harness.OK, done.stdout + done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_the_table_of_codecs_is_whole_and_eight_bits_keep_their_promise(self) -> None:
        rows = {row["name"]: row for row in self.table("codecs", "--mebibytes", "1")["codecs"]}
        for name in ("fp32", "fp16", "bf16", "blockwise8"):
            self.assertIn(name, rows)
        for name, row in rows.items():
            fields = ["bytes_per_element", "rmse", "encode_part_gb_per_s", "decode_part_gb_per_s"]
            if name in ("fp32", "fp16", "bf16", "blockwise8"):
                fields += ["encode_gb_per_s", "decode_gb_per_s", "decode_accumulate_gb_per_s"]
            for field in fields:
                self.assertGreaterEqual(row[field], 0 if field == "rmse" else 1e-3, (name, field))
        for field in ("rmse", "rmse_average_2", "rmse_average_8", "rmse_average_32"):
            self.assertLessEqual(rows["blockwise8"][field], 0.012)


if __name__ == "__main__":
    harness.main()
