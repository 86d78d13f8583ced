"""Fashion-MNIST together: the first one hosts, the others join with the string that it prints.

    python3 fashion_mnist.py fashion_mnist.toml host      # prints a join string
    python3 fashion_mnist.py dedloc1… guest               # anywhere, as often as you like

The second argument is the peer's folder. ../fashion_mnist.cpp is the same loop in C++: both may be
in one run. The images are those of Debian's package dataset-fashion-mnist.
"""

import gzip
import json
import os
import sys
import time

import dedloc
import torch

DATA = "/usr/share/datasets/fashion-mnist"
BATCH = 32


def idx(name, header):
    """An IDX file's bytes after its header."""
    with gzip.open(f"{DATA}/{name}.gz") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=header)


def images(part):
    """[n, 1, 28, 28] fp32 of mean 0 and variance 1, and [n] int64."""
    pixels = idx(f"{part}-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
    inputs = pixels.float().div_(255).sub_(0.2860).div_(0.3530)
    return inputs, idx(f"{part}-labels-idx1-ubyte", 8).long()


def network():
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(),
                          nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
                          nn.Conv2d(32, 64, 7), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))
    for layer in model:
        if isinstance(layer, nn.Conv2d):  # keeps the signal's size through ReLUs
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return model


def accuracy(model):
    inputs, targets = images("t10k")
    with torch.no_grad():
        answers = [model(part).argmax(1) for part in inputs.split(500)]
    return float((torch.cat(answers) == targets).float().mean())


def main(run_word, directory):
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = network()
    run = (dedloc.join if run_word.startswith("dedloc1") else dedloc.host)(
        run_word, directory=directory)
    opt = dedloc.Optimizer(run, model)
    print("join:", run.join_string, flush=True)
    torch.manual_seed(run.seed % 2**63)  # every peer draws other samples
    while len(run.peers) < int(os.environ.get("DEDLOC_PEERS", "1")):
        time.sleep(0.05)
    inputs, targets = images("train")
    steps = []
    while not run.finished:
        order = torch.randperm(len(inputs))
        for batch in order.split(BATCH):
            loss = torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch])
            loss.backward()
            if opt.step(loss, samples=len(batch)):
                print(f"step {run.global_step} loss {float(loss):.4f}", flush=True)
            steps += [event["fields"] for event in run.events if event["kind"] == "step"]
            if run.finished:
                break
    run.leave()
    steps += [event["fields"] for event in run.events if event["kind"] == "step"]
    print("hashes", json.dumps({step["step"]: step["state_hash"] for step in steps}))
    print("state", run.state_hash)
    print(f"accuracy {accuracy(model):.4f}")
    run.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
