"""Checks that what is built without libtorch includes nothing of it.

    tools/check_core.py [--root FOLDER]

Configures the tree with DEDLOC_TORCH=OFF in a temporary folder and follows the quoted includes of
every file that would be compiled: a machine that has libtorch would compile them all the same, one
that has none would not. Exit status: 0 clean, 1 not, or the tree cannot be configured; 77 there is
no cmake or no ninja here.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import repository_root  # noqa: E402

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
_LIBTORCH = ("torch/", "ATen/", "c10/")


def compiled_files(root: Path) -> list[Path] | None:
    """Lists what a build without libtorch compiles; None: it cannot be configured."""
    with tempfile.TemporaryDirectory(prefix="dedloc-core-") as build:
        command = ["cmake", "-S", str(root), "-B", build, "-G", "Ninja", "-DDEDLOC_TORCH=OFF",
                   "-DDEDLOC_TESTS=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr.strip(), file=sys.stderr)
            return None
        commands = json.loads((Path(build) / "compile_commands.json").read_text(encoding="utf-8"))
        files = {Path(command["directory"], command["file"]).resolve() for command in commands}
        made = Path(build).resolve()
        return sorted(file for file in files
                      if file.is_relative_to(root) and not file.is_relative_to(made))


class Includes:
    """Which way leads from a file to libtorch, if any does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[Path, list[str] | None] = {}

    def way_to_libtorch(self, file: Path) -> list[str] | None:
        if file in self.known:
            return self.known[file]
        self.known[file] = None  # headers that include each other end here
        for kind, name in _INCLUDE.findall(file.read_text(encoding="utf-8")):
            if name.startswith(_LIBTORCH):
                self.known[file] = [name]
            elif kind == '"' and (header := self.find(file, name)):
                rest = self.way_to_libtorch(header)
                self.known[file] = [str(header.relative_to(self.root)), *rest] if rest else None
            if self.known[file]:
                break
        return self.known[file]

    def find(self, file: Path, name: str) -> Path | None:
        for folder in (file.parent, self.root / "src", self.root):
            if (folder / name).is_file():
                return (folder / name).resolve()
        return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=repository_root())
    root = parser.parse_args(arguments).root.resolve()
    missing = [program for program in ("cmake", "ninja") if shutil.which(program) is None]
    if missing:
        print(f"wants {' and '.join(missing)} (Debian packages cmake, ninja-build)",
              file=sys.stderr)
        return 77
    files = compiled_files(root)
    if files is None:
        print("the tree cannot be configured without libtorch", file=sys.stderr)
        return 1
    includes = Includes(root)
    wrong = [(file, way) for file in files if (way := includes.way_to_libtorch(file))]
    for file, way in wrong:
        print(f"{file.relative_to(root)}: is built without libtorch, but includes "
              f"{' -> '.join(way)}")
    if not wrong:
        print(f"{len(files)} files are built without libtorch and do without it")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
