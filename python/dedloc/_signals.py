"""Ctrl-C and SIGTERM while the library waits.

Python runs the handlers of signals on its main thread, between two of its own instructions: never
while a call of the library lasts. Calls that wait therefore return every twentieth of a second
(``repeated``). Joining cannot be interrupted and gone on with, so that there the library asks back.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Callable, Generator, Optional

from . import _library

WAIT_S = 0.05  # a call that waits returns after that


def repeated(call: Callable[[Any], int], failed: int, error: Any) -> int:
    """Calls until it has ended. Handlers of signals run between two calls, and may raise, leave the
    run, or whatever they like."""
    while True:
        error.kind = 0
        result = call(error)
        if result != failed or error.kind != _library.CANCELLED:
            return result


class Asked:
    """Whether to go on with joining. A function that the library calls would raise a pending
    KeyboardInterrupt before it stands in its own ``try``, where ctypes only prints it; a generator
    that has begun stands inside already."""

    def __init__(self) -> None:
        self._raised: Optional[BaseException] = None
        answers = self._answers()
        next(answers)
        self.callback = _library.GoesOn(answers.send)

    def _answers(self) -> Generator[int, Any, None]:
        answer = 1
        while True:
            try:
                while True:
                    yield answer
            except GeneratorExit:
                return
            except BaseException as raised:  # the caller raises it when the library has returned
                self._raised, answer = raised, 0

    def raise_interrupt(self) -> None:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised


class Sigterm:
    """SIGTERM ends the program in order, as ``dedloc host`` does, while a run is open, unless the
    program has a handler of its own: SystemExit, and the interpreter's exit leaves the run."""

    def __init__(self) -> None:
        self._pid = 0  # 0: not caught

    def catch(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._end)
            self._pid = os.getpid()

    def release(self) -> None:
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and signal.getsignal(signal.SIGTERM) == self._end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _end(self, number: int, _frame: Any) -> None:
        if os.getpid() != self._pid:  # a data loader's worker, say: it dies of it
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        raise SystemExit(0)
