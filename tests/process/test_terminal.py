"""The view of a run in a real terminal: its legend at a key, and a terminal that is as it was."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios

import harness
from harness import ProcessTest, run_text

EDITED = termios.ICANON | termios.ECHO
CTRL_C = b"\x03"


class Terminal:
    """A pseudo-terminal with a peer in its foreground, as a shell starts it."""

    def __init__(self, test: ProcessTest, words: list[str]) -> None:
        self.hand, self.end = os.openpty()
        test.addCleanup(os.close, self.hand)
        test.addCleanup(os.close, self.end)
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = self.modes()
        self.shown = ""
        begin = ["setsid", "--ctty", "--wait", harness.DEDLOC, *words]
        self.process = subprocess.Popen(begin, stdin=self.end, stdout=self.end, stderr=self.end,
                                        env={**os.environ, "TERM": "xterm-256color",
                                             "LC_ALL": "C.UTF-8"})
        test.addCleanup(self.stop)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def modes(self) -> int:
        return termios.tcgetattr(self.end)[3]

    def type(self, keys: bytes) -> None:
        os.write(self.hand, keys)

    def read(self) -> None:
        while select.select([self.hand], [], [], 0.05)[0]:
            self.shown += os.read(self.hand, 65536).decode(errors="replace")

    def shows(self, words: str) -> bool:
        """Since the last time that something was found."""
        self.read()
        at = self.shown.find(words)
        if at >= 0:
            self.shown = self.shown[at + len(words):]
        return at >= 0


class View(ProcessTest):
    def test_a_key_explains_the_view_and_the_terminal_is_as_it_was(self) -> None:
        terminal = self.terminal()
        self.until("the run, and which key", lambda: terminal.shows("?: legend"))
        self.assertEqual(terminal.modes() & EDITED, 0)
        terminal.type(b"?")
        self.until("the legend", lambda: terminal.shows("what is shown"))
        self.until("what a state is", lambda: terminal.shows("differs"))
        terminal.type(b"x")
        self.until("the run", lambda: terminal.shows("loss "))
        terminal.type(CTRL_C)
        self.until("it left", lambda: terminal.shows("the state is in"))
        self.assertEqual(terminal.process.wait(30), harness.OK)
        self.assertEqual(terminal.modes(), terminal.before)

    def test_a_second_ctrl_c_leaves_the_terminal_as_it_was(self) -> None:
        terminal = self.terminal("noise-5000ms")
        self.until("the run", lambda: terminal.shows("?: legend"))
        terminal.type(CTRL_C)
        self.until("it leaves", lambda: terminal.shows("again: end at once"))
        # Two within a tenth of a second are meant as one.
        self.until("it ends", lambda: terminal.type(CTRL_C) or terminal.process.poll() is not None)
        self.assertEqual(terminal.process.wait(30), harness.INTERRUPTED)
        self.assertEqual(terminal.modes(), terminal.before)

    def terminal(self, data: str = "noise-20ms") -> Terminal:
        run = run_text().replace("noise-10ms", data)
        return Terminal(self, ["host", self.write("run.toml", run), "--dir",
                               str(self.folder / "host"), "--listen", "127.0.0.1:0", "--threads",
                               "1"])


if __name__ == "__main__":
    harness.main()
