"""Parameter groups as PyTorch's schedulers and frameworks look at them."""

from __future__ import annotations

import warnings
from typing import Any

import torch


class ShownGroup(dict):
    """A parameter group in which ``lr`` is always the run's: what a scheduler writes has no effect,
    and reading gives what the engine uses."""

    def __init__(self, params: list[torch.Tensor]) -> None:
        super().__init__(params=params, lr=0.0)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # a copy is an ordinary group

    def show(self, learning_rate: float) -> None:
        super().__setitem__("lr", learning_rate)

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "lr":
            if value != self.get("lr"):
                warnings.warn(
                    "the learning rate of a dedloc run is the same for all its peers and follows "
                    "from the run file's [schedule]; what a scheduler or this program writes has "
                    "no effect, and param_groups show the run's", stacklevel=3)
            return
        super().__setitem__(key, value)
