"""Every kind of fleet, with a run file and with a join string, with all options and with none: each
manifest is valid by the strict schema of several versions of Kubernetes, and shellcheck finds
nothing in any script. A manifest that is spoiled on purpose must be refused, or the check checks
nothing.

    tests/fleet/run.sh [--json]
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

DEDLOC = os.environ["DEDLOC"]
VERSIONS = ("1.27", "1.31", "1.37")
RUN = 'name = "Our run"\n[batch]\ntarget = 64\nmicro = 8\n'
ALL_OPTIONS = {
    "slurm": ["--partition", "spot", "--host-partition", "stays", "--account", "us", "--gpus", "1",
              "--time", "1-00:00:00"],
    "kubernetes": ["--namespace", "ours", "--storage-class", "fast", "--spot", "gke", "--gpus", "1",
                   "--image", "registry.example.org/dedloc:1"],
    "ssh": ["--folder", "there"]}
COMMON = ["--peers", "16", "--data", "/data", "--device", "cuda", "--threads", "2", "--yes", "true",
          "--preemption-notice", "azure", "--name", "it's \"ours\"", "--port", "4001"]


class Checks:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    def note(self, what: str, problem: str) -> None:
        if problem:
            self.failed += 1
            print(f"{what}: {problem}", file=sys.stderr)
        else:
            self.passed += 1


def problem_of(manifest: dict, version: str) -> str:
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{error.message} at {'/'.join(map(str, error.path))}"
    return ""


def check_manifest(path: Path, checks: Checks) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        for version in VERSIONS:
            what = f"{path.name} {manifest['kind']} by {version}"
            checks.note(what, problem_of(manifest, version))
            spoiled = copy.deepcopy(manifest)
            spoiled["metadata"]["labls"] = {}
            checks.note(what, "" if problem_of(spoiled, version) else "a wrong key is accepted")


def check_script(path: Path, checks: Checks) -> None:
    done = subprocess.run(["shellcheck", str(path)], capture_output=True, text=True, check=False)
    checks.note(path.name, done.stdout)


def join_string(folder: Path) -> str:
    """The join string that a new host prints."""
    (folder / "bowl.toml").write_text(
        'name = "bowl"\n[task]\nkind = "synthetic"\nmodel = "bowl"\ndata = "noise-20ms"\n')
    host = subprocess.Popen([DEDLOC, "host", "bowl.toml", "--dir", "host", "--listen",
                             "127.0.0.1:0", "--quiet"], cwd=folder, stdout=subprocess.PIPE,
                            text=True)
    try:
        return host.stdout.readline().strip()
    finally:
        host.terminate()
        host.wait(30)


def main() -> int:
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.toml").write_text(RUN)
        (folder / "join.txt").write_text(join_string(folder))
        for kind, options in ALL_OPTIONS.items():
            for number, (what, more) in enumerate((
                    ("run.toml", []), ("run.toml", [*options, *COMMON]), ("@join.txt", []),
                    ("@join.txt", [*options, *COMMON]))):
                to = folder / f"{kind}-{number}"
                machines = ["--machines", "one,me@two.example.org"] if kind == "ssh" else []
                done = subprocess.run(
                    [DEDLOC, "fleet", kind, what, "--to", str(to), *more, *machines], cwd=folder,
                    capture_output=True, text=True, check=False)
                checks.note(" ".join([kind, what, *more]), done.stderr)
                for path in sorted(to.iterdir()):
                    if path.suffix == ".yaml":
                        check_manifest(path, checks)
                    elif path.suffix in (".sh", ".sbatch"):
                        check_script(path, checks)
    if "--json" in sys.argv:
        print(json.dumps({"passed": checks.passed, "failed": checks.failed}))
    else:
        print(f"{checks.passed} checks passed, {checks.failed} failed")
    return 1 if checks.failed or not checks.passed else 0


if __name__ == "__main__":
    sys.exit(main())
