"""Layers whose experts live on machines that others lend (``dedloc serve JOIN_STRING``)."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any, Sequence

import torch

from . import _library
from ._library import library
from .errors import DedlocError
from .run import Run


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, mixture: "RemoteMixture", rows: torch.Tensor,
                scores: torch.Tensor) -> torch.Tensor:
        inputs, asked = _plain(rows), _plain(scores)
        outputs = torch.empty_like(inputs)
        lost = torch.zeros(len(inputs), dtype=torch.uint8)
        number = mixture._forward(inputs, asked, outputs, lost)
        context.mixture, context.number = mixture, number
        context.like = (rows.device, rows.dtype, scores.device, scores.dtype, scores.shape)
        context.kept = _Kept(mixture, number)
        if len(inputs) and bool(lost.all()):
            outputs.fill_(math.nan)  # nobody answered: the batch is left out
        return outputs.to(rows.device, rows.dtype)

    @staticmethod
    def backward(context: Any, gradients: torch.Tensor) -> Any:  # type: ignore[override]
        device, dtype, gate_device, gate_dtype, shape = context.like
        outer = _plain(gradients)
        inner, of_scores = torch.empty_like(outer), torch.empty(shape)
        context.kept.detach()
        context.mixture._backward(context.number, outer, inner, of_scores)
        return None, inner.to(device, dtype), of_scores.to(gate_device, gate_dtype)


class _Kept:
    """A pass that waits for its backward pass; forgotten when nobody can ask for that any more."""

    def __init__(self, mixture: "RemoteMixture", number: int) -> None:
        self._finalizer = weakref.finalize(self, RemoteMixture._forget, weakref.ref(mixture),
                                           number)
        self._finalizer.atexit = False

    def detach(self) -> None:
        self._finalizer.detach()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()


class RemoteMixture(torch.nn.Module):
    """A mixture of experts: each row goes to the `best` experts of a grid by the gate's scores.

        run = dedloc.host(…, experts=dict(grid="4x4", width=64, hidden=256))
        model = nn.Sequential(nn.Linear(2, 64), dedloc.experts.RemoteMixture(run, 64, (4, 4)), …)
        opt = dedloc.Optimizer(run, model)

    The gate is a linear layer of the model and is trained with it; the experts belong to their
    servers and learn when the backward pass arrives. A row that fewer than `at_least` experts
    answered is zeros, and so are its gradients; where nobody answered any row the outputs are NaN,
    so that the batch is left out. The layer can be used once the Optimizer is made.

    width: numbers in a row, first and last dimension of the tensors. grid: sizes of its axes.
    name, best, at_least: as [experts] of the run file.

    Raises where no expert has answered for ten minutes, and where the run is not open.
    Cost: two round trips a pass, within which it blocks, for half a minute where nobody answers.
    """

    def __init__(self, run: Run, width: int, grid: Sequence[int], *, name: str = "ffn",
                 best: int = 4, at_least: int = 1) -> None:
        super().__init__()
        self.width, self.grid = width, tuple(grid)
        self.gate = torch.nn.Linear(width, sum(self.grid))
        self._run = run
        self._name, self._best, self._at_least = name, best, at_least
        self._mixture: Any = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Rows of `width` numbers to as many, of the same shape."""
        rows = inputs.reshape(-1, self.width)
        return _Pass.apply(self, rows, self.gate(rows)).reshape(inputs.shape)

    def extra_repr(self) -> str:
        """For print(model)."""
        return f"{self.width}, grid={self.grid}, name={self._name!r}, best={self._best}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mixture": None}  # a copy opens its own

    def _opened(self) -> Any:
        loop = self._run._opened()
        if self._run._is_closing:
            raise DedlocError("the run is being closed, and with it the way to its experts")
        if self._mixture is None:
            sizes = (ctypes.c_uint32 * len(self.grid))(*self.grid)
            options = _library.MixtureOptions(self._name.encode(), sizes, len(self.grid),
                                              self._best, self._at_least)
            mixture, error = ctypes.c_void_p(), _library.Error()
            if not library.dedloc_mixture_open(loop, options, mixture, error):
                _library.raise_error(error)
            self._mixture = mixture
            self._run._closes.append(self._close)
        return self._mixture

    def _close(self) -> None:
        mixture, self._mixture = self._mixture, None
        if mixture is not None:
            library.dedloc_mixture_close(mixture)

    def _forward(self, inputs: torch.Tensor, scores: torch.Tensor, outputs: torch.Tensor,
                 lost: torch.Tensor) -> int:
        error = _library.Error()
        number = library.dedloc_mixture_forward(
            self._opened(), inputs.data_ptr(), scores.data_ptr(), len(inputs), self.width,
            outputs.data_ptr(), lost.data_ptr(), error)
        if not number:
            _library.raise_error(error)
        return number

    def _backward(self, number: int, outer: torch.Tensor, inner: torch.Tensor,
                  of_scores: torch.Tensor) -> None:
        error = _library.Error()
        if not library.dedloc_mixture_backward(self._opened(), number, outer.data_ptr(),
                                               inner.data_ptr(), of_scores.data_ptr(), error):
            _library.raise_error(error)

    @staticmethod
    def _forget(reference: Any, number: int) -> None:
        mixture = reference()
        if mixture is not None and mixture._mixture is not None:
            library.dedloc_mixture_forget(mixture._mixture, number)
