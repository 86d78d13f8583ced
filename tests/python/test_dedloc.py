"""The Python package against C++ peers, as processes. Run by run.sh, which says where things are:

DEDLOC_EXAMPLE   example_train_together of a build (empty: tests with a C++ peer are skipped)
DEDLOC_PROGRAM   the program dedloc of one (likewise)
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import dedloc
import torch

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
EXAMPLE = os.environ.get("DEDLOC_EXAMPLE", "")
PROGRAM = os.environ.get("DEDLOC_PROGRAM", "")
LOOPBACK = "127.0.0.1:0"
SECONDS = 300  # for a machine with much else to do
RUN_FILE = """
name = "python"
[batch]
target = {target}
micro = 64
[optimizer]
kind = "sgd"
momentum = 0.9
[schedule]
peak = 0.05
[averaging]
codec = "fp32"
[checkpoint]
every = 0
[stop]
steps = {steps}
"""


def start(*command: str, **options) -> subprocess.Popen:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            **options)


def python_peer(*arguments: str, peers: int = 1) -> subprocess.Popen:
    return start(sys.executable, str(HERE / "peer.py"), *arguments,
                 env={**os.environ, "DEDLOC_PEERS": str(peers)})


def join_string(process: subprocess.Popen) -> str:
    for line in process.stdout:
        if line.startswith("join: "):
            return line[6:].strip()
    raise AssertionError(f"no join string: {process.stderr.read()}")


def steps_of(process: subprocess.Popen, count: int) -> None:
    """Returns when the peer has made that many steps more."""
    for line in process.stdout:
        count -= line.startswith("step ")
        if count == 0:
            return
    raise AssertionError(f"it ended before: {process.stderr.read()}")


def process_of_rank(rank: int, ranks: subprocess.Popen) -> int:
    for line in ranks.stdout:
        if line.startswith(f"rank {rank} is "):
            return int(line.split()[-1])
    raise AssertionError(f"it did not begin: {ranks.stderr.read()}")


def word_after(output: str, mark: str) -> str:
    return output.split(mark, 1)[1].splitlines()[0].strip()


def python_hashes(output: str) -> dict[str, str]:
    """The state's hash after each step that a peer took part in."""
    return json.loads(word_after(output, "\nhashes "))


