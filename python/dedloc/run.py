"""A run as this process sees it: how to get in, who is there, what happens."""

from __future__ import annotations

import atexit
import json
import os
import warnings
from collections import deque
from typing import Any, Callable, Iterator, Optional, Sequence

from . import _library
from ._calls import Calls
from ._library import library
from ._run_file import text_of
from ._signals import WAIT_S, Asked, Sigterm, repeated
from ._web import Page
from .errors import AlreadyOpen, BadInput, DedlocError

_open_runs: "set[Run]" = set()  # until they are closed: nobody leaves without a word
_PATIENCE_AT_EXIT = 2.0
_EVENTS_MAX = 1024
_sigterm = Sigterm()


def _lines_of(written: "str | Sequence[str]") -> str:
    """Addresses as the library takes them: one a line."""
    return written if isinstance(written, str) else "\n".join(written)


class Run:
    """Made by :func:`host` or :func:`join`; it begins when a :class:`dedloc.Optimizer` is made for
    it, because a run is joined with a model.

    Thread: as the optimizer's; ``peers``, ``events`` and the numbers may be read from any.
    After ``fork`` only the parent may use it. At the interpreter's exit it is left in order.
    """

    def __init__(self, *, run_file: Optional[str] = None, run_text: Optional[str] = None,
                 join: Optional[str] = None, resume: Optional[str] = None,
                 directory: str = "dedloc-peer", name: str = "",
                 listen: "str | Sequence[str] | None" = None, announce: "str | Sequence[str]" = (),
                 relays: "str | Sequence[str]" = (), patience: float = 60.0,
                 admit: Optional[str] = None, web: "bool | int | str" = False,
                 tensorboard: "Optional[str | os.PathLike[str]]" = None) -> None:
        self._given = dict(run_file=run_file, run_text=run_text, join=join, resume=resume,
                           directory=directory, name=name, announce=_lines_of(announce),
                           admit=admit,
                           relays=_lines_of(relays),
                           tensorboard=None if tensorboard is None else os.fspath(tensorboard),
                           listen=None if listen is None else _lines_of(listen))
        self._patience = patience
        self._web = web
        self._loop: Any = None
        self._model: Any = None  # kept: the engine writes into its memory until the run is closed
        self._pid = os.getpid()
        self._left = False
        self._is_closing = False
        self._evaluate: Optional[Callable[[Any], Any]] = None
        self._evaluate_every = 0
        self._closes: list[Callable[[], None]] = []  # before the run: mixtures of experts
        self._heard: "deque[dict[str, Any]]" = deque(maxlen=_EVENTS_MAX)  # not read yet
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self._asked = Asked()  # kept: the library calls it while it joins

    # How it is opened and closed.

    def evaluate(self, function: Callable[[Any], Any], every: Optional[int] = None) -> None:
        """`function` measures the model on held-out data: it is called with the model that the
        Optimizer was made for (in evaluation mode, without gradients), and returns a loss, or a
        loss and an accuracy (a fraction), or those and the number of samples.

        every: global steps between two measurements; None: as the run file's [evaluate] says. One
        peer measures at a time, within ``step()`` and, when the run is over, the end. The measure
        is in ``run.peers``, and [stop] accuracy ends the run by it. To be called before the
        Optimizer is made.
        """
        if self._loop is not None:
            raise BadInput("run.evaluate() comes before dedloc.Optimizer: others are told by then "
                           "what this peer can do")
        if every is not None and every < 1:
            raise BadInput(f"every={every}: it is a number of global steps, 1 or more")
        self._evaluate, self._evaluate_every = function, every or 0

    def _begin(self, tensors: Any, count: int, calls: Any, joined: Any, model: Any,
               samples: Any) -> None:
        if self._loop is not None:
            raise BadInput("this run has an Optimizer already: one Run is one peer; for a second "
                           "one in this process call host() or join() again, with another "
                           "directory")
        self._check_directory()
        options = _library.Options()
        for key, value in self._given.items():
            if value is not None:
                setattr(options, key, os.fsencode(value))
        options.patience_s = self._patience
        options.goes_on = self._asked.callback
        options.wait_s = WAIT_S
        if self._evaluate is not None or samples is not None:
            joined.loop_calls = Calls(model, joined, self._opened, self._evaluate,
                                      self._evaluate_every, samples)
            options.calls = _library.ctypes.pointer(joined.loop_calls.structure)
        loop, error = _library.ctypes.c_void_p(), _library.Error()
        if not library.dedloc_join(options, tensors, count, calls, loop, error):
            self._asked.raise_interrupt()
            _library.raise_error(error)
        self._loop, self._model = loop, joined
        _open_runs.add(self)
        _sigterm.catch()
        self._asked.raise_interrupt()
        if self._web is not False:
            self._open_page(self._web)

    def _open_page(self, where: "bool | int | str | None") -> None:
        is_usual = where is None or where is True
        place = None if is_usual else str(where).encode()
        error = _library.Error()
        if not library.dedloc_web(self._opened(), place, error):
            _library.raise_error(error)

    def _check_directory(self) -> None:
        folder = os.path.realpath(self._given["directory"])
        if any(os.path.realpath(run._given["directory"]) == folder for run in _open_runs
               if run._loop is not None and run._pid == os.getpid()):
            raise AlreadyOpen(
                f"a run is open in this very process with the folder {self._given['directory']!r} "
                "(a notebook's cell that ran before?): end it with run.close(), or with "
                "dedloc.close_all() where the variable is lost; a second peer, and a run with "
                "other settings, need another directory=")

    def _opened(self) -> Any:
        if os.getpid() != self._pid:
            raise DedlocError("this process was forked from the one that joined the run; only that "
                              "one may use it (data loaders' workers need not)")
        if self._loop is None:
            raise DedlocError("the run has not begun: make a dedloc.Optimizer for it first"
                              if not self._left else "the run was closed")
        return self._loop

    def web(self, where: "int | str | None" = None) -> Page:
        """The page of this peer in the browser (docs/web.md): curves, rounds, peers, traffic,
        contributions, advice. It opens when this is first called, or from the start with
        ``web=True`` in :func:`host` and :func:`join`. ``print(run.web())`` prints its address;
        a notebook shows it under the cell whose last line is ``run.web()``.

        where: a port, 0 for any that is free, or "ADDRESS:PORT"; None: 8470, or the next that is
            free, on this machine alone.

        Its Pause has ``step()`` wait until Resume.
        Raises LocalFault where the port is taken. Thread: any.
        """
        self._open_page(where)
        return Page(_library.text(library.dedloc_web_address, self._opened()))

    def leave(self, patience: float = 10.0) -> None:
        """Hands in what was computed if a global step comes within `patience` seconds, says
        goodbye, loads the last state into the model and saves it. It can be called again where it
        raises (a full disk, Ctrl-C), and does what is left to do, with the shortest patience that
        it was given. A model that has changed so that it
        cannot take the last state is left as it is, with a warning.

        Rank 0 of a process_group hands in nothing any more, because the other ranks may have ended:
        ``Optimizer.shutdown()`` on each rank does.
        """
        error = _library.Error()
        self._model.begin_to_leave(self._opened())
        self._model.place_for_last(self._opened())
        try:
            left = repeated(lambda e: library.dedloc_leave(self._opened(), patience, e), 0, error)
        finally:
            self._model.settle()
        if not left:
            _library.raise_error(error)
        self._left = True
        self._tell_listeners()
        self._model.raise_failure()
        if self._model.failure is not None:
            warnings.warn("the run was left in order, but the model does not hold its last state: "
                          f"{self._model.failure}", RuntimeWarning, stacklevel=2)

    def close(self, patience: float = 10.0) -> None:
        """Leaves, if that was not done, and frees what the run takes."""
        if self._loop is None or os.getpid() != self._pid:
            return
        try:
            if not self._left:
                self.leave(patience)
        except BaseException:
            self._model.place_for_last(self._loop)  # the engine leaves, waiting little
            raise
        finally:
            self._left = self._is_closing = True
            for close in self._closes:
                close()
            library.dedloc_close(self._loop)
            self._model.settle()
            self._loop = self._model = None
            _open_runs.discard(self)
            if not _open_runs:
                _sigterm.release()

    def __deepcopy__(self, _memo: Any) -> "Run":
        return self  # a copy of a model that calls experts calls those of the same run

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *_: Any) -> None:
        is_told_to_end = kind is not None and not issubclass(kind, Exception)  # Ctrl-C, SIGTERM
        self.close(_PATIENCE_AT_EXIT if is_told_to_end else 10.0)

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
    def next_sample(self) -> int:
        """The number of the first sample of the next ``step()``: those of a peer are numbered."""
        return library.dedloc_next_sample(self._opened())

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
    def run_file(self) -> str:
        """The text of the run file, with every key: the same on all peers, and what the run's hash
        is taken over."""
        return _library.text(library.dedloc_run_file, self._opened())

    def save_run_file(self, path: "str | os.PathLike[str]") -> None:
        """Writes the run file, for ``dedloc host``, another ``dedloc.host`` or to look at."""
        text = self.run_file
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    @property
    def learning_rate(self) -> float:
        """The rate of the next global step, by the run file's [schedule].

        ``opt.param_groups`` show it, too.
        """
        return library.dedloc_learning_rate(self._opened())

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
            try:
                yield self._heard.popleft()
            except IndexError:
                self._hear()
                if not self._heard:
                    return

    def _hear(self) -> None:
        """Takes what the engine has told since; listeners hear it now, readers of `events` later.
        """
        while True:
            line = _library.text(library.dedloc_next_event, self._opened())
            if not line:
                return
            event = json.loads(line)
            self._heard.append(event)
            for listener in self._listeners:
                try:
                    listener(event)
                except Exception as failure:  # training goes on without
                    warnings.warn(f"{listener} failed: {failure!r}", RuntimeWarning, stacklevel=2)

    def _tell_listeners(self) -> None:
        if self._listeners:
            self._hear()

    def __repr__(self) -> str:
        if self._loop is None:
            return "<dedloc.Run, not open>"
        return f"<dedloc.Run {self.peer_id} at global step {self.global_step}>"


