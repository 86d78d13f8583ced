"""Real dedloc processes for the tests in this folder: started, watched, and never left behind.

A test is a unittest method; ctest runs one at a time (CMakeLists.txt) with the program's path in
DEDLOC. Every wait is bounded. Nothing here knows dedloc but through what users see: options, exit
codes, what it prints, and the files in a peer's folder (docs/events.md).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

DEDLOC = os.environ.get("DEDLOC", "dedloc")
SKIPPED = 77  # ctest's SKIP_RETURN_CODE

# Exit codes: docs/exit-codes.md.
OK, BAD_INPUT, UNREACHABLE, DIFFERENT_RUN, DATA_MISSING = 0, 2, 3, 4, 5
DISK, PORT, IDENTITY_IN_USE, CANNOT_COMPUTE, INTERRUPTED = 6, 7, 8, 10, 130

RUN = """name = "process-test"
[task]
kind = "synthetic"
model = "{model}"
data = "noise-{gradient_ms}ms"
[batch]
target = {target}
micro = 2
[schedule]
peak = {peak}
[averaging]
quorum_timeout = "3s"
[stop]
steps = {steps}
[checkpoint]
every = {checkpoint_every}
[evaluate]
every = 0
"""


def run_text(model="bowl", gradient_ms=10, target=16, peak=0.01, steps=0, checkpoint_every=0):
    return RUN.format(model=model, gradient_ms=gradient_ms, target=target, peak=peak, steps=steps,
                      checkpoint_every=checkpoint_every)


def whole_lines(path: Path) -> list[str]:
    """Lines of a file that still grows: its last line may be half written, and is left out."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return text[:text.rfind("\n") + 1].splitlines()


def events_of(folder: Path) -> list[dict]:
    """The whole lines of the event log in a peer's folder."""
    return [json.loads(line) for line in whole_lines(folder / "events.jsonl")]


class Peer:
    """A process of `dedloc host`, `join` or `assist` with its folder. Without `dir_given` it takes
    a numbered one (set `directory` when it is known), and the name of `directory` is only ours."""

    def __init__(self, test: "ProcessTest", words: list[str], directory: Path,
                 listen: str = "127.0.0.1:0", view: str = "--quiet", dir_given: bool = True,
                 program: str = DEDLOC, **popen) -> None:
        self.directory = directory
        self.out = test.folder / f"{directory.name}.{len(test.peers)}.out"
        self.err = test.folder / f"{directory.name}.{len(test.peers)}.err"
        folder = ["--dir", str(directory)] if dir_given else []
        command = [program, *words, *folder, "--listen", listen, view, "--json"]
        if words[0] != "assist":
            command += ["--threads", "1"]
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, start_new_session=True, **popen)
        test.peers.append(self)

    def stop_for_good(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 30) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.directory.name} did not end within {seconds} s; it said: "
                                 f"{self.errors()}") from None

    def errors(self) -> str:
        return self.err.read_text(errors="replace")

    def last_words(self) -> dict:
        """The JSON object on its last line."""
        lines = self.out.read_text(errors="replace").strip().splitlines()
        return json.loads(lines[-1]) if lines else {}

    def events(self, kind: str | None = None) -> list[dict]:
        return [event for event in events_of(self.directory)
                if kind is None or event["kind"] == kind]

    def step(self) -> int:
        return max((event["fields"]["step"] for event in self.events("step")), default=0)

    def join_string(self) -> str:
        path = self.directory / "join.txt"
        return path.read_text().strip() if path.exists() else ""

    def checkpoints(self) -> list[Path]:
        """Whole ones, oldest first."""
        return sorted(path.parent for path in self.directory.glob("checkpoints/*/checkpoint.json"))