def cpp_hashes(folder: str) -> dict[str, str]:
    lines = (Path(folder) / "events.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [event["fields"] for event in map(json.loads, lines) if event["kind"] == "step"]
    return {str(step["step"]): step["state_hash"] for step in steps}


def too_long(*_: object) -> None:
    raise AssertionError(f"the test took more than {SECONDS} s")


class Folder(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = self._folder.name
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(SECONDS)
        self.addCleanup(signal.alarm, 0)

    def run_file(self, target: int = 2048, steps: int = 10) -> str:
        path = Path(self.folder) / "run.toml"
        path.write_text(RUN_FILE.format(target=target, steps=steps))
        return str(path)

    def ends(self, process: subprocess.Popen, code: int = 0) -> str:
        output, errors = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, code, errors)
        return output

    def end(self, *processes: subprocess.Popen) -> list[str]:
        """They leave in order, the first one last. A run that is to be shared has no last step of
        its own: on a quiet machine the host would have made it before the others have come."""
        outputs = []
        for process in reversed(processes):
            process.terminate()
            outputs.append(self.ends(process))
        return outputs[::-1]

    def expect_one_state(self, *hashes: dict[str, str]) -> None:
        self.assertTrue(set.intersection(*map(set, hashes)), "they shared no step")
        for step in set.union(*map(set, hashes)):
            self.assertEqual(len({of[step] for of in hashes if step in of}), 1, f"step {step}")

    def host(self, model, directory="host", **run) -> tuple[dedloc.Run, dedloc.Optimizer]:
        opened = dedloc.host(self.run_file(**run), directory=f"{self.folder}/{directory}")
        self.addCleanup(opened.close, 0.0)
        return opened, dedloc.Optimizer(opened, model)


class ProcessesTest(Folder):
    def test_two_python_peers_end_with_one_state(self):
        host = python_peer(self.run_file(), f"{self.folder}/a", peers=2)
        guest = python_peer(join_string(host), f"{self.folder}/b", peers=2)
        outputs = [self.ends(host), self.ends(guest)]
        states = {word_after(output, "\nstate ") for output in outputs}
        self.assertEqual(len(states), 1, outputs)
        self.assertIn("step", json.loads(word_after(outputs[0], "\nevents ")))
        self.assertTrue(json.loads(word_after(outputs[0], "\npeers ")))

    @unittest.skipUnless(EXAMPLE, "no C++ example was built")
    def test_two_python_peers_and_a_cpp_peer_end_with_one_state(self):
        host = start(EXAMPLE, self.run_file(target=16384, steps=0), f"{self.folder}/a")
        join = join_string(host)
        guests = [python_peer(join, f"{self.folder}/{name}") for name in "bc"]
        for guest in guests:
            steps_of(guest, 5)
        outputs = self.end(host, *guests)
        self.expect_one_state(cpp_hashes(f"{self.folder}/a"), *map(python_hashes, outputs[1:]))

    def test_a_killed_peer_does_not_end_the_run(self):
        host = python_peer(self.run_file(target=8192, steps=0), f"{self.folder}/a", peers=2)
        guest = python_peer(join_string(host), f"{self.folder}/b", peers=2)
        steps_of(guest, 1)  # both are at work
        guest.send_signal(signal.SIGKILL)
        guest.communicate(timeout=SECONDS)
        steps_of(host, 5)
        self.assertIn("\nstate ", "\n" + self.end(host)[0])

    def light_run_file(self) -> str:
        """Steps of each peer's own, sparse rounds, made while peers compute on."""
        path = Path(self.run_file(target=4096, steps=0))
        path.write_text(path.read_text().replace('"fp32"', '"sparse"\ndelayed = true') +
                        '[local]\nbatch = 256\n[local.optimizer]\nkind = "adamw"\n'
                        '[local.schedule]\npeak = 0.003\n')
        return str(path)

    def test_light_peers_have_one_state_after_every_step_and_after_a_kill(self):
        host = python_peer(self.light_run_file(), f"{self.folder}/a", peers=2)
        join = join_string(host)
        guest = python_peer(join, f"{self.folder}/b", peers=2)
        steps_of(guest, 5)
        guest.kill()
        guest.communicate(timeout=SECONDS)
        before = cpp_hashes(f"{self.folder}/b")
        steps_of(host, 3)
        guest = python_peer(join, f"{self.folder}/b", peers=2)
        steps_of(guest, 5)
        _, output = self.end(host, guest)
        after = cpp_hashes(f"{self.folder}/b")
        hosts = cpp_hashes(f"{self.folder}/a")
        self.expect_one_state(hosts, before)
        self.expect_one_state(hosts, {step: after[step] for step in after.keys() - before.keys()})
        self.expect_one_state(hosts, python_hashes(output))

    def test_a_stopped_peer_catches_up(self):
        host = python_peer(self.run_file(target=4096, steps=0), f"{self.folder}/a", peers=3)
        join = join_string(host)
        guests = [python_peer(join, f"{self.folder}/{name}", peers=3) for name in "bc"]
        steps_of(guests[1], 1)
        guests[1].send_signal(signal.SIGSTOP)
        steps_of(host, 5)  # two of three voters go on
        guests[1].send_signal(signal.SIGCONT)
        steps_of(guests[1], 3)
        self.expect_one_state(*map(python_hashes, self.end(host, *guests)))

    def test_who_leaves_is_not_waited_for(self):
        host = python_peer(self.run_file(steps=20), f"{self.folder}/a", peers=2)
        guest = python_peer(join_string(host), f"{self.folder}/b", "leave", peers=2)
        self.assertIn("\nstate ", self.ends(guest))
        self.assertIn("\nstate ", self.ends(host))

    def test_ctrl_c_leaves_in_order(self):
        process = python_peer(self.run_file(steps=10**6), f"{self.folder}/a", "interrupt")
        _, errors = process.communicate(timeout=SECONDS)
        self.assertIn("KeyboardInterrupt", errors)

    def test_the_interpreters_exit_leaves_the_run(self):
        host = python_peer(self.run_file(steps=20), f"{self.folder}/a", peers=2)
        guest = python_peer(join_string(host), f"{self.folder}/b", "exit", peers=2)
        self.ends(guest)
        self.assertIn("\nstate ", self.ends(host))

    def torchrun(self, run_word: str, directory: str, *mode: str) -> subprocess.Popen:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return start(sys.executable, str(HERE / "torchrun.py"), "--nproc_per_node", "2",
                     "--master_port", str(port), str(HERE / "group.py"), run_word, directory, *mode)

    def end_ranks(self, ranks: subprocess.Popen) -> dict[str, str]:
        """After a few steps; the hashes of their states."""
        first = process_of_rank(0, ranks)
        steps_of(ranks, 5)
        os.kill(first, signal.SIGTERM)  # torchrun's own would end them at once
        return python_hashes(self.ends(ranks))

    def test_two_ranks_of_a_process_group_are_one_peer(self):
        host = python_peer(self.run_file(target=2048, steps=0), f"{self.folder}/a", peers=2)
        ranks = self.torchrun(join_string(host), f"{self.folder}/b")
        hashes = self.end_ranks(ranks)
        self.expect_one_state(python_hashes(self.end(host)[0]), hashes)

    @unittest.skipUnless(EXAMPLE, "no C++ example was built")
    def test_two_ranks_and_a_cpp_peer_end_with_one_state(self):
        host = start(EXAMPLE, self.run_file(target=16384, steps=0), f"{self.folder}/a")
        ranks = self.torchrun(join_string(host), f"{self.folder}/b")
        hashes = self.end_ranks(ranks)
        self.end(host)
        self.expect_one_state(cpp_hashes(f"{self.folder}/a"), hashes)

    def test_ranks_that_leave_together_hand_in_what_each_has_summed(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(),
                                    torch.nn.Linear(32, 1))
        run, optimizer = self.host(model, target=192, steps=1)
        ranks = self.torchrun(run.join_string, f"{self.folder}/b", "together")
        while sum(peer["samples"] for peer in run.peers) < 128:
            self.assertIsNone(ranks.poll())
            time.sleep(0.01)
        model(torch.rand(64, 2)).square().mean().backward()
        self.assertTrue(optimizer.step(samples=64))
        self.ends(ranks)
        step = next(event["fields"] for event in run.events if event["kind"] == "step")
        self.assertEqual((step["samples"], step["contributors"]), (192, 2))

    def test_a_killed_rank_does_not_end_the_run(self):
        host = python_peer(self.run_file(target=8192, steps=0), f"{self.folder}/a", peers=2)
        ranks = self.torchrun(join_string(host), f"{self.folder}/b")
        victim = process_of_rank(1, ranks)
        steps_of(host, 1)  # the host begins when it has seen both peers
        os.kill(victim, signal.SIGKILL)
        ranks.communicate(timeout=SECONDS)
        self.assertNotEqual(ranks.returncode, 0)
        steps_of(host, 5)
        self.assertIn("\nstate ", "\n" + self.end(host)[0])


class OnePeerTest(Folder):
    def batch(self, model, optimizer, samples=64, scale=1.0):
        inputs = torch.rand(samples, 2)
        loss = (model(inputs) * scale).square().mean()
        loss.backward()
        return optimizer.step(loss, samples=samples)

    def test_the_step_is_sgds_own(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(2, 1)
        plain = torch.nn.Linear(2, 1)
        plain.load_state_dict(model.state_dict())
        run, optimizer = self.host(model, target=128, steps=3)
        inputs = torch.rand(64, 2)
        for half in inputs, inputs + 1:
            model(half).square().mean().backward()
            stepped = optimizer.step(samples=64)
        self.assertTrue(stepped)
        plain(torch.cat([inputs, inputs + 1])).square().mean().backward()
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter -= 0.05 * parameter.grad
        for ours, theirs in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        self.assertEqual(run.global_step, 1)

    def test_parameters_are_written_where_they_lie(self):
        model = torch.nn.Linear(2, 1)
        address = model.weight.data_ptr()
        before = model.weight.detach().clone()
        _, optimizer = self.host(model, target=64)
        self.assertTrue(self.batch(model, optimizer))
        self.assertEqual(model.weight.data_ptr(), address)
        self.assertFalse(torch.equal(model.weight, before))

    def test_batch_norm_moves_with_its_counter(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        _, optimizer = self.host(model, target=128)
        self.batch(model, optimizer)
        self.assertTrue(self.batch(model, optimizer))
        self.assertEqual(int(model[1].num_batches_tracked), 2)
        self.assertFalse(torch.equal(model[1].running_mean, torch.zeros(4)))

    def test_a_model_whose_memory_is_not_plain_trains(self):
        torch.manual_seed(2)
        model = torch.nn.Linear(3, 4)
        model.weight.data = model.weight.data.t().contiguous().t()
        before = model.weight.detach().clone()
        run = dedloc.host(self.run_file(target=64), directory=f"{self.folder}/a")
        optimizer = dedloc.Optimizer(run, model)
        self.assertIsNotNone(optimizer._calls)
        model(torch.rand(64, 3)).square().mean().backward()
        expected = before - 0.05 * model.weight.grad
        self.assertTrue(optimizer.step(samples=64))
        torch.testing.assert_close(model.weight.detach(), expected, rtol=1e-5, atol=1e-6)
        run.close(0.0)

    def test_nan_leaves_no_trace_and_64_in_a_row_raise(self):
        model = torch.nn.Linear(2, 1)
        _, optimizer = self.host(model, target=64 * 1000)
        self.batch(model, optimizer, scale=math.nan)
        for parameter in model.parameters():
            self.assertTrue(torch.isfinite(parameter).all())
        with self.assertRaises(dedloc.CannotCompute):
            for _ in range(70):
                self.batch(model, optimizer, scale=math.nan)

    def test_an_exception_between_backward_and_step_counts_nothing(self):
        model = torch.nn.Linear(2, 1)
        run, optimizer = self.host(model, target=128)
        model(torch.rand(64, 2)).sum().backward()
        optimizer.zero_grad()
        self.batch(model, optimizer)
        self.assertEqual(run.peers[0]["samples"], 64)

    def test_gradient_scaler_and_accumulation(self):
        model = torch.nn.Linear(2, 1)
        run, optimizer = self.host(model, target=64)
        scaler = torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())
        for _ in range(2):
            scaler.scale(model(torch.rand(32, 2)).square().mean() / 2).backward()
        self.assertTrue(scaler.step(optimizer, samples=64))
        scaler.update()
        self.assertEqual(run.global_step, 1)

    def test_progress_ends_with_the_run_and_callbacks_stop_trainers(self):
        model = torch.nn.Linear(2, 1)
        run, optimizer = self.host(model, target=64, steps=3)
        seen = []
        for step in dedloc.callbacks.progress(run):
            seen.append(step)
            self.batch(model, optimizer)
        self.assertEqual(seen, [0, 1, 2])

        class Control:
            should_training_stop = False
        control = dedloc.callbacks.TrainerCallback(run).on_step_end(None, None, Control())
        self.assertTrue(control.should_training_stop)
        dedloc.callbacks.LightningCallback(run).on_train_batch_end(control)
        self.assertTrue(control.should_stop)

    def test_two_optimizers_in_one_process_are_two_peers(self):
        torch.manual_seed(3)
        models = [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]
        run, first = self.host(models[0], steps=1, target=10**6)
        other = dedloc.join(run.join_string, directory=f"{self.folder}/b")
        dedloc.Optimizer(other, models[1])
        self.assertTrue(torch.equal(models[0].weight, models[1].weight))
        self.assertEqual(run.state_hash, other.state_hash)
        self.assertEqual(len(other.peers), 2)
        other.close(0.0)
        with self.assertRaises(dedloc.BadInput):
            dedloc.Optimizer(run, models[1])

    def test_after_a_fork_only_the_parent_uses_the_run(self):
        run, _ = self.host(torch.nn.Linear(2, 1))
        child = os.fork()
        if child == 0:
            try:
                run.global_step
            except dedloc.DedlocError as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(run.global_step, 0)


class ErrorsTest(Folder):
    def test_another_model_is_a_different_run(self):
        run, _ = self.host(torch.nn.Linear(2, 3))
        other = dedloc.join(run.join_string, directory=f"{self.folder}/b", patience=10)
        with self.assertRaises(dedloc.DifferentRun):  # as many numbers, under other names
            dedloc.Optimizer(other, torch.nn.Sequential(torch.nn.Linear(2, 3)))
        third = dedloc.join(run.join_string, directory=f"{self.folder}/c", patience=10)
        with self.assertRaises(dedloc.BadInput):
            dedloc.Optimizer(third, torch.nn.Linear(3, 2))

    def test_what_is_wrong_is_said_by_kind(self):
        model = torch.nn.Linear(2, 1)
        with self.assertRaises(dedloc.NotFound):
            dedloc.Optimizer(dedloc.host(f"{self.folder}/no.toml",
                                         directory=f"{self.folder}/a"), model)
        with self.assertRaises(dedloc.BadInput):
            dedloc.Optimizer(dedloc.join("nonsense", directory=f"{self.folder}/b"), model)
        with self.assertRaises(dedloc.BadInput):
            dedloc.Optimizer(dedloc.host(self.run_file()), model, target_batch_size=10)
        with self.assertRaises(dedloc.DedlocError):
            dedloc.host(self.run_file()).join_string

    def test_step_without_a_gradient_or_of_too_many_samples_is_bad_input(self):
        model = torch.nn.Linear(2, 1)
        _, optimizer = self.host(model, target=64)
        with self.assertRaises(dedloc.BadInput):
            optimizer.step(samples=32)
        model(torch.rand(8, 2)).sum().backward()
        with self.assertRaises(dedloc.BadInput):
            optimizer.step(samples=65)

    def test_the_library_links_no_pytorch(self):
        from dedloc import _library
        needed = subprocess.run(["ldd", str(_library._path())], capture_output=True, text=True,
                                check=True).stdout
        self.assertNotIn("torch", needed)
        self.assertNotIn("libc10", needed)


if __name__ == "__main__":
    unittest.main()
