"""A peer of bench/against_hivemind.py: one PyTorch script, and dedloc's Optimizer or hivemind's.

    race_peer.py SYSTEM NUMBER FOLDER IP RUN_FILE

SYSTEM is dedloc or hivemind; peer 0 begins the run. When all are ready (FOLDER/ready-N) a file
FOLDER/go appears, and they train until peer 0 sees the held-out loss LOSS (environment).
Peer 0 prints {"seconds", "steps", "loss"} as its last line.
"""

import json
import os
import sys
import time
import tomllib
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples/python"))
from fashion_mnist import images  # noqa: E402

BATCH = 128
HELD_OUT = 2000


def wait_for(path: Path) -> str:
    while not path.exists() or not path.read_text():
        time.sleep(0.02)
    return path.read_text()


def publish(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    nn = torch.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 256),
                         nn.ReLU(), nn.Linear(256, 10))


def dedloc_optimizer(model, number, folder, ip, run_file):
    import dedloc
    options = {"directory": str(folder / f"peer-{number}"), "listen": [f"/ip4/{ip}/tcp/0"]}
    run = (dedloc.host(run_file, **options) if number == 0
           else dedloc.join(wait_for(folder / "begin"), **options))
    opt = dedloc.Optimizer(run, model, batch_size_per_step=BATCH)
    if number == 0:
        publish(folder / "begin", run.join_string)
    return opt, run.seed


def hivemind_optimizer(model, number, folder, ip, run_file):
    import hivemind
    settings = tomllib.loads(Path(run_file).read_text())
    begin = None if number == 0 else wait_for(folder / "begin").split()
    dht = hivemind.DHT(initial_peers=begin, host_maddrs=[f"/ip4/{ip}/tcp/0"], start=True,
                       use_relay=False, use_auto_relay=False)
    if number == 0:
        publish(folder / "begin", " ".join(str(a) for a in dht.get_visible_maddrs()))
    compression = hivemind.compression.Float16Compression()
    return hivemind.Optimizer(
        dht=dht, run_id="race", target_batch_size=settings["batch"]["target"],
        batch_size_per_step=BATCH, params=model.parameters(),
        optimizer=lambda params: torch.optim.SGD(
            params, lr=settings["schedule"]["peak"], momentum=settings["optimizer"]["momentum"]),
        # The shortest that its groups still form in; its default is 15 s.
        matchmaking_time=float(os.environ.get("MATCHMAKING", "3")), averaging_timeout=30,
        grad_compression=compression, state_averaging_compression=compression,
        tracker_opts={"min_refresh_period": 0.2, "default_refresh_period": 0.5},
        verbose=False), number


def main(system: str, number: int, folder: Path, ip: str, run_file: str) -> None:
    torch.set_num_threads(1)
    loss_wanted = float(os.environ["LOSS"])
    model = network()
    inputs, targets = images("train")
    held_out = [part[:HELD_OUT] for part in images("t10k")]
    make = dedloc_optimizer if system == "dedloc" else hivemind_optimizer
    opt, seed = make(model, number, folder, ip, run_file)
    torch.manual_seed(seed % 2**63)
    publish(folder / f"ready-{number}", "1")
    wait_for(folder / "go")
    begun = time.monotonic()
    seen = opt.local_epoch
    while True:
        batch = torch.randint(len(inputs), (BATCH,))
        loss = torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch])
        loss.backward()
        opt.step(batch_size=BATCH)
        opt.zero_grad()
        if number != 0 or opt.local_epoch == seen:
            continue
        seen = opt.local_epoch
        with torch.no_grad():
            loss = float(torch.nn.functional.cross_entropy(model(held_out[0]), held_out[1]))
        print(json.dumps({"seconds": round(time.monotonic() - begun, 2), "steps": seen,
                          "loss": round(loss, 4)}), flush=True)
        if loss <= loss_wanted:
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5])
