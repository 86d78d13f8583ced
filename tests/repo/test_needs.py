"""What tools/needs.sh says where a build cannot work, and that it changes no folder's mind."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

NEEDS = Path(__file__).resolve().parents[2] / "tools/needs.sh"


class Needs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(0o755)

    def run_with(self, words: str) -> subprocess.CompletedProcess:
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return subprocess.run(["bash", "-c", f"set -euo pipefail; source {NEEDS}; {words}"],
                              cwd=self.folder, env={**os.environ, "PATH": path},
                              capture_output=True, text=True, check=False)

    def test_another_system_is_told_what_to_do(self) -> None:
        self.program("uname", "echo Darwin\n")
        done = self.run_with("echo on")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertIn("Linux only", done.stderr)
        self.assertIn("podman run", done.stderr)

    def failed_build(self, said: str) -> str:
        self.program("cmake", f'[ "$1" = --build ] || exit 0\necho "{said}"\nexit 1\n')
        done = self.run_with("build core dedloc")
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_a_compiler_that_was_killed_means_too_little_memory(self) -> None:
        said = self.failed_build("g++: fatal error: Killed signal terminated program cc1plus")
        self.assertIn("memory did not suffice", said)
        self.assertIn("copy build/core/bin", said)

    def test_a_warning_is_told_from_a_mistake(self) -> None:
        said = self.failed_build("error: unused variable [-Werror=unused-variable]")
        self.assertIn("cmake --preset core -DDEDLOC_WERROR=OFF", said)
        self.assertNotIn("WERROR", self.failed_build("error: no such type"))

    def test_however_much_or_little_a_build_says_its_end_is_told(self) -> None:
        for said in ("", "error: no such type\n" * 5000):
            (self.folder / "said").write_text(said, encoding="utf-8")
            self.program("cmake", '[ "$1" = --build ] || exit 0\ncat said\nexit 1\n')
            done = self.run_with("is_debian_12() { false; }; build core dedloc")
            self.assertEqual(done.returncode, 1)
            self.assertLessEqual(done.stderr.count("no such type"), 60)
            self.assertIn("the build failed; the whole log is in build/core.log", done.stderr)
            self.assertIn("elsewhere a container: rm -rf build/release && podman", done.stderr)

    def test_a_package_that_cannot_be_had_ends_only_who_needs_it(self) -> None:
        self.program("dpkg-query", "exit 1\n")
        self.program("sudo", '"$@"\n')
        self.program("apt-get", '[ "$1" != install ] || echo "$@" >asked\n[ "$1" != install ]\n')
        done = self.run_with('(install_missing "${wants_test[@]}") || echo on')
        self.assertEqual(done.stdout.splitlines()[-1], "on")
        self.assertIn("apt-get failed", done.stderr)
        self.assertIn("--no-remove", (self.folder / "asked").read_text(encoding="utf-8"))
        self.assertEqual(self.run_with('echo "${needs_test[@]}" | grep miniupnpd').returncode, 1)

    def test_warnings_stop_no_first_build_and_no_folder_is_compiled_anew(self) -> None:
        self.assertEqual(self.run_with("lenient release").stdout, "-DDEDLOC_WERROR=OFF\n")
        (self.folder / "build/release").mkdir(parents=True)
        (self.folder / "build/release/CMakeCache.txt").touch()
        self.assertEqual(self.run_with("lenient release").stdout, "")


if __name__ == "__main__":
    unittest.main()
