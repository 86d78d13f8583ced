"""The wheel and the archive on a machine that has a PyTorch and no compiler (wheel.sh)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "process"))
import harness  # noqa: E402

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples/python/volunteer.ipynb"
DIST = Path(os.environ.get("DEDLOC_DIST", "."))
TORCH = os.environ.get("DEDLOC_TEST_TORCH", "")  # a Python that has the PyTorch
FIRST_SAMPLE_S = 60  # from the beginning of `pip install`
SIZE_MAX = 20_000_000
RUN = Path(__file__).with_name("classifier.toml").read_text(encoding="utf-8")


def environment(**more: str) -> dict[str, str]:
    """No compiler, and no way to libraries but the program's own."""
    kept = {key: os.environ[key] for key in ("HOME", "TMPDIR", "LANG") if key in os.environ}
    return {**kept, "PATH": "/usr/bin:/bin", "CC": "/bin/false", "CXX": "/bin/false", **more}


def site_packages(python: str) -> str:
    return subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@unittest.skipUnless(TORCH, "wheel.sh says with which PyTorch")
class WheelTest(harness.ProcessTest):
    seconds_max = 280

    def fresh_venv(self) -> Path:
        """With the PyTorch in its site-packages, as pip would put it there: links, no copies."""
        venv = self.folder / "venv"
        subprocess.run([TORCH, "-m", "venv", str(venv)], check=True)
        there = site_packages(str(venv / "bin/python"))
        for entry in Path(site_packages(TORCH)).iterdir():
            if not (Path(there) / entry.name).exists() and not entry.name.startswith("dedloc"):
                subprocess.run(["cp", "-al", str(entry), there], check=True)
        return venv

    def wheel(self) -> Path:
        return next(DIST.glob("dedloc-*.whl"))

    def install(self) -> Path:
        """The program that pip installs."""
        venv = self.fresh_venv()
        self.began = time.monotonic()
        done = subprocess.run([str(venv / "bin/pip"), "install", "--no-index", str(self.wheel())],
                              env=environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return venv / "bin/dedloc"

    def counts_a_sample(self, program: Path, **variables: str) -> harness.Peer:
        host = self.running_host(self.write("run.toml", RUN))
        began = time.monotonic()
        peer = self.join(host.join_string(), "guest", program=str(program),
                         env=environment(**variables))
        self.until_shared_steps(1, peer, host, seconds=120)
        print(f"{time.monotonic() - began:.1f} s from join to the first sample", flush=True)
        return peer

    def test_a_volunteer_counts_within_a_minute_from_pip_install_on(self):
        host = self.running_host(self.write("run.toml", RUN))
        program = self.install()
        peer = self.join(host.join_string(), "guest", program=str(program), env=environment())
        self.until_shared_steps(1, peer, host, seconds=150)
        seconds = time.monotonic() - self.began
        print(f"{seconds:.1f} s from pip install to the first sample", flush=True)
        self.assertLessEqual(seconds, FIRST_SAMPLE_S)

    def test_the_wheel_is_small_and_for_systems_with_an_older_glibc(self):
        self.assertLessEqual(self.wheel().stat().st_size, SIZE_MAX)
        self.assertRegex(self.wheel().name, r"-py3-none-manylinux_2_3[0-6]_x86_64\.whl$")

    def test_nothing_in_the_archive_wants_a_newer_glibc_than_the_wheel_says(self):
        says = re.search(r"manylinux_(\d+)_(\d+)_x86_64", self.wheel().name)
        claimed = (int(says[1]), int(says[2]))
        folder, seen = self.unpacked().parents[1], 0
        for path in folder.rglob("*"):
            if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                continue
            seen += 1
            versions = subprocess.run(["readelf", "--version-info", str(path)], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout
            for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", versions):
                self.assertLessEqual((int(major), int(minor)), claimed, path.name)
        self.assertGreater(seen, 5)

    def test_the_program_calls_itself_as_people_do(self):
        program = self.install()
        for path, called in ((f"{program.parent}:/usr/bin:/bin", "dedloc"),
                             ("/usr/bin:/bin", str(program))):
            done = subprocess.run([str(program), "init", "synthetic", "-o",
                                   str(self.folder / f"{len(path)}.toml")],
                                  env=environment() | {"PATH": path}, capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"Next: {called} host ", done.stdout + done.stderr)

    def test_the_library_is_in_the_wheel(self):
        program = self.install()
        code = "import dedloc; print(dedloc.__version__, dedloc.sample_seed('a', 1))"
        done = subprocess.run([str(program.with_name("python")), "-c", code],
                              env=environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_volunteers_notebook_takes_part_and_leaves_in_order(self):
        cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        host = self.running_host(self.write("run.toml", RUN))
        for given, ours in (('"dedloc[train]"', repr(str(self.wheel()))),
                            ('"dedloc1…"', repr(host.join_string()))):
            self.assertIn(given, code)
            code = code.replace(given, ours)
        script, said = self.write("cells.py", code), self.folder / "cells.out"
        python = self.fresh_venv() / "bin/python"
        with said.open("w", encoding="utf-8") as out:
            notebook = subprocess.Popen([str(python), script], cwd=self.folder, stdout=out,
                                        stderr=subprocess.STDOUT, env=environment())
        self.addCleanup(notebook.wait, 60)
        self.addCleanup(notebook.terminate)
        self.until("a step with the notebook's samples",
                   lambda: any(event["fields"]["contributors"] == 2
                               for event in host.events("step")), seconds=150)
        notebook.send_signal(signal.SIGINT)
        self.assertEqual(notebook.wait(60), 0, said.read_text(encoding="utf-8"))
        self.assertIn("it left in order", said.read_text(encoding="utf-8"))

    def unpacked(self) -> Path:
        archive = next(DIST.glob("dedloc-*-linux-x86_64.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(self.folder)
        return next(self.folder.glob("dedloc-*-linux-x86_64")) / "bin/dedloc"

    def test_a_peer_from_the_archive_trains_with_the_torch_of_python3(self):
        self.counts_a_sample(self.unpacked(), PATH=f"{Path(TORCH).parent}:/usr/bin:/bin")

    def test_without_a_torch_that_fits_the_archive_says_which(self):
        program = self.unpacked()
        torch = self.folder / "torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "lib/libtorch_cpu.so").touch()
        (torch / "version.py").write_text("__version__ = '1.0.0'\n")
        done = subprocess.run([str(program), "host", self.write("run.toml", RUN)],
                              env=environment(DEDLOC_TORCH=str(torch)), capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, harness.CANNOT_COMPUTE, done.stderr)
        self.expect_sentence(done.stderr, "is 1.0.0", "pip install 'torch==")
        version = subprocess.run([str(program), "version"], env=environment(),
                                 capture_output=True, text=True, check=False)
        self.assertEqual(version.returncode, 0, version.stderr)


if __name__ == "__main__":
    harness.main()
