"""The front door for a training loop of one's own: gradients of many computers become one step."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence

import torch

from . import _library
from ._calls import number_of
from ._groups import Groups, ShownGroup
from ._library import library
from ._model import DeviceModel, Joined, Placed, check_types, describe, watch_of
from ._signals import repeated
from .errors import BadInput
from .run import Run

# hivemind's spellings that mean something else here, and what to write instead.
_IN_THE_RUN_FILE = {
    "target_batch_size": "[batch] target",
    "optimizer": "[optimizer] kind: the step is made by the engine, the same bits on all peers",
    "scheduler": "[schedule]",
    "grad_compression": "[averaging] codec",
    "delay_optimizer_step": "[averaging] delayed",
    "delay_grad_averaging": "[averaging] delayed",
    "use_local_updates": "[local]",
}
# PyTorch's optimizers take these where they are made; a run has them from its host.
_IN_HOST = {"lr", "betas", "eps", "momentum", "weight_decay", "nesterov"}
_MEANT_BY_THE_ENGINE = {"matchmaking_time", "averaging_timeout", "verbose", "load_state_timeout",
                        "batch_size_per_step", "offload_optimizer", "reuse_grad_buffers",
                        "use_local_updates", "delay_optimizer_step", "delay_grad_averaging",
                        "client_mode"}


def _check_kinds(run: Any, model: Any) -> None:
    if run is not None and not isinstance(run, Run):
        raise BadInput("the first argument is the run, of dedloc.host(…) or dedloc.join(…), not a "
                       f"{type(run).__name__}: dedloc.Optimizer(run, model)")
    if not isinstance(model, torch.nn.Module):
        raise BadInput("the second argument is the model itself, not its parameters or a "
                       f"{type(model).__name__}: dedloc.Optimizer(run, model)")


class Optimizer(torch.optim.Optimizer):
    """A peer's optimizer. ``run`` begins here: when this returns, ``model`` holds the run's present
    parameters (its own for who hosts), on the device where it is.

    model: its parameters that need a gradient (fp32) are trained together; its buffers move by the
        average of their changes. Frozen parameters must be the same on all peers, and are compared.
        Memory: one sum as long as the parameters; on the CPU nothing of the model is copied.
    param_groups: dictionaries with ``params`` and what these have of their own: ``lr_factor`` (of
        the run's learning rate), ``weight_decay``, ``muon=False`` (matrices that AdamW moves where
        the run's optimizer is Muon: embeddings, the last layer). The same on all peers: one with
        others is a DifferentRun.
    samples: a function of a peer's id and a range of sample numbers that makes the forward pass of
        these samples and returns their mean loss. They must be the same whenever and on whatever
        peer they are computed (:func:`dedloc.sample_seed` helps). Peers of a robust run check each
        other with it; ``step(samples=n)`` without a ``backward()`` computes the next ones with it.
    private_buffers: names of buffers that each peer keeps to itself, the same on all peers.
    process_group: ranks of ``torch.distributed`` that are one peer together. ``run`` is used on
        rank 0 of it, and may be None on the others.

    It is a torch.optim.Optimizer for those who ask (Lightning, accelerate, GradScaler,
    schedulers); the step itself is the engine's. ``param_groups`` show the learning rate of the
    next step, which follows from the run file: what a scheduler writes there has no effect.

    After this the model stays what it is: its type, shape, device, which of it is trained, and the
    values, which the run's steps change and nothing else. Each step looks; it follows memory that
    has moved (``channels_last``, ``.data =`` the same values), and raises BadInput for the rest.

    Raises as :func:`dedloc.join` says; BadInput or Unsupported where the model does not fit.
    Thread: one at a time.
    """

    def __init__(self, run: Optional[Run], model: "torch.nn.Module", *,
                 param_groups: Optional[Sequence[dict[str, Any]]] = None,
                 private_buffers: Sequence[str] = (), process_group: Any = None,
                 samples: Optional[Callable[[str, range], Any]] = None, **others: Any) -> None:
        for name, value in others.items():
            if name in _IN_THE_RUN_FILE and value not in (None, False):
                raise BadInput(f"{name} is the same for all peers of a run: write it into the run "
                               f"file ({_IN_THE_RUN_FILE[name]})")
            if name not in _MEANT_BY_THE_ENGINE and name not in _IN_THE_RUN_FILE:
                raise TypeError(f"Optimizer has no argument {name!r}" + (
                    ": it is the same for all peers of a run, and its host says it, as "
                    'dedloc.host(…, optimizer=dict(kind="adamw", lr=0.001))'
                    if name in _IN_HOST else ""))
        _check_kinds(run, model)
        self.model = model
        self._default_samples = others.get("batch_size_per_step")
        self._group = None
        self._is_joined = False
        groups = Groups(param_groups, model.parameters())
        tensors, placed, entries = describe(model, private_buffers, groups)
        check_types(placed)
        self._placed: Placed = placed
        self._watch = watch_of(model, entries, self._exchanged)
        self._calls: Optional[DeviceModel] = None
        if process_group is not None:
            from ._process_group import GroupModel
            self._group = GroupModel(placed, process_group)
            self._calls = self._group
        elif not placed.is_plain():
            self._calls = DeviceModel(placed)
        if not placed.trained:
            raise BadInput("the model has no parameters to train")
        if samples is not None and process_group is not None:
            raise BadInput("samples= is for a peer that is one process: the ranks of a "
                           "process_group make their batches themselves")
        self._joined = Joined(placed, self._calls, self._watch)
        super().__init__(groups.shown(placed.trained), {"lr": 0.0})  # the rate is the run's
        self.run = run
        if self._group is not None and not self._group.is_first:
            self._group.follow_join()
            self._has_joined()
            return
        if run is None:
            raise BadInput("an Optimizer needs a run: dedloc.host(…) or dedloc.join(…)")
        calls = self._calls.calls() if self._calls else None
        array = tensors.array
        run._begin(array, len(array), calls, self._joined, model, samples)
        self._raise_from_calls()
        if self._group is not None:
            self._group.lead_join()
        self._has_joined()

    def _has_joined(self) -> None:
        self._is_joined = True
        self._loaded()

    def _loaded(self) -> None:
        """The engine may have written into the model."""
        self._watch.remember()
        if self.run is not None:
            rate = library.dedloc_learning_rate(self.run._opened())
            for group in self.param_groups:
                if isinstance(group, ShownGroup):
                    group.show(rate)

    def _exchanged(self, before: torch.Tensor, after: torch.Tensor) -> None:
        self._placed.exchange(before, after)
        for group in self.param_groups:
            group["params"] = [after if p is before else p for p in group["params"]]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises BadInput: groups are given to the Optimizer when it is made."""
        if getattr(self, "_is_joined", False):
            raise BadInput("what is trained, and in which groups, is the same on all peers: give "
                           "param_groups to dedloc.Optimizer when it is made")
        super().add_param_group(param_group)

    def step(self, loss: Any = None, samples: Optional[int] = None, *,
             batch_size: Optional[int] = None, closure: Any = None) -> bool:
        """After ``backward()`` of the MEAN loss over ``samples`` samples (several backward passes
        whose losses were divided by their number count as one). True when the model has new
        parameters: until the target batch of all peers is full gradients are only summed, and the
        gradient is forgotten as by ``zero_grad``. Waits for the average when it is.

        loss: a number or a scalar tensor, for what others see; None: none. Or, as ``closure``, a
            function that makes the forward and the backward pass and returns the loss.
        samples: at most the run's target batch. ``batch_size`` is hivemind's word for it.

        A gradient that is not finite leaves no trace; after 64 in a row CannotCompute. Where
        something else is raised between ``backward`` and ``step`` nothing was counted. Ctrl-C
        raises KeyboardInterrupt; what was handed in is still averaged.
        """
        count = samples if samples is not None else batch_size
        count = count if count is not None else self._default_samples
        if count is None:
            raise BadInput("step() needs samples=, the number of samples of this batch: "
                           "opt.step(loss, samples=len(inputs))")
        closure = loss if callable(loss) else closure
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        mean_loss = math.nan if loss is None else number_of(loss)
        if self._group is not None:
            return self._step_of_group(mean_loss, int(count))
        return self._step(mean_loss, int(count))

    def _step_of_group(self, mean_loss: float, samples: int) -> bool:
        assert self._group is not None
        stepped = self._group.step(self, mean_loss, samples)
        self._loaded()
        return stepped

    def _step(self, mean_loss: float, samples: int) -> bool:
        assert self.run is not None
        loop = self._loop()
        if self._group is None and not self.run._left:
            self._watch.look()
        error = _library.Error()
        self._joined.place(loop)
        stepped = -1
        try:
            stepped = repeated(
                lambda e: library.dedloc_step(self._loop(), samples, mean_loss, e), -1, error)
        finally:
            self._joined.settle()
            if self.run._loop is not None:  # with local updates each step writes into the model
                self._loaded()
        self._raise_from_calls()
        if stepped < 0:
            _library.raise_error(error)
        self.zero_grad()
        self.run._tell_listeners()
        return stepped == 1

    def _loop(self) -> Any:
        assert self.run is not None
        return self.run._opened()

    def _raise_from_calls(self) -> None:
        """Raises what functions of this process raised within the engine."""
        self._joined.raise_failure()

    def drop(self) -> None:
        """Forgets what this peer has summed since the last global step (after an exception that
        makes it doubtful, say)."""
        if self.run is not None:
            library.dedloc_drop(self.run._opened())
        self.zero_grad()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the present gradient, not what was summed."""
        self._placed.forget_gradients()

    # hivemind's words.

    @property
    def local_epoch(self) -> int:
        """The run's global step."""
        assert self.run is not None
        return self.run.global_step

    def load_state_from_peers(self, **_: Any) -> None:
        """The run's present values into the model, and the gradient forgotten. Joining and each
        step do that; it is for a model whose values were changed by something else."""
        if self.run is None:
            return
        loop = self.run._opened()
        self._watch.look(values=False)
        self._joined.place(loop)
        library.dedloc_reload(loop)
        self._joined.settle()
        self._raise_from_calls()
        self._loaded()
        self.zero_grad()

    def shutdown(self, patience: float = 10.0) -> None:
        """Leaves the run and closes it. With a process_group each rank calls it: what all of them
        have summed is handed in, and all hold the last state."""
        if self._group is not None:
            self._group.leave(self.run, patience)
        elif self.run is not None:
            self.run.close(patience)

    def state_dict(self) -> dict[str, Any]:
        """Returns what the script may save: where the run was. The optimizer's moments are
        in the run's own checkpoints ([checkpoint] of the run file) and on the other peers."""
        if self.run is None:
            return {}
        return {"global_step": self.run.global_step, "state_hash": self.run.state_hash}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to do: the state comes from the run (host(resume=…) begins from a checkpoint)."""