class ProcessTest(unittest.TestCase):
    # Each test has so long; ctest's own limit, five seconds later, would leave no time to clean up.
    seconds_max = 55

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dedloc-process-"))
        self.peers: list[Peer] = []
        self.addCleanup(self._clean_up)
        signal.signal(signal.SIGALRM, self._too_long)
        signal.alarm(self.seconds_max)

    def _clean_up(self) -> None:
        signal.alarm(0)
        for peer in self.peers:
            peer.stop_for_good()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _too_long(self, *_: object) -> None:
        raise AssertionError(f"the test took more than {self.seconds_max} s")

    # ---- starting -------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def host(self, run_file: str, name: str = "host", more: tuple[str, ...] = (),
             **options) -> Peer:
        words = ["host", *([run_file] if run_file else []), *more]
        return Peer(self, words, self.folder / name, **options)

    def join(self, join_string: str, name: str, more: tuple[str, ...] = (), **options) -> Peer:
        return Peer(self, ["join", join_string, *more], self.folder / name, **options)

    def assist(self, join_string: str, name: str, more: tuple[str, ...] = (), **options) -> Peer:
        return Peer(self, ["assist", join_string, *more], self.folder / name, **options)

    def running_host(self, run_file: str, **options) -> Peer:
        host = self.host(run_file, **options)
        self.until("the host prints a join string", lambda: self.alive(host) and host.join_string())
        return host

    def audit_finds_nothing_lost(self, last_words: list[dict]) -> None:
        """No sample is in twice, and none is missing but those that peers themselves gave up,
        because two rounds in a row had left them out: so it is where others take the processors,
        and rarely even there.
        """
        done = self.dedloc("audit", str(self.folder), "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        audit = json.loads(done.stdout.splitlines()[-1])
        given_up = sum(words["samples_expired"] for words in last_words)
        self.assertEqual(audit["samples_twice"], 0)
        self.assertLessEqual(audit["samples_lost"], given_up)
        self.assertLessEqual(given_up, 0.05 * audit["samples_committed"])

    def lab(self, *words: str, seconds: float = 50) -> subprocess.CompletedProcess:
        """Runs `dedloc-lab`, which lies beside `dedloc`."""
        return self.dedloc(*words, seconds=seconds, program=f"{DEDLOC}-lab")

    def dedloc(self, *words: str, seconds: float = 50,
               program: str = DEDLOC) -> subprocess.CompletedProcess:
        return subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=seconds, check=False)

    # ---- expecting ------------------------------------------------------------------------------

    def alive(self, peer: Peer) -> bool:
        code = peer.process.poll()
        self.assertIsNone(code, f"{peer.directory.name} ended with {code}: {peer.errors()}")
        return True

    def until(self, what: str, condition, seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                said = "\n".join(f"{peer.directory.name}: {peer.errors()}" for peer in self.peers)
                self.fail(f"not within {seconds} s: {what}\n{said}")
            time.sleep(0.05)

    def until_step(self, step: int, *peers: Peer, seconds: float = 40) -> None:
        self.until(f"step {step}", lambda: all(self.alive(peer) and peer.step() >= step
                                               for peer in peers), seconds)

    def steps_shared(self, *trainers: Peer) -> int:
        """How many steps had the samples of all of them."""
        return sum(event["fields"]["contributors"] == len(trainers)
                   for event in trainers[0].events("step"))

    def until_shared_steps(self, count: int, *trainers: Peer, seconds: float = 40) -> None:
        self.until(f"{count} steps with the samples of all",
                   lambda: all(self.alive(trainer) for trainer in trainers) and
                   self.steps_shared(*trainers) >= count, seconds)

    def end_with_one_state(self, *trainers: Peer) -> list[dict]:
        """Ctrl-C for each, the host (the first) last. They held one state after each step that
        several of them saw. Returns what each said at its end.

        A run that is to be shared has no last step in its run file: on a quiet machine the host
        would have made it before the guests have come.
        """
        for trainer in reversed(trainers):
            trainer.signal(signal.SIGINT)
            self.assertEqual(trainer.end(), OK, trainer.errors())
        states: dict[int, list[str]] = {}
        for trainer in trainers:
            for event in trainer.events("step"):
                fields = event["fields"]
                states.setdefault(fields["step"], []).append(fields["state_hash"])
        self.assertTrue(any(len(hashes) == len(trainers) for hashes in states.values()),
                        "they shared no step")
        for step, hashes in states.items():
            self.assertEqual(len(set(hashes)), 1, f"they differ at step {step}")
        return [trainer.last_words() for trainer in trainers]

    def expect_sentence(self, text: str, *parts: str) -> None:
        """Checks what was said on standard error: by dedloc, once, for people, naming `parts`."""
        said = [line for line in text.splitlines() if line.startswith("dedloc: ")]
        self.assertEqual(len(said), 1, f"not one sentence: {text!r}")
        for part in parts:
            self.assertIn(part, text)
        self.expect_no_bug(text)

    def expect_last_sentence(self, text: str, *parts: str) -> None:
        """The last word on standard error; with --quiet failures on the way came before it."""
        said = [line for line in text.splitlines() if line.startswith("dedloc: ")]
        self.assertTrue(said, f"no sentence: {text!r}")
        self.assertEqual(len(said), len(set(said)), f"said twice: {text!r}")
        for part in parts:
            self.assertIn(part, said[-1])
        self.expect_no_bug(text)

    def expect_no_bug(self, text: str) -> None:
        for bug in ("terminate called", "a bug", "Assertion", "Traceback", "core dumped"):
            self.assertNotIn(bug, text)

    def has_libtorch(self) -> bool:
        return json.loads(self.dedloc("version", "--json").stdout)["libtorch"]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main() -> None:
    """Exit status: 0 passed, 77 everything was skipped, 1 else. --json: the last line of standard
    output is {"passed": …, "failed": …}.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    as_json = "--json" in sys.argv
    words = [word for word in sys.argv if word != "--json"]
    result = unittest.main(argv=words, exit=False, verbosity=2).result
    if as_json:
        failed = len(result.failures) + len(result.errors)
        passed = result.testsRun - failed - len(result.skipped)
        print(json.dumps({"passed": passed, "failed": failed}))
    if not result.wasSuccessful():
        sys.exit(1)
    skipped = len(result.skipped) > 0 and len(result.skipped) == result.testsRun
    sys.exit(SKIPPED if skipped else 0)
