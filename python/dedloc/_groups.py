"""Parameter groups: a learning rate and a weight decay of their own. They are part of what all
peers of a run compare, as the model itself is."""

from __future__ import annotations

import math
import warnings
from typing import Any, Iterable, Optional, Sequence

import torch

from .errors import BadInput

_KEYS = ("params", "lr_factor", "weight_decay", "muon")
FACTOR_MAX, DECAY_MAX = 1e6, 10.0  # as the engine has them


class Group:
    def __init__(self, number: int, given: dict[str, Any]) -> None:
        for key in given:
            if key == "lr":
                raise BadInput(
                    "a parameter group has no 'lr' but 'lr_factor', by which the run's learning "
                    "rate is multiplied; that itself is in the run file ([schedule])")
            if key not in _KEYS and key != "name":
                raise BadInput(f"a parameter group has no {key!r}; it has {', '.join(_KEYS)}")
        if "params" not in given:
            raise BadInput(f"param_groups[{number}] has no 'params'")
        self.given = given
        self.lr_factor = self._number("lr_factor", given.get("lr_factor", 1.0), FACTOR_MAX)
        decay = given.get("weight_decay")
        self.weight_decay = (None if decay is None else
                             self._number("weight_decay", decay, DECAY_MAX))
        self.is_no_matrix = not given.get("muon", True)
        self.params = self._tensors(given["params"])

    @staticmethod
    def _number(key: str, value: Any, most: float) -> float:
        number = float(value)
        if not (math.isfinite(number) and 0 <= number <= most):
            raise BadInput(f"{key} of a parameter group is {value}; it must be from 0 to {most:g}")
        return number

    @staticmethod
    def _tensors(given: Any) -> list[torch.Tensor]:
        if isinstance(given, torch.Tensor):
            return [given]
        # model.named_parameters() is as good as model.parameters().
        return [one[1] if isinstance(one, tuple) else one for one in given]

    def fields(self) -> tuple[int, float, float, int]:
        """As dedloc_tensor has them."""
        decay = -1.0 if self.weight_decay is None else self.weight_decay
        has_own = self.lr_factor != 1.0 or self.weight_decay is not None
        return int(has_own), self.lr_factor, decay, int(self.is_no_matrix)


class Groups:
    def __init__(self, given: Optional[Sequence[dict[str, Any]]],
                 parameters: Iterable[torch.Tensor]) -> None:
        self._by_tensor: dict[int, Group] = {}
        self._all = [Group(i, one) for i, one in enumerate(given or ())]
        known = {id(parameter) for parameter in parameters}
        for i, group in enumerate(self._all):
            for tensor in group.params:
                if id(tensor) not in known:
                    raise BadInput(f"param_groups[{i}] names a tensor that is no parameter of the "
                                   "model")
                if self._by_tensor.setdefault(id(tensor), group) is not group:
                    raise BadInput(f"a parameter is in param_groups[{i}] and in one before it")

    def of(self, tensor: torch.Tensor) -> Optional[Group]:
        return self._by_tensor.get(id(tensor))

    def shown(self, trained: Sequence[torch.Tensor]) -> list["ShownGroup"]:
        """As torch.optim.Optimizer.param_groups has them: those that were given, then the rest."""
        shown = []
        for group in self._all:
            of_group = [tensor for tensor in trained if self.of(tensor) is group]
            if of_group:
                shown.append(ShownGroup(of_group, group))
        rest = [tensor for tensor in trained if self.of(tensor) is None]
        if rest:
            shown.append(ShownGroup(rest, None))
        return shown


class ShownGroup(dict):
    """A parameter group in which ``lr`` is always the run's: what a scheduler writes has no effect,
    and reading gives what the engine uses."""

    def __init__(self, params: list[torch.Tensor], group: Optional[Group]) -> None:
        super().__init__(params=params, lr=0.0)
        self.lr_factor = group.lr_factor if group else 1.0
        if group is not None:
            for key in ("lr_factor", "weight_decay", "muon", "name"):
                if key in group.given:
                    super().__setitem__(key, group.given[key])

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # a copy is an ordinary group

    def show(self, learning_rate: float) -> None:
        super().__setitem__("lr", learning_rate * self.lr_factor)

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "lr":
            if value != self.get("lr"):
                warnings.warn(
                    "the learning rate of a dedloc run is the same for all its peers and follows "
                    "from the run file's [schedule]; what a scheduler or this program writes has "
                    "no effect, and param_groups show the run's", stacklevel=3)
            return
        super().__setitem__(key, value)
