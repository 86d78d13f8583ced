"""Train one PyTorch model together with others, over the open Internet.

    import dedloc, torch
    run = dedloc.join("dedloc1…")                     # or dedloc.host("run.toml")
    opt = dedloc.Optimizer(run, model)                # its parameters and buffers
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)      # a mean over the batch
        loss.backward()
        opt.step(loss, samples=len(inputs))           # True when a global step was made
        if run.finished:
            break

docs/python.md says more.
"""

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError(
        "dedloc trains with PyTorch, and this Python has none: pip install torch, or Debian's "
        "package python3-torch", name="torch")

# pylint: disable=wrong-import-position
from . import callbacks, experts
from ._calls import sample_seed
from ._web import Page
from .checkpoint import load_checkpoint
from .errors import (AlreadyOpen, BadInput, Cancelled, CannotCompute, DedlocError, Denied,
                     DifferentRun, LocalFault, NotFound, Unreachable, Unsupported)
from .export import save_safetensors
from .optimizer import Optimizer
from .run import Run, close_all, host, join

__version__ = "0.1.0"
__all__ = ["AlreadyOpen", "BadInput", "Cancelled", "CannotCompute", "DedlocError", "Denied",
           "DifferentRun", "LocalFault", "NotFound", "Optimizer", "Page", "Run",
           "Unreachable", "Unsupported", "callbacks", "close_all", "experts", "host", "join",
           "load_checkpoint", "sample_seed", "save_safetensors"]
