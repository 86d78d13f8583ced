"""For loops that belong to a framework, and for people who watch one.

Lightning and Hugging Face's Trainer make the optimizer's step themselves, after their own gradient
accumulation: they are given an Optimizer of this package whose samples a step are known
(``batch_size_per_step=``), and these callbacks end the run in order.
"""

from __future__ import annotations

from typing import Any, Iterator

from .run import Run


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
