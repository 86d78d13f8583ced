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


class LightningCallback:
    """Stops a ``lightning.Trainer`` when the run is over, and leaves it at the end. It inherits
    nothing, so that no Lightning is needed; ``Trainer(callbacks=[…])`` takes it by its methods
    where it is mixed in: ``class Ours(dedloc.callbacks.LightningCallback, lightning.Callback)``."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self.run.finished:
            trainer.should_stop = True

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.run.leave()


class TrainerCallback:
    """The same for ``transformers.Trainer``: mix it into ``transformers.TrainerCallback``."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        control.should_training_stop = control.should_training_stop or self.run.finished
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.run.leave()
