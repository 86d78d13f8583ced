"""Runs libFuzzer's programs for a while each; tests/fuzz/run.sh builds them and says how.

Exit status: 0 nothing found, 1 something, 2 wrong arguments."""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MEMORY_MB_MAX = 2048
# One input that takes longer is a finding: a peer must not be able to hang us.
INPUT_SECONDS_MAX = 10


def targets(folder, only):
    found = sorted(p for p in folder.glob("fuzz_*") if p.is_file() and os.access(p, os.X_OK))
    return [p for p in found if only in p.name]


def seeds_of(program):
    """fuzz_p2p_yamux_fuzz -> tests/corpus/yamux_fuzz; a module's name may have several words."""
    words = program.name.split("_")
    for first in range(2, len(words)):
        folder = ROOT / "tests" / "corpus" / "_".join(words[first:])
        if folder.is_dir():
            return [folder]
    return []


def fuzz(command, log):
    """One run to its end: its status, processor seconds, executions."""
    with open(log, "a", encoding="utf-8") as out:
        begun = out.tell()
        child = subprocess.Popen(command, stdout=out, stderr=out)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    with open(log, encoding="utf-8", errors="replace") as text:
        text.seek(begun)
        executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", text.read())
    return child.returncode, used.ru_utime + used.ru_stime, int(executions[1]) if executions else 0


def shows_itself(program, finding, log):
    """Slowness is measured by the clock, which also runs while a busy machine does other things."""
    if not finding.name.startswith(("slow-unit-", "timeout-")):
        return True
    status, used, _ = fuzz([program, finding], log)
    if status != 0 or used > INPUT_SECONDS_MAX / 2:
        return True
    finding.unlink()
    return False


def run(program, seconds, executions_max, folder):
    """For so many seconds of processor time: where there is little of it, several runs follow one
    another."""
    grown = folder / "corpus" / program.name
    findings = folder / "findings" / program.name
    log = folder / "logs" / f"{program.name}.log"
    for one in (grown, findings, log.parent):
        one.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    command = [program, grown, *seeds_of(program),
               f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}",
               f"-artifact_prefix={findings}/", "-print_final_stats=1"]
    log.write_text("")
    new, used, executions = [], 0.0, 0
    while not new and used < seconds and not 0 < executions_max <= executions:
        runs = executions_max - executions if executions_max else -1
        limits = [f"-max_total_time={max(1, round(seconds - used))}", f"-runs={runs}"]
        status, used_now, done = fuzz([*command, *limits], log)
        used += used_now
        executions += done
        left = set(findings.iterdir()) - before
        new = sorted(str(one) for one in left if shows_itself(program, one, log))
        if status != 0 and not left:
            new = [f"{program.name} ended with status {status}: {log}"]
    return {"target": program.name, "executions": executions, "seconds": round(used, 1),
            "findings": new}


def main():
    parser = argparse.ArgumentParser(description="fuzz every parser and connection")
    parser.add_argument("--minutes", type=float, default=1,
                        help="of the processor, of each target")
    parser.add_argument("--executions", type=int, default=0,
                        help="of each target at most, if that comes first (0: no limit)")
    parser.add_argument("--only", default="", help="targets with this in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(os.environ["DEDLOC_FUZZ_BIN"])
    chosen = targets(folder, options.only)
    if not chosen or options.minutes <= 0:
        print(f"no fuzz target with \"{options.only}\" in its name lies in {folder}",
              file=sys.stderr)
        return 2
    seconds = max(1, round(options.minutes * 60))
    results = []

    def one(program):
        return run(program, seconds, options.executions, folder.parent)

    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(one, chosen):
            results.append(result)
            print(f"{result['target']:36} {result['executions']:12,} inputs"
                  f" {result['seconds']:6.0f} s  {', '.join(result['findings']) or 'clean'}",
                  flush=True)
    findings = sum(len(result["findings"]) for result in results)
    if options.json:
        print(json.dumps({"targets": len(results), "minutes": options.minutes,
                          "executions": sum(r["executions"] for r in results),
                          "findings": findings, "each": results}))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
