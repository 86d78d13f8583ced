"""Failures by kind. Every message is one sentence that says what to do."""

from __future__ import annotations


class DedlocError(RuntimeError):
    """The base of all errors of this package."""


class Unreachable(DedlocError):
    """Nobody of the run could be reached in time, or they are too busy."""


class DifferentRun(DedlocError):
    """The other side trains another run, or another model; or the folder is another process's."""


class Denied(DedlocError):
    """The run does not let this peer in."""


class BadInput(DedlocError, ValueError):
    """An argument, a file or the run file is wrong."""


class AlreadyOpen(BadInput, DifferentRun):
    """The folder belongs to a run that is open in this very process (a notebook's cell that ran
    before); ``run.close()`` or :func:`dedloc.close_all` ends it."""


class NotFound(DedlocError, FileNotFoundError):
    """A file that was named is not there."""


class Unsupported(DedlocError, NotImplementedError):
    """The run, or the model, asks for something that an own loop cannot do."""


class Cancelled(DedlocError):
    """The call was ended from outside; a step is still being made and can be waited for again."""


class LocalFault(DedlocError, OSError):
    """This machine: a full disk, a port in use."""


class CannotCompute(DedlocError):
    """One gradient after the other was not finite, or memory ran out."""


_KINDS = {1: Unreachable, 2: Unreachable, 3: Unreachable, 4: Unreachable, 5: NotFound, 6: Denied,
          7: Unsupported, 8: Cancelled, 9: BadInput, 10: DifferentRun, 11: LocalFault,
          12: CannotCompute}


def error_of(kind: int, message: str) -> DedlocError:
    return _KINDS.get(kind, DedlocError)(message)
