"""For loops that belong to a framework, and for people who watch one.

Lightning and Hugging Face's Trainer make the optimizer's step themselves, after their own gradient
accumulation: they are given an Optimizer of this package whose samples a step are known
(``batch_size_per_step=``), and these callbacks end the run in order.
"""

from __future__ import annotations

from typing import Any, Iterator

from .errors import BadInput
from .run import Run

_OF_A_STEP = ("loss", "samples", "contributors", "learning_rate", "seconds", "gradient_norm")


def progress(run: Run) -> Iterator[int]:
    """Global steps as they are made by the loop around it, under tqdm's bar if that is installed:
    ``for step in progress(run): … opt.step(…)`` yields once a batch until the run is over."""
    try:
        from tqdm.auto import tqdm
        bar: Any = tqdm(unit=" step", initial=run.global_step)
    except ImportError:
        bar = None
    while not run.finished:
        yield run.global_step
        if bar is not None:
            bar.update(run.global_step - bar.n)
            bar.set_postfix(peers=len(run.peers))
    if bar is not None:
        bar.close()


def wandb_logger(run: Run, wandb_run: Any = None) -> None:
    """Logs the run to Weights & Biases as long as it goes on: ``wandb_logger(run)`` after
    ``wandb.init(…)``, before or after the Optimizer.

    Each global step's loss, samples, samples_per_s, seconds, peers, contributors, learning_rate and
    gradient_norm, and evaluation/accuracy and evaluation/loss, as the event log has them, over
    ``global_step``. What this peer knows is logged: call it on one peer of the run.

    wandb_run: what ``wandb.init`` returned; None: the present one, ``wandb.run``.

    Raises ImportError where there is no ``wandb``, BadInput where nothing was begun with it."""
    if wandb_run is None:
        import wandb
        wandb_run = wandb.run
        if wandb_run is None:
            raise BadInput("call wandb.init(…) before wandb_logger(run), or pass what it returned")
    wandb_run.define_metric("global_step")
    wandb_run.define_metric("*", step_metric="global_step")

    def log(event: "dict[str, Any]") -> None:
        measures = measures_of(event)
        if measures:
            wandb_run.log(measures)
    run._listeners.append(log)


def measures_of(event: "dict[str, Any]") -> "dict[str, float]":
    """Numbers of an event, with their ``global_step``; none: empty."""
    fields = event.get("fields", {})
    if event["kind"] == "step":
        measures = {name: fields.get(name) for name in _OF_A_STEP}
        measures["peers"] = fields["members"]
        if fields["seconds"]:
            measures["samples_per_s"] = fields["samples"] / fields["seconds"]
    elif event["kind"] == "evaluation":
        measures = {f"evaluation/{name}": fields[name] for name in ("accuracy", "loss")}
    else:
        return {}
    measures = {name: value for name, value in measures.items() if value is not None}
    return {**measures, "global_step": fields["step"]} if measures else {}


def run_schedule(optimizer: Any) -> Any:
    """A scheduler for those who must be given one: it shows the run's learning rate and changes
    nothing."""
    import torch

    class RunSchedule(torch.optim.lr_scheduler.LambdaLR):
        def get_lr(self) -> Any:
            return [group["lr"] for group in self.optimizer.param_groups]
    return RunSchedule(optimizer, lambda _: 1.0)


def lightning_callback(run: Run) -> Any:
    """For ``lightning.Trainer(callbacks=[…])``: stops it when the run is over, and leaves the run
    at the end of the training. The module's ``configure_optimizers`` returns the Optimizer.

    Raises ImportError where there is neither ``lightning`` nor ``pytorch_lightning``."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback
    return type("DedlocCallback", (LightningCallback, Callback), {})(run)


def trainer_callback(run: Run) -> Any:
    """For ``transformers.Trainer(callbacks=[…], optimizers=(optimizer, run_schedule(optimizer)))``:
    stops it when the run is over, and leaves the run at the end of the training.

    Raises ImportError where there is no ``transformers``."""
    import transformers
    return type("DedlocCallback", (TrainerCallback, transformers.TrainerCallback), {})(run)


class LightningCallback:
    """Methods that :func:`lightning_callback` mixes into Lightning's own class."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self.run.finished:
            trainer.should_stop = True

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.run.leave()


class TrainerCallback:
    """Methods that :func:`trainer_callback` mixes into the class of ``transformers``."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        control.should_training_stop = control.should_training_stop or self.run.finished
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.run.leave()
