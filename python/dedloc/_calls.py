"""Calls of the engine into a loop while a step is made, on the loop's thread: to compute samples by
their numbers, to measure the model."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Callable, Mapping, Optional

import torch

from ._library import LoopCalls
from ._model import Joined
from ._watch import sums_of
from .errors import BadInput

Evaluate = Callable[[torch.nn.Module], Any]
Samples = Callable[[str, range], Any]


def sample_seed(author: str, number: int) -> int:
    """For the generator of one numbered sample, or (modulo the length) its place in a data set:
    the same number on all peers, and another one for each sample."""
    digest = hashlib.sha256(f"{author} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1  # torch.Generator takes 63 bits


def number_of(value: Any) -> float:
    """A number, or a tensor that holds one."""
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _measured(value: Any) -> tuple[float, float, int]:
    """Loss, accuracy (NaN: none), samples of what an evaluation returns."""
    if isinstance(value, Mapping):
        parts = (value["loss"], value.get("accuracy"), value.get("samples"))
    else:
        given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        parts = (*given, None, None)[:3]
    loss, accuracy, samples = parts
    return (number_of(loss), math.nan if accuracy is None else number_of(accuracy),
            int(samples or 0))


class Calls:
    def __init__(self, model: torch.nn.Module, joined: Joined, loop: Callable[[], Any],
                 evaluate: Optional[Evaluate], every: int, samples: Optional[Samples]) -> None:
        self._model, self._joined, self._loop = model, joined, loop
        self._evaluate, self._samples = evaluate, samples
        self._failure: Optional[BaseException] = None
        types = dict(LoopCalls._fields_)
        self.structure = LoopCalls(
            None, types["compute"](self._on_compute if samples else 0),
            types["evaluate"](self._on_evaluate if evaluate else 0), every)

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _guarded(self, work: Callable[[], None]) -> int:
        """Exceptions do not pass through the engine: they are raised when it has returned."""
        if self._joined.failure is not None:
            return 0  # the model cannot take the state any more
        try:
            self._joined.settle()
            before = sums_of(self._joined.placed.trained)
            work()
            if sums_of(self._joined.placed.trained) != before:
                raise BadInput("a function that evaluates or computes samples has changed the "
                               "model's parameters: they are the run's, and change by its steps "
                               "alone")
            self._joined.place(self._loop())
            return 1
        except BaseException as failure:  # noqa: BLE001
            self._failure = self._failure or failure
            self._joined.placed.forget_gradients()
            self._joined.place(self._loop())
            return 0

    def _on_compute(self, _self: Any, author: bytes, begin: int, end: int, loss: Any) -> int:
        def work() -> None:
            self._joined.placed.forget_gradients()
            with torch.enable_grad():
                mean = self._samples(author.decode(), range(begin, end))  # type: ignore[misc]
                if isinstance(mean, torch.Tensor) and mean.requires_grad:
                    mean.backward()
            loss[0] = number_of(mean)
        return self._guarded(work)

    def _on_evaluate(self, _self: Any, loss: Any, accuracy: Any, samples: Any) -> int:
        def work() -> None:
            modes = [(module, module.training) for module in self._model.modules()]
            self._model.eval()
            try:
                with torch.no_grad():
                    value = self._evaluate(self._model)  # type: ignore[misc]
            finally:
                for module, training in modes:
                    module.training = training
            loss[0], accuracy[0], samples[0] = _measured(value)
        return self._guarded(work)
