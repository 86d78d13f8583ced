"""A run as this process sees it: how to get in, who is there, what happens."""

from __future__ import annotations

import atexit
import json
import os
from typing import Any, Iterator, Optional, Sequence

from . import _library
from ._library import library
from .errors import BadInput, DedlocError

_open_runs: "set[Run]" = set()  # until they are closed: nobody leaves without a word
_PATIENCE_AT_EXIT = 2.0


class Run:
    """Made by :func:`host` or :func:`join`; it begins when a :class:`dedloc.Optimizer` is made for
    it, because a run is joined with a model.

    Thread: as the optimizer's; ``peers``, ``events`` and the numbers may be read from any.
    After ``fork`` only the parent may use it. At the interpreter's exit it is left in order.
    """

    def __init__(self, *, run_file: Optional[str] = None, join: Optional[str] = None,
                 resume: Optional[str] = None, directory: str = "dedloc-peer", name: str = "",
                 listen: Optional[Sequence[str]] = None, announce: Sequence[str] = (),
                 relays: Sequence[str] = (), patience: float = 60.0) -> None:
        self._given = dict(run_file=run_file, join=join, resume=resume, directory=directory,
                           name=name, announce="\n".join(announce), relays="\n".join(relays),
                           listen=None if listen is None else "\n".join(listen))
        self._patience = patience
        self._loop: Any = None
        self._model: Any = None  # kept: the engine writes into its memory until the run is closed
        self._pid = os.getpid()
        self._left = False
        self._interrupt: Optional[BaseException] = None
        # Kept: the library calls it while it waits. Python's signal handlers run in it.
        self._goes_on = _library.GoesOn(self._ask_goes_on)

    # How it is opened and closed.

    def _ask_goes_on(self, _self: Any) -> int:
        try:
            for _ in range(2):  # a pending Ctrl-C is raised between two instructions of Python
                pass
            return 1
        except BaseException as interrupt:  # raised by the caller when the call has returned
            self._interrupt = interrupt
            return 0

    def _raise_interrupt(self) -> None:
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt

    def _begin(self, tensors: Any, count: int, calls: Any, model: Any) -> None:
        if self._loop is not None:
            raise BadInput("this run has an Optimizer already: one Run is one peer; for a second "
                           "one in this process call host() or join() again, with another "
                           "directory")
        options = _library.Options()
        for key, value in self._given.items():
            if value is not None:
                setattr(options, key, os.fsencode(value))
        options.patience_s = self._patience
        options.goes_on = self._goes_on
        loop, error = _library.ctypes.c_void_p(), _library.Error()
        begun = library.dedloc_join(options, tensors, count, calls, loop, error)
        if not begun:
            self._raise_interrupt()
            _library.raise_error(error)
        self._loop, self._model = loop, model
        _open_runs.add(self)
        self._raise_interrupt()

    def _opened(self) -> Any:
        if os.getpid() != self._pid:
            raise DedlocError("this process was forked from the one that joined the run; only that "
                              "one may use it (data loaders' workers need not)")
        if self._loop is None:
            raise DedlocError("the run has not begun: make a dedloc.Optimizer for it first"
                              if not self._left else "the run was closed")
        return self._loop

    def leave(self, patience: float = 10.0) -> None:
        """Hands in what was computed if a global step comes within `patience` seconds, says
        goodbye, loads the last state into the model and saves it. It can be called again where it
        raises (a full disk, say), and does what is left to do.
        """
        error = _library.Error()
        if not library.dedloc_leave(self._opened(), patience, error):
            _library.raise_error(error)
        self._left = True

    def close(self, patience: float = 10.0) -> None:
        """Leaves, if that was not done, and frees what the run takes."""
        if self._loop is None or os.getpid() != self._pid:
            return
        try:
            if not self._left:
                self.leave(patience)
        finally:
            self._left = True
            library.dedloc_close(self._loop)
            self._loop = self._model = None
            _open_runs.discard(self)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # The properties below say what is known of the run.

    @property
    def join_string(self) -> str:
        """The string that others pass to :func:`dedloc.join` or to ``dedloc join``."""
        return _library.text(library.dedloc_join_string, self._opened())

    @property
    def peer_id(self) -> str:
        """This peer's identity, a hash of the key in its directory."""
        return _library.text(library.dedloc_peer_id, self._opened())

    @property
    def seed(self) -> int:
        """For the generator of this peer's samples: another one on each peer, and each time."""
        return library.dedloc_seed(self._opened())

    @property
    def global_step(self) -> int:
        """Steps that the run has made; it may be ahead of the model by what others made."""
        return library.dedloc_global_step(self._opened())

    @property
    def state_hash(self) -> str:
        """Hexadecimal; equal on all peers at the same global step."""
        return _library.text(library.dedloc_state_hash, self._opened())

    @property
    def finished(self) -> bool:
        """The run file's [stop] is met, or the run was left."""
        return bool(library.dedloc_finished(self._opened()))

    @property
    def target_batch(self) -> int:
        """Samples of all peers together that one global step takes."""
        return library.dedloc_target_batch(self._opened())

    @property
    def peers(self) -> list[dict[str, Any]]:
        """This peer and all others that are there, by id: id, name, role, phase, step, samples,
        samples_per_s, loss, accuracy, state_hash, …"""
        return json.loads(_library.text(library.dedloc_status_json, self._opened()))["peers"]

    @property
    def events(self) -> Iterator[dict[str, Any]]:
        """Events since these were read last (docs/events.md); of more than 1,024 the newest.
        """
        while True:
            line = _library.text(library.dedloc_next_event, self._opened())
            if not line:
                return
            yield json.loads(line)

    def __repr__(self) -> str:
        if self._loop is None:
            return "<dedloc.Run, not open>"
        return f"<dedloc.Run {self.peer_id} at global step {self.global_step}>"


def host(run_file: Optional[str] = None, *, resume: Optional[str] = None, **options: Any) -> Run:
    """A new run from this run file; or one that goes on from a checkpoint, or from the newest of a
    folder of checkpoints.

    Options, as of :func:`join`: directory (identity and bookkeeping of this peer, one process at a
    time), name, listen, announce, relays (multiaddresses), patience (seconds).
    """
    return Run(run_file=run_file, resume=resume, **options)


def join(join_string: str, **options: Any) -> Run:
    """A run that others host. Errors appear when its Optimizer is made: Unreachable, Denied,
    DifferentRun (another model or version), Unsupported (a run with local updates)."""
    return Run(join=join_string, **options)


@atexit.register
def _leave_all() -> None:
    for run in list(_open_runs):
        try:
            run.close(_PATIENCE_AT_EXIT)
        except DedlocError:
            pass  # nobody is there to be told
