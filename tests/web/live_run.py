"""A run for the page to show: real processes, people of several scripts, one killed, one joining
late, one that lies and is banned. The run is by invitation and robust, so that the page has people,
checks and bans to tell of.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "process"))
import harness  # noqa: E402

RUN = """name = "clothes ملابس"
[task]
kind = "synthetic"
model = "bowl-65536"
data = "noise-20ms"
[batch]
target = 48
micro = 2
[schedule]
peak = 0.01
[averaging]
codec = "fp16"
round_deadline_min = "1s"
round_deadline_max = "10s"
quorum_timeout = "5s"
[evaluate]
every = 10
[checkpoint]
every = 0
[robust]
check = 0.5
probation = 1
trust_after = 4
"""
ADDRESS = re.compile(r"http://(127\.0\.0\.1:\d+)/\?token=([0-9a-f]{32})")

# Names that a page may stumble over: right to left, with joined letters, and what looks like HTML.
ANNA, OMAR, MARKUP, LATE, LIAR = ("Anna", "عمر", "<img src=x onerror=alert(1)>", "অনিতা", "mallory")


class Beside:
    """A process beside the run's peers whose page is looked at."""

    def __init__(self, run: LiveRun, name: str, words: list[str]) -> None:
        self.directory = run.folder / name
        self.out, self.err = (run.folder / f"{name}.{end}" for end in ("out", "err"))
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen([harness.DEDLOC, *words], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, start_new_session=True)
        run.peers.append(self)

    def errors(self) -> str:
        return self.err.read_text(errors="replace")

    stop_for_good = harness.Peer.stop_for_good


class LiveRun:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dedloc-web-"))
        self.peers: list[harness.Peer] = []
        self.host: harness.Peer | None = None

    def begin(self) -> None:
        path = self.folder / "run.toml"
        path.write_text(RUN)
        self.public = self.folder / "public"
        self.host = harness.Peer(self, ["host", str(path), "--admit", "list", "--name", ANNA,
                                        "--publish", str(self.public), "--web", "0"],
                                 self.folder / "host")
        self.until("the host's string", self.host.join_string)
        self.address, self.token = self.until("the page's address", self.page_address)
        for name in (OMAR, MARKUP):
            self.join(name)
        self.until("three make steps together", lambda: any(
            event["fields"]["members"] == 3 for event in self.host.events("step")))

    def page_address(self, peer: harness.Peer | Beside | None = None) -> tuple[str, str] | None:
        peer = peer or self.host
        kept = peer.directory / "web"
        told = kept.read_text() if kept.exists() else peer.out.read_text() + peer.errors()
        found = ADDRESS.search(told)
        return found.groups() if found else None

    def join(self, name: str, more: tuple[str, ...] = (), device: str = "") -> harness.Peer:
        made = self.dedloc("invite", name, "--dir", str(self.host.directory))
        assert made.returncode == 0, made.stderr
        words = ["join", made.stdout.strip(), "--name", device or name, *more]
        return harness.Peer(self, words, self.folder / f"peer-{len(self.peers)}")

    def until(self, what: str, condition, seconds: float = 60):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                said = "\n".join(f"{peer.directory.name}: {peer.errors()}" for peer in self.peers)
                raise AssertionError(f"not within {seconds} s: {what}\n{said}")
            time.sleep(0.05)
        return value

    def log(self, kind: str | None = None) -> list[dict]:
        """The host's events."""
        return self.host.events(kind)

    def dedloc(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([harness.DEDLOC, *words], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=50, check=False)

    def watch(self) -> Beside:
        made = self.dedloc("invite", "Vera", "--dir", str(self.host.directory))
        return Beside(self, "watch", ["watch", made.stdout.strip(), "--plain", "--web", "0"])

    def replay(self) -> Beside:
        return Beside(self, "replay", ["replay", str(self.host.directory), "--web", "0"])

    def end(self) -> None:
        for peer in self.peers:
            peer.stop_for_good()
        shutil.rmtree(self.folder, ignore_errors=True)
