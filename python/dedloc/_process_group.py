"""A peer that is a whole torch.distributed job: its ranks add up on their own devices, and reduce
to rank 0 once a global step. Between two of them a step() exchanges three numbers and one word."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
import torch.distributed as distributed

from ._model import DeviceModel, Placed
from .errors import BadInput, DedlocError

_NOTHING, _REDUCE, _LOADED, _FAILED = range(4)


class GroupModel(DeviceModel):
    def __init__(self, placed: Placed, group: Any) -> None:
        super().__init__(placed)
        self.group = group
        self.is_first = distributed.get_rank(group) == 0
        self._first = distributed.get_global_rank(group, 0) if hasattr(
            distributed, "get_global_rank") else 0
        self._device = placed.trained[0].device
        self._sound = True  # of this rank's present gradient
        self._loaded = False
        self._is_leaving_together = False

    # Between the ranks.

    def _say(self, word: int = _NOTHING) -> int:
        told = torch.tensor([word], device=self._device)
        distributed.broadcast(told, self._first, group=self.group)
        return int(told)

    def _spread(self) -> None:
        """Rank 0's parameters and buffers to all."""
        with torch.no_grad():
            for tensor in self.placed.trained + self.placed.buffers:
                distributed.broadcast(tensor.data, self._first, group=self.group)
        self.loaded = self._buffers()
        self.remembered = [b.clone() for b in self.placed.buffers]

    def _reduced(self, flat: torch.Tensor) -> torch.Tensor:
        distributed.reduce(flat, self._first, group=self.group)
        return flat

    def lead_join(self) -> None:
        self._spread()

    def follow_join(self) -> None:
        self._spread()

    def step(self, optimizer: Any, mean_loss: float, samples: int) -> bool:
        failure = self._failure_of(optimizer)
        sound = failure is None and math.isfinite(self.norm())
        mine = [samples, mean_loss * samples, 1.0, 0.0] if sound else [0, 0.0, 0.0, 0.0]
        mine[3] = float(failure is not None)
        numbers = torch.tensor(mine, dtype=torch.float64, device=self._device)
        distributed.all_reduce(numbers, group=self.group)
        all_samples, loss_sum, sound_ranks, failed_ranks = numbers.tolist()
        if failed_ranks > 0:
            raise failure or BadInput("the model of another rank of this group has changed since "
                                      "it joined; that rank says how")
        self._sound, self._samples, self._loaded = sound, samples, False
        if self.is_first:
            return self._lead(optimizer, loss_sum, int(all_samples), samples, sound_ranks > 0)
        if sound:
            super().add(float(samples))
        else:
            super().leave_out()
        return self._follow()

    def _follow(self) -> bool:
        """Does as rank 0 asks, until that says how the step ended."""
        word = self._say()
        while word == _REDUCE:  # more than once where the run makes local updates
            self._reduced(self.flat_sum())
            self.forget_sum()
            word = self._say()
        if word == _FAILED:
            raise RuntimeError("dedloc: rank 0 could not make the step; it says why")
        if word == _LOADED:
            self._spread()
        return word == _LOADED

    def leave(self, run: Any, patience: float) -> None:
        """All ranks leave: what each has summed is handed in once more."""
        if not self.is_first:
            self._follow()
            return
        self._is_leaving_together, self._loaded = True, False
        try:
            run.close(patience)
        except BaseException:
            self._say(_FAILED)
            raise
        self._say(_LOADED)
        self._spread()

    @staticmethod
    def _failure_of(optimizer: Any) -> Optional[DedlocError]:
        """All ranks are told before one of them raises: the others would wait for it."""
        try:
            optimizer._watch.look()
        except DedlocError as failure:
            return failure
        return None

    def _lead(self, optimizer: Any, loss_sum: float, samples: int, own: int,
              any_sound: bool) -> bool:
        self._judged = any_sound
        try:
            stepped = optimizer._step(loss_sum / max(1, samples), samples if any_sound else own)
        except BaseException:
            self._say(_FAILED)
            raise
        self._say(_LOADED if self._loaded else _NOTHING)
        if self._loaded:
            self._spread()
        return stepped

    def drops_the_rest(self) -> bool:
        """Rank 0 leaves alone: the other ranks may have ended, and with them their sums."""
        return not self._is_leaving_together

    # The engine calls the methods below, on rank 0.

    def load(self, parameters: int, buffers: int) -> None:
        super().load(parameters, buffers)
        self._loaded = True

    def is_sound(self, norm_max: float) -> int:
        return int(self._judged)  # each rank has judged its own

    def add(self, scale: float) -> None:
        if self._sound:
            super().add(float(self._samples))  # the other ranks have added theirs
        else:
            super().leave_out()

    def take_sum(self, gradient_sum: int) -> None:
        self._say(_REDUCE)
        flat = self._reduced(self.flat_sum())
        self.sums = [part.view(p.shape) for part, p in zip(
            flat.split([p.numel() for p in self.placed.trained]), self.placed.trained)]
        super().take_sum(gradient_sum)
