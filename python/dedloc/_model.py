"""A torch.nn.Module as the engine sees it: tensors in the order of registration, parameters first.

In plain memory of the CPU nothing is copied: the engine reads gradients and writes parameters where
they lie. A model on a device keeps its sum there; one copy through pinned memory a global step.
"""

from __future__ import annotations

import ctypes
from typing import Any, Iterator, Optional, Sequence

import torch

from . import _library
from ._groups import Groups
from ._library import (BUFFER, CONSTANT, CONSTANT_BUFFER, PRIVATE_BUFFER, TRAINED, ModelCalls,
                       Tensor, library)
from ._watch import Entry, Watch
from .errors import BadInput, DedlocError

# As libtorch spells types, which the fingerprint of a model contains.
_TYPES = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half",
          torch.bfloat16: "BFloat16", torch.int64: "Long", torch.int32: "Int",
          torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte", torch.bool: "Bool"}
_IN_MEMORY = {torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool}
_WHOLE_ELEMENTS_MAX = 1024  # a table or a mask has more, and is a constant


_WRAPPER = "_orig_mod"  # torch.compile's; other peers may not compile, and know no such name


def _named(model: torch.nn.Module, which: str) -> Iterator[tuple[str, torch.Tensor]]:
    """With the second names of tied tensors, as the C++ library lists them."""
    for prefix, module in model.named_modules(remove_duplicate=False):
        prefix = ".".join(part for part in prefix.split(".") if part != _WRAPPER)
        for name, tensor in getattr(module, which).items():
            if tensor is not None:
                yield (f"{prefix}.{name}" if prefix else name), tensor


def _kind_of_buffer(name: str, tensor: torch.Tensor, private: Sequence[str]) -> int:
    if name in private:
        return PRIVATE_BUFFER
    if tensor.is_floating_point():
        return BUFFER
    whole = not tensor.is_complex()
    return BUFFER if whole and tensor.numel() <= _WHOLE_ELEMENTS_MAX else CONSTANT_BUFFER


