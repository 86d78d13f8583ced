"""Every C++ source is as clang-format 14 leaves it. Skipped (77) where clang-format 14 is missing.

    tools/check_format.py [--fix] [FILE...]      (all of them)
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import repository_root, source_files  # noqa: E402

FOLDERS = ("src", "experiments", "examples", "tests", "bench")


def main(arguments: list[str]) -> int:
    program = shutil.which("clang-format-14")
    if program is None:
        print("wants the Debian package clang-format-14")
        return 77
    root = repository_root()
    fix = "--fix" in arguments
    named = [str(Path(name).resolve()) for name in arguments if name != "--fix"]
    files = named or [str(path) for path in source_files(root, FOLDERS)]
    if fix:
        return subprocess.run([program, "-i", *files], check=False).returncode
    done = subprocess.run([program, "--dry-run", "-Werror", *files], capture_output=True,
                          text=True, check=False)
    wrong = sorted({line.split(":")[0] for line in done.stderr.split("\n") if ": error:" in line})
    for name in wrong:
        print(f"{Path(name).relative_to(root)}: run: python3 tools/check_format.py --fix")
    if not wrong:
        print(f"{len(files)} files are formatted")
    return 1 if wrong or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
