"""Runs an example whose loop goes on after so many batches only when another peer trains beside it:
alone it would be at the end of the run before the other one has begun.

usage: in_company.py BATCHES SCRIPT [ARGUMENT...]
"""

import runpy
import sys
import time
from pathlib import Path

import dedloc

alone = int(sys.argv[1])
step = dedloc.Optimizer.step
batches = 0


def step_in_company(optimizer, *arguments, **named):
    global batches
    while batches == alone and not has_company(optimizer.run):
        time.sleep(0.02)
    batches += 1
    return step(optimizer, *arguments, **named)


def has_company(run: dedloc.Run) -> bool:
    return run.finished or any(
        peer["id"] != run.peer_id and peer["samples"] > 0 for peer in run.peers)


dedloc.Optimizer.step = step_in_company
sys.argv = sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).parent)  # as Python does for a script
runpy.run_path(sys.argv[0], run_name="__main__")