class Described:
    """The array for the C interface, and what keeps its memory alive."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self._all: list[Tensor] = []

    def add(self, name: str, tensor: torch.Tensor, kind: int, repeated: bool,
            groups: Groups) -> None:
        group = groups.of(tensor)
        if kind in (CONSTANT, CONSTANT_BUFFER):
            tensor = tensor.detach().cpu().contiguous()
        sizes = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        self.kept += [tensor, sizes]
        self._all.append(Tensor(
            name.encode(), sizes, tensor.dim(), kind, int(repeated),
            _TYPES.get(tensor.dtype, str(tensor.dtype)).encode(), tensor.data_ptr(),
            tensor.numel() * tensor.element_size(),
            *(group.fields() if group else (0, 1.0, -1.0, 0))))

    @property
    def array(self) -> Any:
        return (Tensor * len(self._all))(*self._all)


class Hold:
    """Memory that lies in a row, in place of tensors that do not; it lives until a call has ended.
    """

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._copied: list[tuple[torch.Tensor, torch.Tensor]] = []

    def values(self, tensor: torch.Tensor) -> int:
        if tensor.is_contiguous():
            return tensor.data_ptr()
        copy = tensor.detach().contiguous()
        self._copied.append((tensor, copy))
        return copy.data_ptr()

    def gradient(self, parameter: torch.Tensor) -> Optional[int]:
        gradient = parameter.grad
        if gradient is None:
            return None
        if gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        # Itself, if it lies in a row already.
        gradient = gradient.detach().to(parameter.device, torch.float32).resolve_neg().contiguous()
        if gradient.shape != parameter.shape:
            raise BadInput(f"a gradient has the shape {list(gradient.shape)}, its parameter "
                           f"{list(parameter.shape)}: leave .grad to backward()")
        self._kept.append(gradient)
        return gradient.data_ptr()

    def settle(self) -> None:
        """Back to where the tensors lie."""
        with torch.no_grad():
            for tensor, copy in self._copied:
                tensor.detach().copy_(copy)


class Placed:
    """Lists what is trained and what is averaged: each tensor once, empty ones left out."""

    def __init__(self, trained: list[torch.Tensor], buffers: list[torch.Tensor]) -> None:
        self.trained, self.buffers = trained, buffers

    def exchange(self, before: torch.Tensor, after: torch.Tensor) -> None:
        for tensors in self.trained, self.buffers:
            for i, tensor in enumerate(tensors):
                if tensor is before:
                    tensors[i] = after

    def forget_gradients(self) -> None:
        for parameter in self.trained:
            parameter.grad = None

    def is_plain(self) -> bool:
        return all(t.device.type == "cpu" and t.is_contiguous() and t.dtype in _IN_MEMORY
                   for t in self.trained + self.buffers)

    def place(self, loop: Any) -> Hold:
        """Says where everything lies now. What is returned must live until the call has ended, and
        be settled then."""
        hold = Hold()
        self._say(loop, [hold.values(t) for t in self.trained + self.buffers],
                  [hold.gradient(parameter) for parameter in self.trained])
        return hold

    def place_elsewhere(self, loop: Any) -> list[torch.Tensor]:
        """Memory for a last state that the model cannot take any more; to be kept."""
        spare = [torch.zeros(tensor.numel() * 8, dtype=torch.uint8)
                 for tensor in self.trained + self.buffers]
        self._say(loop, [tensor.data_ptr() for tensor in spare], [None] * len(self.trained))
        return spare

    @staticmethod
    def _say(loop: Any, values: list[Optional[int]], gradients: list[Optional[int]]) -> None:
        library.dedloc_place(loop, (ctypes.c_void_p * len(values))(*values),
                             (ctypes.c_void_p * len(gradients))(*gradients))


class Joined:
    """The part of a model that a run keeps: where the engine writes until the run is closed."""

    def __init__(self, placed: Placed, calls: Optional["DeviceModel"], watch: Watch) -> None:
        self.placed, self.calls, self.watch = placed, calls, watch
        self.loop_calls: Any = None  # _calls.Calls, which are kept with it
        self._spare: list[torch.Tensor] = []
        self._holds: list[Hold] = []  # of the present call; only the last one is written to
        self.failure: Optional[DedlocError] = None  # why the model cannot take the last state

    def place(self, loop: Any) -> None:
        """Before a call of the engine that reads or writes the model; settle() comes after it."""
        if self.calls is None and self.failure is None:
            self._holds.append(self.placed.place(loop))

    def settle(self) -> None:
        """Brings into the model what the engine wrote."""
        holds, self._holds = self._holds, []
        if holds:
            holds[-1].settle()

    def begin_to_leave(self, loop: Any) -> None:
        if self.calls is not None and self.calls.drops_the_rest():
            _library.library.dedloc_drop(loop)

    def place_for_last(self, loop: Any) -> None:
        """For leaving: that goes on whatever has become of the model."""
        try:
            self.watch.look(values=False)
            self.place(loop)
        except DedlocError as failure:
            self.failure = failure
            if self.calls is None:
                self._spare = self.placed.place_elsewhere(loop)
            else:
                self.calls.takes_no_more()

    def raise_failure(self) -> None:
        for calls in self.calls, self.loop_calls:
            if calls is not None:
                calls.raise_failure()


def _check_can_join(name: str, tensor: torch.Tensor) -> None:
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise BadInput(f"'{name}' has no shape yet (a lazy module): make a forward pass before "
                       "dedloc.Optimizer is made")
    if tensor.device.type == "meta":
        raise BadInput(f"'{name}' is on the meta device: give the model memory (to_empty) and "
                       "values before dedloc.Optimizer is made")


def describe(model: torch.nn.Module, private: Sequence[str], groups: Groups
             ) -> tuple[Described, Placed, list[Entry]]:
    described, placed, seen = Described(), Placed([], []), {}
    entries: list[Entry] = []

    def enter(name: str, tensor: torch.Tensor, kind: int) -> bool:
        """Whether it was there under another name."""
        first = seen.get(id(tensor))
        described.add(name, tensor, kind, first is not None, groups)
        entries.append(Entry(name, tensor, kind, first))
        seen.setdefault(id(tensor), entries[-1])
        return first is not None

    names = {name for name, _ in _named(model, "_buffers")}
    for name in private:
        if name not in names:
            raise BadInput(f"private_buffers names {name!r}, which is no buffer of the model")
    for name, tensor in _named(model, "_parameters"):
        _check_can_join(name, tensor)
        repeated = enter(name, tensor, TRAINED if tensor.requires_grad else CONSTANT)
        if tensor.requires_grad and not repeated and tensor.numel():
            placed.trained.append(tensor)
    for name, tensor in _named(model, "_buffers"):
        _check_can_join(name, tensor)
        kind = _kind_of_buffer(name, tensor, private)
        repeated = enter(name, tensor, kind)
        if kind == BUFFER and not repeated and tensor.numel():
            placed.buffers.append(tensor)
    return described, placed, entries


def check_types(placed: Placed) -> None:
    if any(tensor.dtype != torch.float32 for tensor in placed.trained):
        raise BadInput("parameters must be fp32 (model.float() before joining); compute in less "
                       "with torch.autocast")


def watch_of(model: torch.nn.Module, entries: list[Entry], exchanged: Any) -> Watch:
    def caches() -> set:
        return {f"{prefix}.{name}" if prefix else name for prefix, module in model.named_modules()
                for name in getattr(module, "_non_persistent_buffers_set", ())}
    return Watch(lambda which: _named(model, which), caches, entries, exchanged)


def _view(address: int, count: int) -> torch.Tensor:
    """The engine's vector as a tensor, without a copy."""
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def _write(tensors: Sequence[torch.Tensor], values: torch.Tensor) -> None:
    """A vector into tensors, whatever their type and wherever they are."""
    offset = 0
    for tensor in tensors:
        part = values[offset:offset + tensor.numel()].view(tensor.shape)
        tensor.copy_(part if tensor.is_floating_point() else part.round())
        offset += tensor.numel()


