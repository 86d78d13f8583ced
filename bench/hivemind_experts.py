"""hivemind's side of ./bench.sh experts: a server of its "ffn" blocks in a process of its own, and
clients that call them, forward and backward, in turn. Run by the Python of the interop tests
(tests/interop/partners.py), with OpenBLAS under its torch.

    hivemind_experts.py --experts 4 --width 256 --batch 64 --clients 1 --seconds 5

The last line is an object: samples_per_s, pairs, ms."""

import argparse
import json
import statistics
import threading
import time

import hivemind
import torch
from hivemind.moe import ModuleBackend, Server, get_experts
from hivemind.moe.server.layers import name_to_block
from hivemind.utils.tensor_descr import BatchTensorDescriptor


def backend(uid, width):
    module = name_to_block["ffn"](width)
    return ModuleBackend(
        name=uid,
        module=module,
        optimizer=torch.optim.Adam(module.parameters(), lr=1e-3),
        args_schema=(BatchTensorDescriptor(width),),
        outputs_schema=BatchTensorDescriptor(width),
        max_batch_size=4096,
    )


def call_for(experts, rows, first, end, took):
    inputs = rows.clone().requires_grad_()
    index = first
    while time.perf_counter() < end:
        begun = time.perf_counter()
        experts[index % len(experts)](inputs).backward(rows)
        took.append(time.perf_counter() - begun)
        index += 1


def measure(experts, rows, clients, seconds):
    took = []
    begun = time.perf_counter()
    threads = [
        threading.Thread(target=call_for, args=(experts, rows, i, begun + seconds, took))
        for i in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--experts", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    uids = [f"ffn.{i}" for i in range(options.experts)]
    server_dht = hivemind.DHT(start=True)
    backends = {uid: backend(uid, options.width) for uid in uids}
    server = Server(server_dht, backends, num_connection_handlers=1, device="cpu")
    server.run_in_background(await_ready=True)
    client_dht = hivemind.DHT(initial_peers=server_dht.get_visible_maddrs(), start=True)
    experts = []
    for _ in range(50):
        experts = get_experts(client_dht, uids)
        if all(experts):
            break
        time.sleep(0.2)
    rows = torch.randn(options.batch, options.width)
    measure(experts, rows, 1, 1)
    took, seconds = measure(experts, rows, options.clients, options.seconds)
    print(
        json.dumps(
            {
                "samples_per_s": len(took) * options.batch / seconds,
                "pairs": len(took),
                "ms": 1e3 * statistics.median(took),
            }
        ),
        flush=True,
    )
    server.shutdown()
    client_dht.shutdown()
    server_dht.shutdown()


if __name__ == "__main__":
    main()
