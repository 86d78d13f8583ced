"""Programs outside the checkout, with what is installed into an empty prefix: one in C, built with
-Wall alone, two of it in one run; one in C++ with a task of its own; and a libtorch loop that still
includes the header by its former name. DEDLOC_BUILD is the build folder that is installed from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from test_dedloc import EXAMPLES, RUN_FILE, join_string, start, word_after

BUILD = os.environ.get("DEDLOC_BUILD", "")
SECONDS = 120
LOOP_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(loop CXX)
find_package(dedloc REQUIRED COMPONENTS cxx)
add_executable(loop loop.cpp)
target_link_libraries(loop PRIVATE dedloc::torch_bridge dedloc::monitor ${TORCH_LIBRARIES})
"""
HAS_MODULES = (Path(BUILD) / "src/dedloc/cli/libdedloc_program.a").exists()


def quietly(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")


@unittest.skipUnless(BUILD and shutil.which("cmake"), "no build folder, or no cmake")
class OutsideTest(unittest.TestCase):
    def test_a_program_outside_the_checkout_joins_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, source, built = f"{folder}/prefix", f"{folder}/source", f"{folder}/built"
            quietly("cmake", "--install", BUILD, "--prefix", prefix, "--component", "c_api")
            shutil.copytree(EXAMPLES / "c_api", source)
            quietly("cmake", "-S", source, "-B", built, f"-DCMAKE_PREFIX_PATH={prefix}")
            quietly("cmake", "--build", built)
            commands = (Path(built) / "CMakeFiles/join_from_c.dir/flags.make")
            if commands.exists():
                self.assertNotIn("-Werror", commands.read_text())
            # The host of a quiet machine may be at the end before the other one has begun.
            for steps in (2000, 16_000, 128_000):
                outputs, errors = self.two(f"{built}/join_from_c", Path(folder), steps)
                if not any(errors):
                    break
            self.assertEqual(errors, ["", ""])
            self.assertEqual(*(word_after(output, "\nstate ") for output in outputs))

    @unittest.skipUnless(HAS_MODULES, "the C++ modules are not built")
    def test_a_loop_with_the_former_header_is_built_and_trains(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, source, built = f"{folder}/prefix", Path(folder) / "source", f"{folder}/built"
            quietly("cmake", "--install", BUILD, "--prefix", prefix, "--component", "cxx")
            source.mkdir()
            (source / "CMakeLists.txt").write_text(LOOP_PROJECT)
            loop = (EXAMPLES / "train_together.cpp").read_text()
            former = loop.replace("torch_bridge", "train")
            self.assertIn("dedloc/train/collaborative_optimizer.h", former)
            (source / "loop.cpp").write_text(former)
            quietly("cmake", "-S", str(source), "-B", built, f"-DCMAKE_PREFIX_PATH={prefix}")
            quietly("cmake", "--build", built)
            run_file = Path(folder) / "run.toml"
            run_file.write_text(RUN_FILE.format(target=256, steps=3))
            quietly(f"{built}/loop", str(run_file), f"{folder}/peer")

    @unittest.skipUnless(HAS_MODULES, "the C++ modules are not built")
    def test_a_task_outside_the_checkout_is_known_to_a_program_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, source, built = f"{folder}/prefix", f"{folder}/source", f"{folder}/built"
            quietly("cmake", "--install", BUILD, "--prefix", prefix, "--component", "cxx")
            shutil.copytree(EXAMPLES / "task", source)
            quietly("cmake", "-S", source, "-B", built, f"-DCMAKE_PREFIX_PATH={prefix}")
            quietly("cmake", "--build", built)
            quietly(sys.executable, f"{source}/run_line.py", f"{built}/example_task")

    def two(self, program: str, folder: Path, steps: int) -> tuple[list[str], list[str]]:
        """The words of a host and a guest until the run ends, and why one of them failed."""
        run_file = folder / "run.toml"
        run_file.write_text(RUN_FILE.format(target=256, steps=steps))
        host = start(program, str(run_file), f"{folder}/a{steps}")
        guest = start(program, join_string(host), f"{folder}/b{steps}")
        said = [process.communicate(timeout=SECONDS) for process in (host, guest)]
        failures = [errors if process.returncode else ""
                    for process, (_, errors) in zip((host, guest), said)]
        return [output for output, _ in said], failures


if __name__ == "__main__":
    sys.exit(unittest.main())
