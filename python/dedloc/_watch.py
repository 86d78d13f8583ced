"""A model after it has joined. The engine relies on what it was told then: which tensors there are,
their type, shape and device, which are trained, and that only the run's steps change their values.
``Watch`` looks before each step. Memory that has moved and tensors that were exchanged for equal
ones are followed; the rest is BadInput, with what to do.

Cost: one pass over the parameters (64-bit sums, as fast as memory is) and some microseconds a
tensor.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence

import torch

from ._library import BUFFER, CONSTANT, CONSTANT_BUFFER, PRIVATE_BUFFER, TRAINED
from .errors import BadInput

_OF_THE_RUN = ("the values of a run change by its steps alone: opt.load_state_from_peers() puts "
               "them back; to begin from others, load them before dedloc.Optimizer is made, as the "
               "host of a new run")


def sums_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """A number for each tensor that is another one when any value is: the sum of its bits, as whole
    numbers, so that the order of the sum does not matter."""
    found: list[Any] = [_sum_of(tensor.detach()) for tensor in tensors]
    on_devices = [value for value in found if value.device.type != "cpu"]
    if on_devices and all(value.device == on_devices[0].device for value in found):
        return torch.stack(found).tolist()  # one wait for the device
    return [int(value) for value in found]


def _sum_of(values: torch.Tensor) -> torch.Tensor:
    if values.numel() == 0:
        return torch.zeros((), dtype=torch.int64)
    if values.dtype != torch.float32:
        if values.dtype == torch.bool or not (values.is_floating_point() or values.is_complex()):
            return values.sum(dtype=torch.int64)
        return values.contiguous().view(torch.uint8).sum(dtype=torch.int64)
    flat = values.contiguous().reshape(-1)
    if flat.storage_offset() % 2 == 0 and flat.data_ptr() % 8 == 0:
        pairs = flat[:flat.numel() // 2 * 2].view(torch.int64).sum()
        return pairs if flat.numel() % 2 == 0 else pairs + flat[-1:].view(torch.int32).sum()
    return flat.view(torch.int32).sum(dtype=torch.int64)


def _version(tensor: torch.Tensor) -> Optional[int]:
    try:
        return tensor._version
    except RuntimeError:  # made under inference_mode
        return None


def _type_name(dtype: torch.dtype) -> str:
    return {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
            torch.float64: "fp64"}.get(dtype, str(dtype).replace("torch.", ""))


class Entry:
    """A tensor as it was when it joined, and where it lay when it was looked at last."""

    def __init__(self, name: str, tensor: torch.Tensor, kind: int,
                 repeats: Optional["Entry"]) -> None:
        self.name, self.tensor, self.kind, self.repeats = name, tensor, kind, repeats
        self.dtype, self.device, self.shape = tensor.dtype, tensor.device, tensor.shape
        self.has_values = kind in (TRAINED, CONSTANT, CONSTANT_BUFFER) and repeats is None
        self.is_parameter = kind in (TRAINED, CONSTANT)
        self.sum: Optional[int] = None
        self.remember_place()

    def remember_place(self) -> None:
        self.place = (self.tensor.data_ptr(), self.tensor.stride())
        self.version = _version(self.tensor)

    def check(self, tensor: torch.Tensor) -> None:
        """BadInput where `tensor`, which stands under this name now, cannot take its place."""
        if tensor.dtype != self.dtype:
            way = "model.float() gives the type back" if self.is_parameter else "convert it back"
            raise BadInput(
                f"'{self.name}' was {_type_name(self.dtype)} when the model joined and is "
                f"{_type_name(tensor.dtype)} now: {way}; a model is converted before "
                "dedloc.Optimizer is made, and computes in less by torch.autocast")
        if tensor.device != self.device:
            raise BadInput(
                f"'{self.name}' lay on {self.device} when the model joined and lies on "
                f"{tensor.device} now: move it back (model.to({str(self.device)!r})); a model is "
                "moved before dedloc.Optimizer is made")
        if tensor.shape != self.shape:
            raise BadInput(
                f"'{self.name}' had the shape {list(self.shape)} when the model joined and has "
                f"{list(tensor.shape)} now: all peers train one model of one shape; begin a new "
                "run with this one")
        if self.is_parameter and tensor.requires_grad != (self.kind == TRAINED):
            before, now, back = (("trained", "frozen", "True") if self.kind == TRAINED else
                                 ("frozen", "trained", "False"))
            raise BadInput(
                f"'{self.name}' was {before} when the model joined and is {now} now: what is "
                f"trained is the same on all peers and all the time; set its requires_grad to "
                f"{back}, or begin a new run with the model as it is")
        if tensor.numel() and tensor.data_ptr() == 0:
            raise BadInput(f"'{self.name}' has no memory any more (freed, or on the meta device): "
                           "the engine reads and writes parameters where they lie")


class Watch:
    def __init__(self, named: Callable[[str], Iterable[tuple[str, torch.Tensor]]],
                 caches: Callable[[], set], entries: list[Entry],
                 exchanged: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        """named: lists the parameters or the buffers that the model has now. caches: names of the
        buffers that are no part of its state_dict. exchanged: told of a tensor that has taken the
        place of another one."""
        self._named, self._caches, self._exchanged = named, caches, exchanged
        self._entries = entries
        check_memory(entries)

    def remember(self) -> None:
        """After the engine has written: these are the run's values."""
        watched = [entry for entry in self._entries if entry.has_values]
        for entry, value in zip(watched, sums_of([entry.tensor for entry in watched])):
            entry.sum = value
        for entry in self._entries:
            entry.remember_place()

    def look(self, values: bool = True) -> None:
        """Raises BadInput where the model is none that the engine can go on with."""
        there = [*self._named("_parameters"), *self._named("_buffers")]
        same = len(there) == len(self._entries) and all(
            tensor is entry.tensor for (_, tensor), entry in zip(there, self._entries))
        if not same:
            self._follow(there, values)
        has_moved = False
        for entry in self._entries:
            tensor = entry.tensor
            if entry.kind != PRIVATE_BUFFER:
                entry.check(tensor)
                has_moved |= (tensor.data_ptr(), tensor.stride()) != entry.place
        if has_moved or not same:
            check_memory(self._entries)
        if values:
            self._check_values()

    def _check_values(self) -> None:
        watched = [entry for entry in self._entries if entry.has_values and self._is_due(entry)]
        for entry, value in zip(watched, sums_of([entry.tensor for entry in watched])):
            if value != entry.sum:
                raise BadInput(self._changed(entry))

    @staticmethod
    def _is_due(entry: Entry) -> bool:
        # Operations on .data leave the version as it is, so that what is trained is always summed.
        return entry.kind == TRAINED or entry.version != _version(entry.tensor) or (
            entry.place != (entry.tensor.data_ptr(), entry.tensor.stride()))

    @staticmethod
    def _changed(entry: Entry) -> str:
        if entry.kind == TRAINED:
            return (f"'{entry.name}' holds other values than the run's last step gave it "
                    f"(load_state_dict, clamp, an initialisation?); {_OF_THE_RUN}")
        if entry.kind == CONSTANT:
            return (f"'{entry.name}' is frozen, and its values have changed since the model "
                    "joined: frozen parameters are compared with the host's and never sent; what "
                    "changes by other means than training belongs outside of the model that is "
                    "passed, or into a buffer")
        return (f"the table '{entry.name}' has changed since the model joined: tables of whole "
                "numbers are compared with the host's and never sent; name it in private_buffers "
                "on all peers")

    def _follow(self, there: list[tuple[str, torch.Tensor]], values: bool) -> None:
        """Tensors that were exchanged or renamed."""
        by_name = dict(there)
        renamed = {id(tensor): name for name, tensor in there}
        known = set()
        for entry in self._entries:
            tensor = by_name.get(entry.name)
            if tensor is None and id(entry.tensor) in renamed:
                tensor, entry.name = entry.tensor, renamed[id(entry.tensor)]
            if tensor is None and entry.kind == PRIVATE_BUFFER:
                continue
            if tensor is None:
                raise BadInput(
                    f"'{entry.name}' belonged to the model when it joined and is gone: all peers "
                    "train one model; begin a new run with this one")
            known.add(entry.name)
            if tensor is not entry.tensor:
                self._exchange(entry, tensor, values)
        added = [name for name, _ in there if name not in known and name not in self._caches()]
        if added:
            raise BadInput(
                f"'{added[0]}' was added to the model after it had joined: all peers train one "
                "model, built before dedloc.Optimizer is made; begin a new run with this one")

    def _exchange(self, entry: Entry, tensor: torch.Tensor, values: bool) -> None:
        if entry.kind == PRIVATE_BUFFER:
            entry.tensor = tensor
            return
        if entry.repeats is not None:
            if tensor is not entry.repeats.tensor and entry.is_parameter:
                raise BadInput(
                    f"'{entry.name}' was the same tensor as '{entry.repeats.name}' when the model "
                    "joined (tied weights) and is another one now: tie them again")
            entry.tensor = tensor
            return
        if any(tensor is other.tensor for other in self._entries if other is not entry and
               other.repeats is not entry):
            raise BadInput(f"'{entry.name}' was tied to another tensor after the model had joined: "
                           "tie weights before dedloc.Optimizer is made")
        entry.check(tensor)
        if entry.has_values and values and sums_of([tensor]) != [entry.sum]:
            raise BadInput(f"'{entry.name}' was exchanged for a tensor with other values after the "
                           f"model had joined; {_OF_THE_RUN}")
        self._exchanged(entry.tensor, tensor)
        entry.tensor = tensor


def check_memory(entries: list[Entry]) -> None:
    """BadInput where two tensors lie in the same memory, so that one would overwrite the other."""
    stretches = []
    for entry in entries:
        tensor = entry.tensor
        if entry.repeats is not None or entry.kind not in (TRAINED, BUFFER) or not tensor.numel():
            continue
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
            raise BadInput(f"elements of '{entry.name}' share memory (expand()): "
                           f"clone it before dedloc.Optimizer is made")
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        begin = tensor.data_ptr()
        stretches.append((str(tensor.device), begin,
                          begin + (last + 1) * tensor.element_size(), entry.name))
    stretches.sort()
    for one, other in zip(stretches, stretches[1:]):
        if one[0] == other[0] and other[1] < one[2]:
            raise BadInput(
                f"'{one[3]}' and '{other[3]}' lie in the same memory, where each would overwrite "
                "the other: tie weights by giving both modules the same Parameter "
                "(b.weight = a.weight), or clone one")
