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


def stem(program):
    """fuzz_p2p_yamux_fuzz -> yamux_fuzz, as its corpus is called."""
    return program.name.removeprefix("fuzz_").split("_", 1)[1]


def run(program, seconds, executions_max, folder):
    grown = folder / "corpus" / program.name
    findings = folder / "findings" / program.name
    log = folder / "logs" / f"{program.name}.log"
    for one in (grown, findings, log.parent):
        one.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    seeds = ROOT / "tests" / "corpus" / stem(program)
    command = [program, grown, *([seeds] if seeds.is_dir() else []),
               f"-max_total_time={seconds}", f"-runs={executions_max or -1}",
               f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={findings}/",
               "-print_final_stats=1"]
    with open(log, "w", encoding="utf-8") as out:
        status = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
    text = log.read_text(encoding="utf-8", errors="replace")
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    new = sorted(str(path) for path in set(findings.iterdir()) - before)
    if status != 0 and not new:
        new = [f"{program.name} ended with status {status}: {log}"]
    return {"target": program.name, "executions": int(executions[1]) if executions else 0,
            "findings": new}


def main():
    parser = argparse.ArgumentParser(description="fuzz every parser and connection")
    parser.add_argument("--minutes", type=float, default=1, help="of each target")
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
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda one: run(one, seconds, options.executions, folder.parent), chosen):
            results.append(result)
            print(f"{result['target']:36} {result['executions']:12,} inputs"
                  f"  {', '.join(result['findings']) or 'clean'}", flush=True)
    findings = sum(len(result["findings"]) for result in results)
    if options.json:
        print(json.dumps({"targets": len(results), "minutes": options.minutes,
                          "executions": sum(r["executions"] for r in results),
                          "findings": findings, "each": results}))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
