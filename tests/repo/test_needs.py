"""tools/needs.sh says where a build cannot work, and changes no folder's mind."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

NEEDS = Path(__file__).resolve().parents[2] / "tools/needs.sh"


class Needs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        (self.folder / "bin").mkdir()

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(0o755)

    def run_with(self, words: str, needs: Path = NEEDS, stranger: bool = False,
                 **variables: str) -> subprocess.CompletedProcess:
        environment = {key: value for key, value in os.environ.items() if key != "DEDLOC_JOBS"}
        environment["PATH"] = f"{self.folder}/bin:{os.environ['PATH']}"
        other = {"user": 65534, "group": 65534, "extra_groups": []} if stranger else {}
        return subprocess.run(["bash", "-c", f"set -euo pipefail; source {needs}; {words}"],
                              cwd=self.folder, env={**environment, **variables},
                              capture_output=True, text=True, check=False, **other)

    def file(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")

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
        self.assertIn("DEDLOC_JOBS=1", said)
        for other in ("collect2: fatal error: ld terminated with signal 9 [Killed]",
                      "cc1plus: out of memory allocating 65536 bytes"):
            self.assertIn("memory did not suffice", self.failed_build(other))

    def test_compilers_speak_english(self) -> None:
        self.program("cmake", '[ "$1" = --build ] || exit 0\necho "$LC_ALL/$LANGUAGE" >said\n')
        for lang, said in (("de_DE.UTF-8", "C.UTF-8/"), ("en_US.UTF-8", "/"), ("C.UTF-8", "/")):
            done = self.run_with("build core dedloc", LANG=lang, LANGUAGE="de", LC_ALL="",
                                 LC_MESSAGES="")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((self.folder / "said").read_text(encoding="utf-8").strip(), said)

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

    def jobs(self, own: str, **variables: str) -> list[str]:
        self.file("own", own)
        self.file("memory", f"MemAvailable: {256 << 20} kB")
        return self.run_with("nproc() { echo 64; }; control_groups=$PWD/groups; own_groups=own;"
                             "machine_memory=memory; build_jobs; cores_left; memory_left",
                             **variables).stdout.split()

    def test_a_containers_memory_counts(self) -> None:
        self.assertEqual(self.jobs("0::/"), ["64", "64", str(256 << 10)])
        self.file("groups/memory.max", str(4 << 30))
        self.file("groups/memory.current", str(3 << 30))
        self.assertEqual(self.jobs("0::/"), ["1", "64", "1024"])
        self.file("groups/memory.stat", f"anon 5\ninactive_file {1 << 30}\nactive_file {1 << 30}")
        self.assertEqual(self.jobs("0::/"), ["2", "64", "3072"])
        self.file("groups/a/memory.max", str(2 << 30))
        self.file("groups/a/memory.current", "0")
        self.assertEqual(self.jobs("0::/a/b")[2], "2048")
        self.file("groups/memory.max", "max")
        self.file("groups/a/memory.max", "max")
        self.assertEqual(self.jobs("0::/a/b")[2], str(256 << 10))
        self.file("groups/memory/memory.limit_in_bytes", str(1 << 30))
        self.file("groups/memory/memory.usage_in_bytes", str(512 << 20))
        self.file("groups/memory/memory.stat", f"active_file {9 << 30}\ntotal_active_file 0")
        self.assertEqual(self.jobs("4:memory:/elsewhere\n0::/")[2], "512")

    def test_a_containers_share_of_time_counts(self) -> None:
        self.file("groups/cpu.max", "max 100000")
        self.assertEqual(self.jobs("0::/a")[1], "64")
        self.file("groups/a/cpu.max", "150000 100000")
        self.assertEqual(self.jobs("0::/a")[1], "2")

    def test_the_users_word_on_jobs_is_the_last(self) -> None:
        self.assertEqual(self.jobs("0::/", DEDLOC_JOBS="7")[0], "7")
        for wrong in ("0", "all", "-1"):
            done = self.run_with("echo on", DEDLOC_JOBS=wrong)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("DEDLOC_JOBS", done.stderr)

    def test_a_package_of_two_architectures_is_there(self) -> None:
        said = 'printf "$(printf %s "$3" | sed "s/.*Status}/installed/")"\n'
        self.program("dpkg-query", said * 2)
        self.program("apt-get", "touch asked\n")
        self.assertEqual(self.run_with("install_missing libssl-dev").stdout, "")
        self.assertFalse((self.folder / "asked").exists())

    def test_lists_that_cannot_be_had_stop_no_installation(self) -> None:
        self.program("dpkg-query", "exit 1\n")
        self.program("sudo", '"$@"\n')
        self.program("apt-get", '[ "$1" = install ] && exec echo "$@" >asked\n'
                                'echo "E: The repository is gone"\nexit 100\n')
        done = self.run_with("install_missing one")
        self.assertEqual(done.returncode, 0)
        self.assertIn("apt-get update failed (E: The repository is gone)", done.stderr)
        asked = (self.folder / "asked").read_text(encoding="utf-8")
        self.assertIn("DPkg::Lock::Timeout=600", asked)

    def test_lists_that_another_updates_are_waited_for(self) -> None:
        self.program("dpkg-query", "exit 1\n")
        self.program("sudo", '"$@"\n')
        self.program("sleep", "touch freed\n")
        self.program("apt-get", '[ -e freed ] && exec echo "$1" >>asked\n'
                                'echo "E: Could not get lock /var/lib/apt/lists/lock."\n'
                                'exit 100\n')
        done = self.run_with("install_missing one")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("waiting for it", done.stdout)
        self.assertEqual((self.folder / "asked").read_text(encoding="utf-8"), "update\ninstall\n")

    def test_two_builds_take_turns_and_a_started_program_holds_nothing(self) -> None:
        # The build itself asks whether another may begin.
        self.program("cmake", "flock -n build/.lock true && echo free || echo taken\n")
        done = self.run_with(
            "build core dedloc; cat build/core.log; flock -n build/.lock echo free")
        self.assertEqual(done.stdout.split(), ["taken", "taken", "free"])
        self.program("cmake", "exit 0\n")
        # Another's lock, which is given back as soon as it is waited for.
        done = self.run_with("exec 8>build/.lock; flock 8;"
                             'flock() { [[ $1 == -n ]] || exec 8>&-; command flock "$@"; };'
                             "build core dedloc; echo built")
        self.assertEqual(done.stdout, "built\n")
        self.assertIn("waiting for it", done.stderr)

    def test_options_are_asked_for_when_it_is_ones_turn(self) -> None:
        self.program("cmake", 'echo "$@" >>asked\n')
        # As if the script that is waited for configured the folder.
        waited = "take_turn() { cp -r made/. build; }; "
        self.file("made/core/CMakeCache.txt", "DEDLOC_TESTS:BOOL=ON")
        for before in ("", waited):
            done = self.run_with(f"{before}build core dedloc -- -DA=B without_tests lenient")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        asked = (self.folder / "asked").read_text(encoding="utf-8").splitlines()
        self.assertEqual([line for line in asked if "--build" not in line],
                         ["--preset core -DA=B -DDEDLOC_TESTS=OFF -DDEDLOC_WERROR=OFF",
                          "--preset core -DA=B"])

    def test_a_folder_of_anothers_is_told(self) -> None:
        (self.folder / "build").mkdir()
        self.file("build/release.log", "")
        (self.folder / "build/release.log").chmod(0o444)
        stranger = os.geteuid() == 0
        if stranger:
            self.folder.chmod(0o755)
        needs = self.folder / "needs.sh"
        shutil.copy(NEEDS, needs)
        needs.chmod(0o644)
        done = self.run_with("build release dedloc", needs, stranger)
        self.assertEqual(done.returncode, 1)
        self.assertIn("belongs to another user: sudo chown -R ", done.stderr)

    def test_without_a_place_for_its_cache_ccache_is_left_out(self) -> None:
        self.program("cmake", 'echo "${CCACHE_DISABLE:-}"\n')
        self.program("ccache", 'echo "$PLACE"\n')
        self.file("file", "")
        for place, said in (("file/cache", "1"), ("cache", "")):
            done = self.run_with("build core dedloc; cat build/core.log", PLACE=place,
                                 CCACHE_DISABLE="")
            self.assertEqual(done.stdout.strip(), "\n".join([said, said]).strip(), done.stderr)

    def test_a_program_keeps_its_short_name_where_that_leads_to_it(self) -> None:
        (self.folder / "there").mkdir()
        (self.folder / "bin/dedloc").symlink_to(shutil.which("cat"))
        for folder, name in (("", "bin/dedloc"), ("/there", f"{self.folder}/bin/dedloc")):
            done = self.run_with(f'start_in "$PWD{folder}" bin/dedloc /proc/self/cmdline')
            self.assertEqual(done.stdout.split("\0")[0], name)

    def script(self, name: str, *arguments: str) -> subprocess.CompletedProcess:
        """From another folder, with nothing to install or build."""
        self.file("tools/needs.sh",
                  f"source {NEEDS}\ninstall_missing() {{ :; }}\nbuild() {{ :; }}")
        (self.folder / "there").mkdir(exist_ok=True)
        shutil.copy(NEEDS.parents[1] / name, self.folder)
        return subprocess.run([self.folder / name, *arguments], cwd=self.folder / "there",
                              capture_output=True, text=True, check=False)

    def test_files_are_the_callers(self) -> None:
        for name, preset in (("core.sh", "core"), ("demo.sh", "release")):
            self.file(f"build/{preset}/bin/dedloc", '#!/bin/sh\nfor said; do :; done\ncat "$said"')
            (self.folder / f"build/{preset}/bin/dedloc").chmod(0o755)
            self.file("there/string", "the caller's")
            self.assertEqual(self.script(name, "string").stdout, "the caller's\n")

    def test_git_for_windows_leaves_line_ends_alone(self) -> None:
        root = NEEDS.parents[1]
        if not shutil.which("git") or not (root / ".git").exists():
            self.skipTest("wants a clone and the Debian package git")
        for path, attribute, value in (("test.sh", "eol", "lf"), (".ci/run", "eol", "lf"),
                                       ("tests/corpus/tls_fuzz/http", "text", "unset")):
            done = subprocess.run(["git", "check-attr", attribute, path], cwd=root,
                                  capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout.strip(), f"{path}: {attribute}: {value}")

    def test_no_test_is_no_success(self) -> None:
        (self.folder / "build/release").mkdir(parents=True)
        self.assertNotEqual(self.script("test.sh").returncode, 0)


if __name__ == "__main__":
    unittest.main()
