"""A build inside a container knows the container's memory (cmake/DedlocMemory.cmake)."""

import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Memory(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def memory(self) -> int:
        script = self.folder / "say.cmake"
        script.write_text(f"include({ROOT}/cmake/DedlocMemory.cmake)\n"
                          f"dedloc_memory(mib {self.folder})\nmessage(${{mib}})\n",
                          encoding="utf-8")
        done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True,
                              check=True)
        return int(done.stderr)

    def test_the_least_limit_holds(self) -> None:
        machine = self.memory()
        self.assertGreater(machine, 64)
        (self.folder / "memory.max").write_text("max\n", encoding="utf-8")
        self.assertEqual(self.memory(), machine)
        (self.folder / "memory.max").write_text(f"{64 << 20}\n", encoding="utf-8")
        self.assertEqual(self.memory(), 64)
        (self.folder / "memory").mkdir()
        old = self.folder / "memory/memory.limit_in_bytes"
        old.write_text("9223372036854771712\n", encoding="utf-8")
        self.assertEqual(self.memory(), 64)
        old.write_text(f"{32 << 20}\n", encoding="utf-8")
        self.assertEqual(self.memory(), 32)


if __name__ == "__main__":
    unittest.main()
