"""Two ranks (Gloo) that are one peer. Started by test_dedloc.py with torchrun.

usage: group.py RUN_FILE_OR_JOIN_STRING DIRECTORY [together]

SIGTERM for rank 0: it leaves the run. together: both leave it, after one batch each.
"""

import json
import os
import signal
import sys

import dedloc
import torch
import torch.distributed as distributed


def main(run_word: str, directory: str, mode: str = "") -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(5)  # the same model on each rank
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    run = None
    if rank == 0:
        run = (dedloc.join(run_word, directory=directory) if run_word.startswith("dedloc1")
               else dedloc.host(run_word, directory=directory))
    opt = dedloc.Optimizer(run, model, process_group=distributed.group.WORLD)
    torch.manual_seed(100 + rank + (run.seed % 2**31 if run else 0))
    if mode == "together":
        leave_together(opt, model)
        return
    over = torch.zeros(1)
    hashes = {}
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    # print() would write the line in two pieces, between which another rank may write its own.
    os.write(sys.stdout.fileno(), f"rank {rank} is {os.getpid()}\n".encode())
    while not over:
        inputs = torch.rand(64, 2) * 2 - 1
        loss = torch.nn.functional.mse_loss(model(inputs).squeeze(1), inputs[:, 0] * inputs[:, 1])
        loss.backward()
        if opt.step(loss, samples=len(inputs)) and run is not None:
            hashes[run.global_step] = run.state_hash
            print("step", run.global_step, flush=True)
        over.fill_(float(run is not None and (run.finished or len(ended) > 0)))
        distributed.broadcast(over, 0)
    same_numbers(model)
    if run is not None:
        run.leave()
        print("state", run.state_hash)
        print("hashes", json.dumps(hashes))
        run.close()


def same_numbers(model: torch.nn.Module) -> None:
    numbers = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    both = [torch.empty_like(numbers) for _ in range(2)]
    distributed.all_gather(both, numbers)
    assert torch.equal(*both), "the ranks hold other parameters"


def leave_together(opt: dedloc.Optimizer, model: torch.nn.Module) -> None:
    """One batch each, which all other peers have to fill up."""
    model(torch.ones(64, 2)).square().mean().backward()
    opt.step(samples=64)
    opt.shutdown(patience=120)
    same_numbers(model)


if __name__ == "__main__":
    main(*sys.argv[1:])
