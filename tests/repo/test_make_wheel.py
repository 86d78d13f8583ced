"""What tools/make_wheel.py packs: the same bytes whenever it does, and programs stay programs."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import make_wheel  # noqa: E402

WHEN = 1_700_000_000


def tree_in(folder: Path, touched: int) -> Path:
    tree = folder / "tree"
    make_wheel.write(tree / "dedloc/__init__.py", "")
    make_wheel.write(tree / "dedloc/bin/dedloc", "#!/bin/sh\necho 'dedloc 0'\n")
    (tree / "dedloc/bin/dedloc").chmod(0o755)
    make_wheel.write(tree / "dedloc-1.dist-info/METADATA", "Name: dedloc\n")
    make_wheel.record(tree, tree / "dedloc-1.dist-info")
    for path in tree.rglob("*"):
        os.utime(path, (touched, touched))
    return tree


class MakeWheelTest(unittest.TestCase):
    def packed(self, folder: Path, touched: int) -> Path:
        wheel = folder / "dedloc.whl"
        make_wheel.pack_wheel(tree_in(folder, touched), wheel, WHEN)
        return wheel

    def test_two_wheels_of_the_same_files_have_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            first = self.packed(Path(one), 1_000_000_000)
            second = self.packed(Path(other), 1_200_000_000)
            self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_programs_can_be_run_and_every_file_is_recorded(self):
        with tempfile.TemporaryDirectory() as folder, \
                zipfile.ZipFile(self.packed(Path(folder), WHEN)) as wheel:
            modes = {entry.filename: entry.external_attr >> 16 for entry in wheel.infolist()}
            self.assertTrue(modes["dedloc/bin/dedloc"] & 0o111)
            self.assertFalse(modes["dedloc/__init__.py"] & 0o111)
            recorded = wheel.read("dedloc-1.dist-info/RECORD").decode().splitlines()
            self.assertEqual(sorted(line.split(",")[0] for line in recorded), sorted(modes))

    def test_the_program_starts_without_importing_the_package(self):
        # The package would load PyTorch, seconds before a volunteer sees a word.
        self.assertNotIn("import dedloc", make_wheel.START)
        self.assertTrue(make_wheel.START.startswith("#!python\n"), "pip puts its own Python there")


if __name__ == "__main__":
    unittest.main()
