"""A real hivemind peer with experts (hivemind.DHT, hivemind.moe) that does what it is told on
standard input: see tests/interop/README.md. Experts are hivemind's own "ffn" block."""
import argparse
import contextlib
import json
import sys
from unittest import mock

import hivemind
import pydantic.v1 as pydantic
import torch
from hivemind.dht.crypto import RSASignatureValidator
from hivemind.dht.protocol import DHTProtocol
from hivemind.dht.routing import DHTID
from hivemind.dht.schema import SchemaValidator
from hivemind.dht.validation import CompositeValidator, DHTRecord
from hivemind.moe import ModuleBackend, RemoteExpert, RemoteMixtureOfExperts, Server, get_experts
from hivemind.moe.client.beam_search import MoEBeamSearcher
from hivemind.moe.client.moe import _RemoteCallMany
from hivemind.moe.server.dht_handler import declare_experts
from hivemind.moe.server.layers import name_to_block
from hivemind.optim.progress_tracker import TrainingProgressSchema
from hivemind.utils import get_dht_time
from hivemind.utils.tensor_descr import BatchTensorDescriptor

# The order in which parameters travel as one list.
NAMES = (
    "ffn.weight",
    "ffn.bias",
    "ffn_output.weight",
    "ffn_output.bias",
    "layer_norm.weight",
    "layer_norm.bias",
)


def module_of(width, parameters=None):
    module = name_to_block["ffn"](width)
    if parameters is not None:
        at, flat, state = 0, torch.tensor(parameters), module.state_dict()
        for name in NAMES:
            count = state[name].numel()
            state[name] = flat[at : at + count].reshape(state[name].shape)
            at += count
        assert at == len(flat), "another number of parameters"
        module.load_state_dict(state)
    return module


def flat(module):
    state = module.state_dict()
    return torch.cat([state[name].flatten() for name in NAMES]).tolist()


def passed(module, inputs, gradients):
    """Outputs and the gradients of the inputs, of anything that autograd can go through."""
    inputs = torch.tensor(inputs, requires_grad=True)
    # Only forward: a backward pass moves the experts.
    outputs = tried_again(lambda: module(inputs))
    outputs.backward(torch.tensor(gradients))
    return {"outputs": outputs.tolist(), "gradients": inputs.grad.tolist()}


class Partial(RuntimeError):
    """A forward pass without some of its experts."""


@contextlib.contextmanager
def every_call_answered(count):
    """A mixture raises Partial instead of going on with the experts that it has. Its search gives
    up a look-up after three seconds, which a busy machine can need."""
    collect = _RemoteCallMany._collect_responses

    def checked(*arguments):
        found = collect(*arguments)
        if len(found[0]) < count:
            raise Partial(f"{len(found[0])} of {count} calls were made and answered")
        return found

    with mock.patch.object(_RemoteCallMany, "_collect_responses", staticmethod(checked)):
        yield


def tried_again(work, times=3):
    for _ in range(times - 1):
        try:
            return work()
        except Partial as partial:
            print(f"again: {partial}", file=sys.stderr, flush=True)
    return work()


class Numbers(pydantic.BaseModel):
    count: pydantic.conint(ge=0, strict=True)
    rate: pydantic.confloat(ge=0.0, strict=True)


dumps = DHTProtocol.serializer.dumps
EXPIRATION = 1234567.5


def record_of(field, subkey, value):
    """Makes a regular value where there is no subkey. Values: objects, or bytes of MessagePack."""
    return DHTRecord(
        DHTID.generate(source=field).to_bytes(),
        DHTProtocol.IS_REGULAR_VALUE if subkey is None else dumps(subkey),
        dumps(value),
        EXPIRATION,
    )


def progress(**other):
    return {
        "peer_id": b"peer",
        "epoch": 3,
        "samples_accumulated": 5,
        "samples_per_second": 1.5,
        "time": 1e9,
        "client_mode": False,
        **other,
    }


