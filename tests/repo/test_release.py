"""One version everywhere: what a release is called by its tag, packages and programs."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "CMakeLists.txt": r"project\(dedloc VERSION ([\d.]+)",
    "pyproject.toml": r'(?m)^version = "([^"]+)"',
    "python/dedloc/__init__.py": r'__version__ = "([^"]+)"',
    "src/dedloc/base/release.h": r'release = "([^"]+)"',
    "src/dedloc/p2p/make_host.h": r'agent_version = "dedloc/([^"]+)"',
    "CHANGELOG.md": r"(?m)^## ([\d.]+)",
}


# The PyTorch that the wheel goes with.
PYTORCH = {
    "tools/needs.sh": r"(?m)^pytorch='torch==([\d.]+)\.\*'",
    "README.md": r"'torch==([\d.]+)\.\*'",
    "docs/packages.md": r"'torch==([\d.]+)\.\*'",
}


class ReleaseTest(unittest.TestCase):
    def one_version(self, places: dict[str, str]) -> None:
        found = {}
        for name, pattern in places.items():
            match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
            self.assertIsNotNone(match, name)
            found[name] = match[1]
        self.assertEqual(len(set(found.values())), 1, found)

    def test_every_place_tells_the_same_version(self):
        self.one_version(PLACES)

    def test_every_place_tells_the_same_version_of_pytorch(self):
        self.one_version(PYTORCH)


if __name__ == "__main__":
    unittest.main()
