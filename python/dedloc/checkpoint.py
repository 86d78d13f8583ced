"""Checkpoints of a run, for a model that is built as its peers build it."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Sequence

import torch

from . import _library
from ._groups import Groups
from ._library import library
from ._model import describe, write_flat


def load_checkpoint(path: "str | os.PathLike[str]", model: torch.nn.Module, *,
                    private_buffers: Sequence[str] = ()) -> dict[str, Any]:
    """A run's state into a model that is built as the peers build it: to measure it, to use it, to
    export it (``save_safetensors``), or to host another run with it. No run needs to be open.

    path: a checkpoint, a folder of checkpoints, or a peer's folder: the newest that is intact.
    private_buffers: as the Optimizer had them.

    Returns ``path``, ``step``, ``samples``, ``state_hash``, ``run_file`` and ``skipped`` (newer
    checkpoints that are damaged). Raises BadInput where there is none or the model does not fit,
    DifferentRun where it is built differently.
    """
    tensors, placed, _ = describe(model, private_buffers, Groups(None, ()))
    array = tensors.array
    checkpoint, error = ctypes.c_void_p(), _library.Error()
    if not library.dedloc_checkpoint_open(os.fsencode(path), array, len(array), checkpoint, error):
        _library.raise_error(error)
    try:
        write_flat(placed.trained, library.dedloc_checkpoint_parameters(checkpoint))
        write_flat(placed.buffers, library.dedloc_checkpoint_buffers(checkpoint))
        return json.loads(_library.text(library.dedloc_checkpoint_json, checkpoint))
    finally:
        library.dedloc_checkpoint_close(checkpoint)
