"""One peer of the tests: the model and the loop of examples/train_together.cpp, in Python.

usage: peer.py RUN_FILE_OR_JOIN_STRING DIRECTORY [MODE]

DEDLOC_PEERS: how many it waits for before it trains. SIGTERM: it leaves the run in order.
"""

import json
import os
import signal
import sys
import time

import dedloc
import torch


def main(run_word: str, directory: str, mode: str = "") -> None:
    torch.set_num_threads(1)
    # A shell's background job begins with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    options = {"directory": directory, "name": "python"}
    run = (dedloc.join(run_word, **options) if run_word.startswith("dedloc1")
           else dedloc.host(run_word, **options))
    opt = dedloc.Optimizer(run, model)
    print("join:", run.join_string, flush=True)
    torch.manual_seed(run.seed % 2**63)
    while len(run.peers) < int(os.environ.get("DEDLOC_PEERS", "1")):
        time.sleep(0.05)
    batches = 0
    hashes = {}
    while not run.finished and not ended:
        inputs = torch.rand(64, 2) * 2 - 1
        loss = torch.nn.functional.mse_loss(model(inputs).squeeze(1), inputs[:, 0] * inputs[:, 1])
        loss.backward()
        batches += 1
        if mode == "nan" and batches == 3:
            for parameter in model.parameters():
                parameter.grad.fill_(float("nan"))
        if mode == "raise" and batches == 3:
            opt.zero_grad()  # as an exception's handler does: the batch was never counted
            continue
        if mode == "interrupt" and run.global_step >= 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        if mode == "leave" and run.global_step >= 2:
            break
        if mode == "exit" and run.global_step >= 2:
            print("state", run.state_hash, flush=True)
            return  # without leave(): the interpreter's exit does that
        if opt.step(loss, samples=len(inputs)):
            hashes[run.global_step] = run.state_hash
            print("step", run.global_step, float(loss), flush=True)
    run.leave()
    print("state", run.state_hash)
    print("hashes", json.dumps(hashes))
    print("peers", json.dumps(run.peers))
    print("events", json.dumps([event["kind"] for event in run.events]))
    run.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