class Peer:
    def __init__(self, dht):
        self.dht, self.server, self.backends = dht, None, {}
        self.rsa = RSASignatureValidator()
        known = (TrainingProgressSchema, Numbers)
        schemas = [SchemaValidator(each, prefix="run") for each in known]
        self.validator = CompositeValidator([*schemas, self.rsa])

    def owner(self):
        return {"owner": self.rsa.local_public_key.hex()}

    def records(self, theirs):
        """Records, unsigned; `theirs`: the other side's owner marker."""
        mine, theirs = self.rsa.local_public_key, bytes.fromhex(theirs)
        both = [
            record_of(field, owner + extra, value)
            for owner in (mine, theirs)
            for field, extra, value in (
                ("run_progress", b"", progress()),
                ("run_progress", b"", None),
                ("run_progress", b"", progress(epoch=3.0)),
                ("run_progress", b"", progress(samples_per_second=2)),
                ("run_progress", b"", progress(extra=1)),
                ("free", b"", [1, 2.5, "x"]),
                ("free", b"more", {"a": 1}),
            )
        ]
        free = [
            record_of("run_progress", b"nobody", progress()),
            record_of("run_progress", "[owner:x]", progress()),
            record_of("run_progress", None, progress()),
            record_of("run_progress", None, 5),
            record_of("run_count", None, 5),
            record_of("run_count", None, 5.0),
            record_of("run_count", None, True),
            record_of("run_count", None, -1),
            record_of("run_count", "subkey", 5),
            record_of("run_rate", None, 0.5),
            record_of("run_rate", None, 1),
            record_of("run_rate", None, -0.5),
            record_of("free", None, 5),
            record_of("free", "subkey", b"bytes"),
        ]
        return {"both": [self.packed(each) for each in both],
                "free": [self.packed(each) for each in free]}

    @staticmethod
    def packed(record):
        return [record.key.hex(), record.subkey.hex(), record.value.hex()]

    @staticmethod
    def unpacked(record):
        return DHTRecord(*map(bytes.fromhex, record), EXPIRATION)

    def sign(self, records):
        return {"values": [self.validator.sign_value(self.unpacked(each)).hex()
                           for each in records]}

    def accepts(self, record):
        try:
            return self.validator.validate(self.unpacked(record))
        except ValueError:  # an owner that is no key: its node fails the whole call
            return False

    def validate(self, records):
        return {"accepted": [self.accepts(each) for each in records]}

    def serve(self, uids, width, rate):
        for uid in uids:
            module = module_of(width)
            self.backends[uid] = ModuleBackend(
                name=uid,
                module=module,
                optimizer=torch.optim.SGD(module.parameters(), lr=rate),
                args_schema=(BatchTensorDescriptor(width),),
                outputs_schema=BatchTensorDescriptor(width),
                max_batch_size=64,
            )
        self.server = Server(self.dht, self.backends, num_connection_handlers=1, device="cpu")
        self.server.run_in_background(await_ready=True)
        return {}

    def declare(self, uids):
        good = declare_experts(self.dht, uids, expiration_time=get_dht_time() + 600)
        return {"declared": sum(map(bool, good.values()))}

    def parameters(self, uid):
        return {"parameters": flat(self.backends[uid].module)}

    def reference(self, parameters, width, rate, inputs, gradients):
        """The same expert at home: what it gives, and its parameters after one backward call."""
        module = module_of(width, parameters)
        result = passed(module, inputs, gradients)
        torch.optim.SGD(module.parameters(), lr=rate).step()
        return {**result, "parameters": flat(module)}

    def remote(self, uid, inputs, gradients):
        (expert,) = get_experts(self.dht, [uid])
        if expert is None:
            raise RuntimeError(f"{uid} is not in the table")
        return passed(expert, inputs, gradients)

    def search(self, grid, sizes, scores, best):
        searcher = MoEBeamSearcher(self.dht, grid + ".", tuple(sizes), negative_caching=False)
        return {
            "chosen": [
                [expert.uid for expert in searcher.find_best_experts(row, best)] for row in scores
            ]
        }

    def mix(self, grid, sizes, best, gate, inputs, gradients):
        """RemoteMixtureOfExperts with the gate's weights and bias."""
        mixture = RemoteMixtureOfExperts(
            in_features=len(inputs[0]),
            grid_size=tuple(sizes),
            dht=self.dht,
            uid_prefix=grid + ".",
            k_best=best,
            k_min=best,
            forward_timeout=30,
            backward_timeout=30,
            timeout_after_k_min=30,
            detect_anomalies=True,
        )
        self.set_gate(mixture.proj, gate)
        with every_call_answered(len(inputs) * best):
            result = passed(mixture, inputs, gradients)
        return {**result, "gate_gradient": mixture.proj.bias.grad.tolist()}

    @staticmethod
    def set_gate(gate, values):
        with torch.no_grad():
            gate.weight.copy_(torch.tensor(values["weight"]))
            gate.bias.copy_(torch.tensor(values["bias"]))

    def gate_scores(self, sizes, gate, inputs):
        layer = torch.nn.Linear(len(inputs[0]), sum(sizes))
        self.set_gate(layer, gate)
        heads = layer(torch.tensor(inputs)).split_with_sizes(sizes, dim=-1)
        return {"scores": [[head[i].tolist() for head in heads] for i in range(len(inputs))]}

    def reference_mix(self, experts, width, sizes, best, gate, inputs, gradients):
        """The same layer in one process. experts: parameters by name."""
        modules = {uid: module_of(width, values) for uid, values in experts.items()}
        layer = torch.nn.Linear(width, sum(sizes))
        self.set_gate(layer, gate)
        places = {uid: list(map(int, uid.split(".")[1:])) for uid in modules}

        def mixture(batch):
            heads = layer(batch).split_with_sizes(sizes, dim=-1)
            rows = []
            for row, values in enumerate(batch):
                score = {
                    uid: sum(head[row, at] for head, at in zip(heads, place))
                    for uid, place in places.items()
                }
                chosen = sorted(score, key=lambda uid: -score[uid].item())[:best]
                weights = torch.softmax(torch.stack([score[uid] for uid in chosen]), dim=0)
                outputs = torch.stack([modules[uid](values[None])[0] for uid in chosen])
                rows.append(weights @ outputs)
            return torch.stack(rows)

        result = passed(mixture, inputs, gradients)
        return {**result, "gate_gradient": layer.bias.grad.tolist()}

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
        self.dht.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", action="append", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dht = hivemind.DHT(
        initial_peers=arguments.bootstrap, start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"]
    )
    addresses = [str(address).partition("/p2p/")[0] for address in dht.get_visible_maddrs()]
    peer = Peer(dht)
    print(json.dumps({"id": dht.peer_id.to_base58(), "addresses": addresses}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        name = request.pop("do")
        try:
            answer = {"ok": True, **getattr(peer, name)(**request)}
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    peer.stop()


if __name__ == "__main__":
    assert hivemind.__version__ == "1.1.12", hivemind.__version__
    main()
