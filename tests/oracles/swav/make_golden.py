#!/usr/bin/env python3
"""Losses, assignments and gradients of vissl 0.1.6's SwAV loss for swav_loss_test.cpp.

  python3 -m venv --system-site-packages VENV     # python3-torch and python3-numpy are Debian's
  VENV/bin/pip install --no-deps vissl==0.1.6
  VENV/bin/python make_golden.py > golden.json

Two files of the package are run, swav_loss.py and distibuted_sinkhornknopp.py; of classy_vision,
which they import, one process needs nothing but the names below.
"""
import importlib.util
import json
import sys
import types
from pathlib import Path

import torch

CASES = [  # the last has the queue; the third one's exponentials are mostly zeros
    {"name": "paper", "number": 1, "samples": 6, "prototypes": 5, "crops": 8, "epsilon": 0.03,
     "spread": 1.0, "queue": 0},
    {"name": "two crops", "number": 2, "samples": 4, "prototypes": 7, "crops": 2, "epsilon": 0.05,
     "spread": 0.5, "queue": 0},
    {"name": "sharp", "number": 3, "samples": 3, "prototypes": 6, "crops": 3, "epsilon": 0.03,
     "spread": 3.0, "queue": 0},
    {"name": "queue", "number": 4, "samples": 4, "prototypes": 5, "crops": 4, "epsilon": 0.05,
     "spread": 1.0, "queue": 8}]


def module(name, **names):
    made = types.ModuleType(name)
    made.__dict__.update(names)
    made.__path__ = []
    sys.modules[name] = made
    return made


def load_criterion():
    folder = Path(next(p for p in sys.path if (Path(p) / "vissl/losses/swav_loss.py").is_file()))
    for name in ("classy_vision", "classy_vision.generic", "iopath", "iopath.common", "vissl",
                 "vissl.losses"):
        module(name)
    module("classy_vision.generic.distributed_util", all_reduce_max=lambda x: x,
           all_reduce_sum=lambda x: x, get_cuda_device_index=lambda: -1, get_rank=lambda: 0,
           get_world_size=lambda: 1)
    module("classy_vision.losses", ClassyLoss=torch.nn.Module,
           register_loss=lambda name: lambda c: c)
    module("iopath.common.file_io", g_pathmgr=None)
    module("vissl.config", AttrDict=dict)
    torch.nn.Module.cuda = lambda self: self
    for name in ("distibuted_sinkhornknopp", "swav_loss"):
        spec = importlib.util.spec_from_file_location(
            f"vissl.losses.{name}", folder / f"vissl/losses/{name}.py")
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = loaded
        spec.loader.exec_module(loaded)
    return sys.modules["vissl.losses.swav_loss"].SwAVCriterion


def formula(number, shape, spread):
    """A hash of the place, the same in C++."""
    place = torch.arange(shape[0] * shape[1], dtype=torch.int64)
    mixed = (place * 2654435761 + number * 40503 * 65536) % 4294967296 // 65536
    return (spread * (mixed.double() / 32768 - 1)).float().reshape(shape)


def run(criterion, case):
    loss = criterion(0.1, [0, 1], case["crops"], 3, case["epsilon"], False, [case["prototypes"]],
                     case["queue"], 4, 0, ".")
    scores = formula(case["number"], (case["crops"] * case["samples"], case["prototypes"]),
                     case["spread"]).requires_grad_(True)
    if case["queue"]:
        loss.use_queue = True
        loss.local_queue0 = torch.stack(
            [formula(100 + i, (case["queue"], case["prototypes"]), 1.0) for i in range(2)])
    sinkhorn = sys.modules["vissl.losses.swav_loss"].distributed_sinkhornknopp
    value = loss(scores, 0)
    value.backward()
    first = scores.detach()[:case["samples"]] / case["epsilon"]
    assigned = sinkhorn(Q=torch.exp(first - first.max()).t(), hard_assignment=False, world_size=1,
                        num_iter=3, use_gpu=False, use_double_prec=False)
    return {**case, "loss": value.item(), "gradients": scores.grad.flatten().tolist(),
            "assignments": [] if case["queue"] else assigned.flatten().tolist()}


if __name__ == "__main__":
    found = load_criterion()
    print(json.dumps([run(found, case) for case in CASES]))