def host(run_file: "Optional[str | os.PathLike[str]]" = None, *, resume: Optional[str] = None,
         target_batch: Optional[int] = None, optimizer: Any = None, schedule: Any = None,
         stop: Any = None, averaging: Any = None, local: Any = None, robust: Any = None,
         checkpoint: Any = None, evaluate: Any = None, experts: Any = None,
         batch: Any = None, run_name: Optional[str] = None,
         **options: Any) -> Run:
    """A new run: from a run file, or from what would stand in one; or one that goes on from a
    checkpoint, or from the newest of a folder of checkpoints.

        dedloc.host(target_batch=4096, optimizer=dict(kind="adamw", lr=1e-3, weight_decay=0.1),
                    schedule=dict(kind="cosine", warmup_steps=100, total_steps=10_000),
                    stop=dict(steps=10_000))

    target_batch: samples of all peers together that one global step takes.
    optimizer: its kind ("sgd", "adamw", "lamb", "muon"), or a dictionary of the keys of the run
        file's section [optimizer]; PyTorch's ``lr``, ``betas`` and ``eps`` are understood.
    schedule: a learning rate, or a dictionary of the keys of [schedule].
    stop: as [stop]; averaging, local, robust, checkpoint, evaluate and batch likewise: dictionaries
        of the sections' keys. docs/python.md has them all; the engine checks each.
    experts: as [experts], for :class:`dedloc.experts.RemoteMixture`; ``width`` is that of a row.
    run_name: for people.
    admit: "list" lets in by invitation: ``dedloc invite NAME --dir FOLDER`` gives a string for each
        person.

    Options, as of :func:`join`: directory (identity and bookkeeping of this peer, one process at
    a time), name, listen (where others dial this peer: "127.0.0.1:0" for this machine alone and any
    free port, "0.0.0.0:4001", "[::]:4001"; "none": nowhere), announce (where they reach it if not
    there: "203.0.113.7:4001", "example.org:4001"), relays (multiaddresses with /p2p/ID; listen and
    announce may be such, too; each is one, or several), patience (seconds), web (True, a port or
    "ADDRESS:PORT": :meth:`Run.web` from the start), tensorboard (a folder that gets event files
    of this peer, each step as it is made).
    """
    sections = dict(optimizer=optimizer, schedule=schedule, stop=stop, averaging=averaging,
                    local=local, robust=robust, checkpoint=checkpoint, evaluate=evaluate,
                    experts=experts, batch=batch)
    given = [name for name, value in (*sections.items(), ("target_batch", target_batch),
                                      ("run_name", run_name)) if value is not None]
    _check_options("host", options)
    if not given:
        if run_file is None and resume is None:
            raise BadInput("a run to host needs a run file (`dedloc init own_loop` writes one), "
                           "target_batch= and what else is to be set, or resume=")
        return Run(run_file=None if run_file is None else os.fspath(run_file), resume=resume,
                   **options)
    if run_file is not None or resume is not None:
        raise BadInput(f"{given[0]}= belongs into the run file, which is given already: a run has "
                       "one file for all peers")
    return Run(run_text=text_of(run_name or "own loop", target_batch, sections), **options)


def join(join_string: str, **options: Any) -> Run:
    """A run that others host. Errors appear when its Optimizer is made: Unreachable, Denied,
    DifferentRun or BadInput (another model or version)."""
    _check_options("join", options)
    if not join_string:
        raise BadInput("join() needs the join string of a run: the host's run.join_string, once "
                       "its Optimizer is made")
    return Run(join=join_string, **options)


_OPTIONS = ("directory", "name", "listen", "announce", "relays", "patience", "web", "tensorboard")


def _check_options(function: str, options: dict[str, Any]) -> None:
    has = (*_OPTIONS, "admit") if function == "host" else _OPTIONS
    for name in options:
        if name not in has:
            raise TypeError(f"dedloc.{function} has no {name!r}; beside the run it takes "
                            f"{', '.join(has)}")


def close_all(patience: float = 10.0) -> None:
    """Closes every run that is open in this process: after a notebook's cell was run again, or
    where the variable is lost."""
    for run in list(_open_runs):
        run.close(patience)


@atexit.register
def _leave_all() -> None:
    for run in list(_open_runs):
        try:
            run.close(_PATIENCE_AT_EXIT)
        except (DedlocError, KeyboardInterrupt, SystemExit):
            pass  # nobody is there to be told