def write_flat(tensors: Sequence[torch.Tensor], address: int) -> None:
    """The engine's vector into tensors."""
    with torch.no_grad():
        _write([tensor.data for tensor in tensors],
               _view(address, sum(tensor.numel() for tensor in tensors)))


class DeviceModel:
    """The model's owner's side of dedloc_model_calls: sums stay where the model computes."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed
        self.sums: list[Any] = [None] * len(placed.trained)
        self.trained_count = sum(t.numel() for t in placed.trained)
        self.buffers_count = sum(t.numel() for t in placed.buffers)
        self.loaded = self._buffers()
        self.remembered = [b.clone() for b in placed.buffers]
        self._failure: Any = None
        self._kept: Any = None
        self._takes = True
        on_device = any(t.is_cuda for t in placed.trained)
        self._staging = (torch.empty(self.trained_count, pin_memory=True) if on_device else None)

    def calls(self) -> ModelCalls:
        types = dict(ModelCalls._fields_)
        made = {name: types[name](self._guard(getattr(self, name), name == "is_sound"))
                for name in types if name != "self"}
        self._kept = ModelCalls(None, **made)
        return self._kept

    def _guard(self, work: Any, judges: bool) -> Any:
        """Exceptions do not pass through the engine: they are raised when it has returned."""
        def guarded(_self: Any, *arguments: Any) -> Any:
            try:
                with torch.no_grad():
                    return work(*arguments)
            except BaseException as failure:  # noqa: BLE001
                self._failure = self._failure or failure
                return 0
        return guarded

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def drops_the_rest(self) -> bool:
        """Tells whether the sum cannot be handed in when the run is left."""
        return False

    def takes_no_more(self) -> None:
        """The model is none any more that a state fits."""
        self._takes = False

    def _buffers(self) -> torch.Tensor:
        if not self.placed.buffers:
            return torch.empty(0)
        return torch.cat([b.detach().reshape(-1).float() for b in self.placed.buffers]).cpu()

    def load(self, parameters: int, buffers: int) -> None:
        if not self._takes:
            return
        values = _view(parameters, self.trained_count)
        if self._staging is not None:
            self._staging.copy_(values)
            values = self._staging.to(self.placed.trained[0].device, non_blocking=True)
        _write([p.data for p in self.placed.trained], values)
        _write(self.placed.buffers, _view(buffers, self.buffers_count))
        self.loaded = self._buffers()
        self.remembered = [b.clone() for b in self.placed.buffers]
        self.forget_gradient()

    def store(self, parameters: int, buffers: int) -> None:
        _view(parameters, self.trained_count).copy_(
            torch.cat([p.detach().reshape(-1) for p in self.placed.trained]))
        _view(buffers, self.buffers_count).copy_(self._buffers())

    def has_gradient(self) -> int:
        return int(any(p.grad is not None for p in self.placed.trained))

    def norm(self) -> float:
        norms = [torch.linalg.vector_norm(p.grad.coalesce().values() if p.grad.is_sparse
                                          else p.grad).float()
                 for p in self.placed.trained if p.grad is not None]
        return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0

    def is_sound(self, norm_max: float) -> int:
        norm = self.norm()  # one number from the device
        return int(norm < float("inf") and (norm_max <= 0 or norm <= norm_max))  # NaN: false

    def add(self, scale: float) -> None:
        for i, parameter in enumerate(self.placed.trained):
            if parameter.grad is None:
                continue
            gradient = parameter.grad.detach()
            gradient = gradient.to_dense() if gradient.layout != torch.strided else gradient
            if self.sums[i] is None:
                self.sums[i] = gradient * scale
            else:
                self.sums[i].add_(gradient, alpha=scale)
        self.forget_gradient()
        self.remembered = [b.clone() for b in self.placed.buffers]

    def leave_out(self) -> None:
        self.forget_gradient()
        for buffer, before in zip(self.placed.buffers, self.remembered):
            buffer.copy_(before)

    def forget_gradient(self) -> None:
        self.placed.forget_gradients()

    def flat_sum(self) -> torch.Tensor:
        return torch.cat([torch.zeros_like(p).reshape(-1) if s is None else s.reshape(-1)
                          for p, s in zip(self.placed.trained, self.sums)])

    def take_sum(self, gradient_sum: int) -> None:
        flat = self.flat_sum()
        if self._staging is not None:
            self._staging.copy_(flat, non_blocking=True)
            torch.cuda.current_stream(flat.device).synchronize()
            flat = self._staging
        _view(gradient_sum, self.trained_count).copy_(flat)
        self.forget_sum()

    def take_buffers(self, changes: int, scale: float) -> None:
        now = self._buffers()
        _view(changes, self.buffers_count).copy_((now - self.loaded) * scale)
        self.loaded = now

    def forget_sum(self) -> None:
        self.sums = [None] * len(self.placed.trained)
