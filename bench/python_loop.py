"""The benchmark python_solo: the demo's network in PyTorch, plain or as a peer of a run of its own.

    python_loop.py plain STEPS | dedloc STEPS RUN_FILE FOLDER

Both draw the same batches of 256 in a shuffled order, and make a step of 1,024 samples. Prints one
JSON object: when each step ended by the wall clock, how long it took, and the most memory.
"""

import json
import resource
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples/python"))
from fashion_mnist import images, network  # noqa: E402

BATCH, TARGET = 256, 1024


def batches(inputs, targets):
    while True:
        for batch in torch.randperm(len(inputs)).split(BATCH):
            if len(batch) == BATCH:
                yield inputs[batch], targets[batch]


def main(kind: str, steps: int, run_file: str = "", folder: str = "") -> None:
    model = network()
    loss_of = torch.nn.functional.cross_entropy
    ends, seconds = [], []
    before = time.time()

    def stepped() -> None:
        nonlocal before
        now = time.time()
        ends.append(round(now, 4))
        seconds.append(round(now - before, 6))
        before = now

    source = batches(*images("train"))
    if kind == "plain":
        opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(steps):
            for _ in range(TARGET // BATCH):
                inputs, targets = next(source)
                loss = loss_of(model(inputs), targets)
                (loss / (TARGET // BATCH)).backward()
                loss.item()
            opt.step()
            opt.zero_grad()
            stepped()
    else:
        import dedloc
        run = dedloc.host(run_file, directory=folder, listen=["/ip4/127.0.0.1/tcp/0"])
        opt = dedloc.Optimizer(run, model)
        while len(ends) < steps:
            inputs, targets = next(source)
            loss = loss_of(model(inputs), targets)
            loss.backward()
            if opt.step(loss, samples=BATCH):
                stepped()
        run.close(0.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"ends": ends, "seconds": seconds, "peak_bytes": peak}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
